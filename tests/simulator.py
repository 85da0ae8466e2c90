"""The bank simulator as a process of its own, and its controls, for tests."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import requests

ROOT = Path(__file__).resolve().parent.parent
CONTROL_TOKEN = "control-token-of-the-tests"
READY_WITHIN_S = 20


class Simulator:
    """A running simulator: `url` is its base, `get` and `post` are plain HTTP, the rest its controls."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.session = requests.Session()
        self.session.trust_env = False

    def get(self, path: str, **kwargs: Any) -> requests.Response:
        return self.session.get(self.url + path, timeout=10, **kwargs)

    def post(self, path: str, **kwargs: Any) -> requests.Response:
        return self.session.post(self.url + path, timeout=10, **kwargs)

    def control(self, method: str, path: str, body: Any = None) -> Any:
        """Call a control and return its JSON; `requests.HTTPError` where it refuses."""
        answer = self.session.request(
            method,
            f"{self.url}/_control/{path}",
            json=body,
            headers={"X-Control-Token": CONTROL_TOKEN},
            timeout=10,
        )
        answer.raise_for_status()
        return answer.json()

    def reset(self) -> None:
        """Forget all state."""
        self.control("POST", "reset")

    def behave(self, bank: str, **settings: Any) -> None:
        """Set a bank's `latency_ms`, `fault`, `operation`, `times`; nothing clears them."""
        self.control("POST", f"banks/{bank}", settings)

    def calls(self, bank: str, operation: str = "") -> list[dict[str, Any]]:
        """What arrived at a bank, oldest first."""
        found: list[dict[str, Any]] = self.control("GET", f"banks/{bank}/calls?operation={operation}")
        return found

    def contracts(self, bank: str) -> list[dict[str, Any]]:
        """The bank's ledger, oldest first."""
        found: list[dict[str, Any]] = self.control("GET", f"banks/{bank}/contracts")
        return found

    def complete(self, cpf: str, provider: str, step: str, outcome: str = "approved") -> None:
        """End the newest open step of that kind as the holder, or the desk, would."""
        self.control(
            "POST", f"holders/{cpf}/complete", {"provider": provider, "step": step, "outcome": outcome}
        )

    def advance(self, seconds: float) -> None:
        """Move the simulator's clock forward."""
        self.control("POST", "clock", {"advance_s": seconds})


def free_port() -> int:
    """A TCP port of the loopback address that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def running_simulator(callback_base_url: str = "http://127.0.0.1:9") -> Iterator[Simulator]:
    """Start the simulator on a free port, wait until it answers, stop it at the end."""
    port = free_port()
    environment = {
        **os.environ,
        "SIMULATOR_PORT": str(port),
        "SIMULATOR_CONTROL_TOKEN": CONTROL_TOKEN,
        "CALLBACK_BASE_URL": callback_base_url,
    }
    process = subprocess.Popen([sys.executable, "-m", "providers.simulator"], cwd=ROOT, env=environment)
    try:
        simulator = Simulator(f"http://127.0.0.1:{port}")
        _wait_until_ready(simulator, process)
        with simulator.session:
            yield simulator
    finally:
        process.terminate()
        process.wait(timeout=10)


def _wait_until_ready(simulator: Simulator, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + READY_WITHIN_S
    while True:
        try:
            simulator.get("/")
        except requests.ConnectionError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return
