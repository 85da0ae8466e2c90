"""The service's real processes and the simulator, for tests that go over HTTP."""

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Self, TypeVar
from urllib.parse import parse_qsl

import requests
import urllib3

from bench.programs import Programs
from simulator.fields import parse_xml

ROOT = Path(__file__).resolve().parent.parent
START_TIMEOUT_S = 60

T = TypeVar("T")
#: A server is away for the duration of a `with`: the fixtures `cut_database` and `freeze_redis`.
Outage = Callable[[], AbstractContextManager[None]]


def wait_until(
    condition: Callable[[], T | None],
    timeout_s: float,
    what: str,
    logs: Callable[[], str] = str,
    *,
    every_s: float = 0.05,
) -> T:
    """Poll `condition` every `every_s` seconds until its value is true, and return that value.

    Fails after `timeout_s` seconds, with the description `what` and the text of `logs`.
    """
    deadline = time.monotonic() + timeout_s
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_s:g} s: {what}\n{logs()}")
        time.sleep(every_s)
    return found


def answers(url: str) -> int | None:
    """The status of the response from `url`, or None."""
    try:
        return urllib3.request("GET", url, timeout=5, retries=False, headers={"Connection": "close"}).status
    except urllib3.exceptions.HTTPError:
        return None


def web_alone(programs: Programs, **environment: str) -> tuple[str, int]:
    """The address of one web process, which has `environment` and answers."""
    port = int(os.environ["PORT"])
    programs.ensure("web", **environment)
    wait_until(lambda: answers(f"http://127.0.0.1:{port}/health/live"), START_TIMEOUT_S, "the web process answers")
    return "127.0.0.1", port


