"""The measured processes: the service as `make run` starts it, its peers, their servers, and their CPU time as the
kernel reports it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path

import psycopg
import urllib3
from psycopg.types.json import Jsonb

from bench.programs import Programs, running
from config.local.run import service_processes
from config.local.servers import Postgres, Redis, free_port
from config.local.supervisor import Process
from providers import registry

ROOT = Path(__file__).resolve().parent.parent
BANKS = registry.names()
PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")
READY_TIMEOUT_S = 60
CONTROL = {"X-Control-Token": "dev-control"}


def cpu_s(pid: int) -> float:
    """CPU seconds that the process `pid` and its children have used. Zero if the process has ended."""
    return sum(_own_cpu_s(each) for each in [pid, *_children(pid)])


def memory_mb(pid: int) -> float:
    """Resident memory of the process `pid` and its children, in MiB."""
    pages = 0
    for each in [pid, *_children(pid)]:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            pages += int(Path(f"/proc/{each}/statm").read_text().split()[1])
    return pages * PAGE / 2**20


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def _own_cpu_s(pid: int) -> float:
    """User and system time of `pid`, and of those of its children that have ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return sum(map(int, fields[11:15])) / TICKS


#: The events that an ordinary partner's registration asks for.
ORDINARY_EVENTS = ["lead", "authorization_result", "authorization.completed"]