class Simulator:
    """The simulated banks: their base URL, their controls, and the calls that they recorded.

    `request`, `get` and `post` send a plain request to a path, or to a whole URL, of the simulator.

    Calls with a refused token are included if `shows_turned_away`. With real processes, such calls depend on tokens
    kept from earlier tests.
    """

    def __init__(self, url: str, token: str, shows_turned_away: bool = False) -> None:
        self.url = url
        self._shows_turned_away = shows_turned_away
        self.control_headers = {"X-Control-Token": token}
        self._http = urllib3.PoolManager(headers=self.control_headers, retries=False, timeout=10)
        self._session = requests.Session()
        self._session.trust_env = False

    def request(self, method: str, path: str, timeout: float = 10, **options: Any) -> requests.Response:
        return self._session.request(method, self.url + path.removeprefix(self.url), timeout=timeout, **options)

    def get(self, path: str, **options: Any) -> requests.Response:
        return self.request("GET", path, **options)

    def post(self, path: str, **options: Any) -> requests.Response:
        return self.request("POST", path, **options)

    def control(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """POST `body` (without a body: GET) to a `/_control/` route. Returns the response's JSON, or None."""
        method = "GET" if body is None else "POST"
        answer = self._http.request(method, f"{self.url}/_control/{path}", json=body)
        assert answer.status < 300, f"{method} {path}: {answer.status} {answer.data[:500]!r}"
        return answer.json() if answer.data else None

    def reset(self) -> None:
        """Reset all state, faults and the clock. Tokens stay valid, because the service's processes outlive a test and
        keep theirs."""
        self.control("reset", {"keep_tokens": True})

    def bank(self, name: str, **settings: Any) -> None:
        """Set a bank's `latency_ms`, `fault`, `operation`, `times`. Without settings the bank behaves normally
        again."""
        self.control(f"banks/{name}", settings)

    def calls(self, name: str, operation: str | None = None) -> list[dict[str, Any]]:
        """The calls recorded by a bank, oldest first."""
        query = f"?operation={operation}" if operation else ""
        found = self.control(f"banks/{name}/calls{query}")
        return [call for call in found if call["let_in"] or self._shows_turned_away]

    def worked(self, name: str, operation: str) -> list[dict[str, Any]]:
        """The calls that a bank worked on: not those refused for a token that the simulator's reset deleted."""
        return [call for call in self.calls(name, operation) if call["worked"]]

    def sent(self, name: str, operation: str) -> Any:
        """The body of the newest call of that operation that arrived at a bank: JSON, XML as nested dicts, or a form's
        fields."""
        body: str = self.calls(name, operation)[-1]["body"]
        if body.startswith("<"):
            return parse_xml(body.encode())
        is_form = body[:1].isalpha()
        return dict(parse_qsl(body, keep_blank_values=True, strict_parsing=True)) if is_form else json.loads(body)

    def phone(self, cpf: str) -> str:
        """The page of the holder's phone with the banks' messages and URLs."""
        return self._http.request("GET", f"{self.url}/phone/{cpf}").data.decode()

    def contracts(self, name: str) -> list[dict[str, Any]]:
        """The contracts in a bank's ledger."""
        return self.control(f"banks/{name}/contracts")

    def complete(self, cpf: str, provider: str, step: str, outcome: str = "approved") -> None:
        """Complete a step: liveness, chat, sms, confirmation, signature, or the bank's desk."""
        body = {"provider": provider, "step": step, "outcome": outcome}
        self.control(f"holders/{cpf}/complete", body)

    def lab(self, cpf: str, path: str, **order: Any) -> None:
        """Give the laboratory an order about one holder: a scenario to play, or what happens then."""
        method, path = ("POST", f"/{path}") if path else ("PUT", "")
        answer = self._http.request(method, f"{self.url}/lab/holders/{cpf}{path}", json=order)
        assert answer.status < 300, f"{path}: {answer.status} {answer.data[:500]!r}"

    def advance(self, seconds: float) -> None:
        """Move the simulator's clock forward."""
        self.control("clock", {"advance_s": seconds})

    def close(self) -> None:
        """Close the HTTP connections."""
        self._http.clear()
        self._session.close()


class Started:
    """A program that runs in the project's folder, with its output at the end of the file `log`. A `with` kills it at
    its end."""

    def __init__(self, command: Sequence[str], log: Path, **options: Any) -> None:
        self._log = log
        with log.open("ab") as output:
            self.handle = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output, **options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.handle.kill()
        self.handle.wait()

    @property
    def output(self) -> str:
        return self._log.read_text()

    def wait_for(self, pattern: str, timeout_s: float = 180) -> re.Match[str]:
        """The output's first match of `pattern`, once there is one. Fails if the program ends before."""

        def found() -> re.Match[str] | None:
            has_ended = self.handle.poll() is not None
            match = re.search(pattern, self.output)
            assert match or not has_ended, self.output
            return match

        return wait_until(found, timeout_s, pattern, lambda: self.output)

    def end(self, number: signal.Signals = signal.SIGINT) -> int:
        """End the program by a signal. Returns its exit code."""
        self.handle.send_signal(number)
        return self.handle.wait(timeout=40)


def run(*command: str, folder: Path, **options: Any) -> str:
    """The output of a program that runs in `folder`. Fails the test if the program fails."""
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL, **options
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


class LiveService:
    """The whole service as processes on the test database: its base URL, its programs, their logs."""

    def __init__(self, url: str, programs: Programs) -> None:
        self.url = url
        self.programs = programs

    def wait_ready(self) -> None:
        """Wait until database, broker and a bank worker answer. `/health/ready` may be 2 s old."""
        from config import health

        wait_until(lambda: health.ping(timeout_s=1.0), START_TIMEOUT_S, "a bank worker answers", self.logs)
        wait_until(
            lambda: answers(f"{self.url}/health/ready") == 200, START_TIMEOUT_S, "the service is ready", self.logs
        )

    def kill_web_workers(self) -> None:
        """Kill the web processes that serve. Their parent starts others."""
        parent = self.programs.pid("web")
        for child in Path(f"/proc/{parent}/task/{parent}/children").read_text().split():
            os.kill(int(child), signal.SIGKILL)

    def logs(self) -> str:
        """Everything that its processes have logged since the session began."""
        return self.programs.logs()