class Subject:
    """Something to be measured: processes that answer partners' queries at `url`."""

    def __init__(self, name: str, url: str, home: Path, tree: Path = ROOT) -> None:
        self.name = name
        self.url = url
        self.home = home
        self.tree = tree
        self.programs = Programs([], tree, home / "logs")
        self.environment: Mapping[str, str] = {}

    def start(self, name: str, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Run `command` in the subject's source tree under the short name `name`, with its output in a log file."""
        self.programs.add(Process(name, command, environment))

    def run(self, *command: str) -> str:
        """Run a Python program in the subject's source tree and environment. Returns its standard output."""
        process = subprocess.run(
            [sys.executable, *command],
            cwd=self.tree,
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            check=True,
        )
        return process.stdout

    def wait_ready(self, path: str = "/health/ready") -> None:
        """Wait until `path` answers 200. Raises SystemExit if it does not in time."""
        end = time.monotonic() + READY_TIMEOUT_S
        while time.monotonic() < end:
            with contextlib.suppress(urllib3.exceptions.HTTPError):
                if urllib3.request("GET", f"{self.url}{path}", retries=False, timeout=5).status == 200:
                    return
            time.sleep(0.2)
        raise SystemExit(f"{self.name} did not get ready: see {self.home}/logs")

    def cpu(self) -> dict[str, float]:
        """CPU seconds that each of the processes has used so far."""
        return {process.name: cpu_s(process.pid) for process in self.programs.running}

    def memory(self) -> dict[str, float]:
        """Resident memory of each of the processes, in MiB."""
        return {process.name: memory_mb(process.pid) for process in self.programs.running}

    def stop(self) -> None:
        """End the processes and wait for their end."""
        self.programs.stop()


class Simulator(Subject):
    """The simulated banks."""

    def latency(self, milliseconds: Mapping[str, int], offers_times: int = 1) -> None:
        """Set how long each bank takes to answer a query; logins and polls are answered at once. Every offer is
        repeated `offers_times` times."""
        for bank in BANKS:
            urllib3.request(
                "POST",
                f"{self.url}/_control/banks/{bank}",
                headers=CONTROL,
                json={
                    "latency_ms": milliseconds.get(bank, 0),
                    "operation": "query",
                    "offers_times": offers_times,
                },
                retries=False,
            )

    def answered_at(self, bank: str, latency_s: float) -> float:
        """When `bank` gave its last answer, in seconds since the epoch. Calls are recorded on arrival, and only the
        answer to a query is delayed. The last call may be a log-in that came while the bank worked on a query."""
        url = f"{self.url}/_control/banks/{bank}/calls"
        calls = urllib3.request("GET", url, headers=CONTROL, retries=False).json()
        return max(
            datetime.fromisoformat(call["at"]).timestamp() + (latency_s if call["operation"] == "query" else 0)
            for call in calls
        )


class Rig:
    """The servers that all subjects share, and functions that start subjects."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.postgres = Postgres(home / "postgres", durable=True)
        self.redis = Redis(home / "redis", durable=True)
        self.subjects: list[Subject] = []

    @contextlib.contextmanager
    def running(self) -> Iterator[Rig]:
        """PostgreSQL, Redis and the simulator while the block runs. All subjects are stopped at its end, too."""
        with running(self.postgres, self.redis):
            try:
                port = free_port()
                self.simulator = Simulator("simulator", f"http://127.0.0.1:{port}", self.home / "simulator")
                self.subjects.append(self.simulator)
                command = [sys.executable, "-m", "simulator"]
                self.simulator.start("simulator", command, {"SIMULATOR_PORT": str(port)})
                self.simulator.wait_ready("/phone/90000000175")
                yield self
            finally:
                for subject in reversed(self.subjects):
                    subject.stop()

    def cpu(self) -> dict[str, float]:
        """CPU seconds that the shared servers have used so far."""
        postmaster = int((self.postgres.data / "postmaster.pid").read_text().split()[0])
        redis = int((self.redis.home / "redis.pid").read_text())
        return {"postgres": cpu_s(postmaster), "redis": cpu_s(redis), **self.simulator.cpu()}

    def service(
        self, name: str, tree: Path, number: int, only: Sequence[str] = (), variables: Mapping[str, str] | None = None
    ) -> Subject:
        """The service from the source tree `tree`, with its own database. `only` names the processes to run (if empty:
        all but the simulator). One web and one bank worker process, with additional `variables`."""
        environment = {**self._prepared(name, tree, number), **(variables or {})}
        service = Subject(name, f"http://127.0.0.1:{environment['PORT']}", Path(environment["DATA_DIR"]), tree)
        service.environment = environment
        self.subjects.append(service)
        for process in service_processes(environment, service.home):
            if process.name in only or (not only and process.name != "simulator"):
                service.start(process.name, process.command, {**environment, **_variables(process, environment)})
        return service

    def peer(self, name: str, module: str, number: int, command: Sequence[str], tree: Path = ROOT) -> Subject:
        """A peer of `bench/peers/` in the source tree `tree`, with its own database. `{port}` in `command` is replaced
        by its port."""
        environment = self._prepared(name, tree, number) | {"DATABASE_POOL_SIZE": "8", "PYTHONPATH": str(tree)}
        peer = Subject(name, f"http://127.0.0.1:{environment['PORT']}", Path(environment["DATA_DIR"]), tree)
        self.subjects.append(peer)
        peer.start("web", [part.format(port=environment["PORT"]) for part in (*command, module)], environment)
        return peer

    def stop(self, subject: Subject) -> None:
        """End the processes of `subject`."""
        self.subjects.remove(subject)
        subject.stop()

    def _prepared(self, name: str, tree: Path, number: int) -> dict[str, str]:
        """The environment of a subject with a new, seeded database."""
        database = f"bench_{name}"
        with psycopg.connect(self.postgres.url_of("postgres"), autocommit=True) as connection:
            connection.execute(psycopg.sql.SQL("CREATE DATABASE {}").format(psycopg.sql.Identifier(database)))
        home = self.home / name
        home.mkdir(parents=True, exist_ok=True)
        environment = {
            "DATABASE_URL": self.postgres.url_of(database),
            "REDIS_URL": f"{self.redis.url.rpartition('/')[0]}/{number}",
            "DATA_DIR": str(home),
            "PORT": str(free_port()),
            "SIMULATOR_PORT": self.simulator.url.rpartition(":")[2],
            "WEB_CONCURRENCY": "1",
        }
        prepare = [sys.executable, "-m", "config.local.run", "prepare"]
        with (home / "prepare.log").open("wb") as log:
            subprocess.run(prepare, cwd=tree, env={**os.environ, **environment}, stdout=log, stderr=log, check=True)
        with psycopg.connect(environment["DATABASE_URL"], autocommit=True) as connection:
            # Like an ordinary registration. The sandbox's partner would ask for every event.
            kinds = connection.execute("SELECT pg_typeof(webhook_events)::text FROM partners_partner").fetchall()
            # A tree of before has JSON instead of an array.
            events = Jsonb(ORDINARY_EVENTS) if kinds[0] == ("jsonb",) else ORDINARY_EVENTS
            connection.execute("UPDATE partners_partner SET webhook_events = %s", (events,))
        return environment


def _variables(process: Process, environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that the supervisor's list sets for `process` in addition to `environment`."""
    return {name: value for name, value in process.environment.items() if name not in environment}
