"""The whole service as `make run` starts it, with two workers of each kind, in one folder."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import django
import psycopg

from bench.processes import memory_mb
from bench.programs import Programs
from bench.proof.pgbouncer import VARIABLES, PgBouncer
from config.local.run import service_processes
from config.local.servers import APPLICATION_ROLE, DATABASE, Postgres, Redis, find_identity, free_port
from config.local.supervisor import Process
from tests.processes import ROOT, START_TIMEOUT_S, answers, wait_until

CONTROL_TOKEN = "proof-control"
COPIES = 2
KINDS = ("banks", "sweeps", "webhooks", "default")
WORKERS = tuple(f"{kind}-{number}" for kind in KINDS for number in range(COPIES))
SERVERS = ("postgres", "redis")
#: PostgreSQL's data stand on a file system of this size, so that it can be filled. Its name is set for a process that
#: has mounts of its own.
DISK_SIZE, HAS_DISK = "1g", "PROOF_HAS_DISK"


class Rig:
    """The servers and processes: `copies` workers of each kind, or `only` some processes. `variables` are added to
    their environment. `ended` are those that ended although nobody killed them. `code` is the folder that they run."""

    def __init__(
        self, home: Path, copies: int = COPIES, only: Collection[str] = (), *, code: Path = ROOT, **variables: str
    ) -> None:
        self.home, self.code = home, code
        self._copies, self._only, self._variables = copies, only, dict(variables)
        self.servers: dict[str, Postgres | Redis | PgBouncer] = {
            "postgres": Postgres(home / "postgres"),
            "redis": Redis(home / "redis"),
        }
        self.programs = Programs([], code, home / "logs")
        self.api = f"http://127.0.0.1:{free_port()}"
        self.simulator = f"http://127.0.0.1:{free_port()}"
        self.ended: list[str] = []
        self._down: set[str] = set()

    def use_pgbouncer(self) -> None:
        """Put PgBouncer between the processes and PostgreSQL. Before `running`."""
        identity = partial(find_identity, self.postgres.home, self.postgres.data)
        behind = partial(self.postgres.url_of, DATABASE, APPLICATION_ROLE)
        self.servers["pgbouncer"] = PgBouncer(self.home / "pgbouncer", behind, identity)
        self._variables |= VARIABLES

    @property
    def postgres(self) -> Postgres:
        server = self.servers["postgres"]
        assert isinstance(server, Postgres)
        return server

    @contextmanager
    def running(self) -> Iterator[Rig]:
        """Start everything, ready. Kills everything afterwards."""
        try:
            if self.has_disk:
                self.postgres.home.mkdir(parents=True)
                mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_SIZE}", "tmpfs", str(self.postgres.home)]
                subprocess.run(mount, check=True)
            for name in SERVERS:
                self.start(name)
                wait_until(self.servers[name].answers, START_TIMEOUT_S, f"{name} answers")
            self._prepare()
            if "pgbouncer" in self.servers:
                self.start("pgbouncer")
                wait_until(self.servers["pgbouncer"].answers, START_TIMEOUT_S, "PgBouncer answers")
            for process in self._processes():
                self.programs.add(process)
            if not self._only:
                wait_until(lambda: answers(f"{self.api}/health/ready") == 200, START_TIMEOUT_S, "the service is ready")
            yield self
        finally:
            self._end()

    def start(self, name: str) -> None:
        """Start a process or a server, at its earlier address."""
        self._down.discard(name)
        if name in self.servers:
            server = self.servers[name]
            self.programs.add(Process(name, server.prepare(), stop_signal=server.stop_signal))
        else:
            self.programs.restart(name)

    def kill(self, name: str, *, wipe: bool = False) -> None:
        """Kill a process or a server with SIGKILL. `wipe` also removes a server's data."""
        self._down.add(name)
        self.programs.kill(name)
        if wipe:
            shutil.rmtree(self.servers[name].data)

    def signal(self, name: str, number: signal.Signals) -> None:
        """Send a signal to a process and all its descendants. PostgreSQL's are no group."""
        for pid in tree(self.programs.pid(name)):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue

    @property
    def has_disk(self) -> bool:
        """True if the disk of PostgreSQL can be filled."""
        return HAS_DISK in os.environ

    @property
    def _ballast(self) -> Path:
        return self.postgres.home / "ballast"

    def fill_disk(self) -> None:
        """Leave PostgreSQL no space. It may end by itself meanwhile."""
        self._down.add("postgres")
        with self._ballast.open("wb", buffering=0) as file, suppress(OSError):
            while file.write(bytes(2**20)):
                pass

    def free_disk(self) -> None:
        """End `fill_disk`."""
        self._ballast.unlink()
        self._down.discard("postgres")
        if not self.programs.is_running("postgres"):
            self.start("postgres")

    def revive(self) -> None:
        """Start again what ended by itself, as the supervisor of `make run` does."""
        for process in self.programs.all:
            if not process.alive and process.name not in self._down:
                if process.name not in self.servers:
                    self.ended.append(process.name)
                self.start(process.name)

    def memory(self) -> dict[str, float]:
        """Resident memory of each running process, in MiB."""
        return {process.name: memory_mb(process.pid) for process in self.programs.running}

    def manage(self, *arguments: str, typed: str = "") -> subprocess.CompletedProcess[str]:
        """Run an operator's command. `typed` is its standard input."""
        command = [sys.executable, "manage.py", *arguments]
        environment = {**os.environ, **self.environment}
        return subprocess.run(
            command,
            cwd=self.code,
            env=environment,
            input=typed,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def set_up_django(self) -> None:
        """Let this process use the service's models."""
        os.environ |= {**self.environment, "DJANGO_SETTINGS_MODULE": "config.settings"}
        django.setup()

    def connect(self) -> psycopg.Connection[Any]:
        """A connection to the service's database."""
        return psycopg.connect(self.postgres.url, autocommit=True, connect_timeout=5)

    @property
    def environment(self) -> dict[str, str]:
        """The environment of the service's processes, and of the operator's commands."""
        pgbouncer = self.servers.get("pgbouncer")
        return {
            "DATABASE_URL": pgbouncer.url if pgbouncer else self.postgres.url_of(DATABASE, APPLICATION_ROLE),
            "REDIS_URL": self.servers["redis"].url,
            "DATA_DIR": str(self.home),
            "PORT": self.api.rpartition(":")[2],
            "SIMULATOR_PORT": self.simulator.rpartition(":")[2],
            "CALLBACK_BASE_URL": self.api,
            "SIMULATOR_CONTROL_TOKEN": CONTROL_TOKEN,
            "SIMULATOR_FRONT_DIR": str(self.home / "front"),
            **self._variables,
            "WEB_CONCURRENCY": str(self._copies),
            "PYTHONUNBUFFERED": "1",
            "PYTHONWARNINGS": "ignore:You're running the worker with superuser privileges",
        }

    def _prepare(self) -> None:
        """Make database, sandbox and certificates as `make run` does."""
        self.postgres.create_database()
        owner = {
            "DATABASE_URL": self.postgres.url,
            "APPLICATION_DATABASE_PASSWORD": self.postgres.password_of(APPLICATION_ROLE),
        }
        for command in (["simulator.front", str(self.home / "front")], ["config.local.run", "prepare"]):
            environment: Mapping[str, str] = {**os.environ, **self.environment, **owner}
            with self.programs.log("prepare").open("ab") as log:
                subprocess.run(
                    [sys.executable, "-m", *command],
                    cwd=self.code,
                    env=environment,
                    stdout=log,
                    stderr=log,
                    check=True,
                )

    def _processes(self) -> Iterator[Process]:
        for process in service_processes(self.environment, self.home):
            if self._only and process.name not in self._only:
                continue
            if process.name not in KINDS:
                yield process
                continue
            for name in (f"{process.name}-{number}" for number in range(self._copies)):
                command = [part.replace(f"{process.name}@", f"{name}@") for part in process.command]
                yield replace(process, name=name, command=command)

    def _end(self) -> None:
        """PostgreSQL is stopped properly, because it would leave shared memory. All else may die."""
        for process in self.programs.running:
            if process.name != "postgres":
                process.kill()
        self.programs.stop()


def with_own_mounts(module: str) -> None:
    """Replace this process by `module` in a mount namespace of its own, if this machine allows one. What is mounted
    there exists for this run alone, and is gone with its last process."""
    own = ["unshare", "--mount", "--propagation", "private"]
    if HAS_DISK in os.environ or os.geteuid() or not shutil.which("unshare"):
        return
    if subprocess.run([*own, "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True, check=False).returncode:
        return
    command = [*own, sys.executable, "-m", module, *sys.argv[1:]]
    os.execvpe(command[0], command, {**os.environ, HAS_DISK: "1"})


def tree(pid: int) -> list[int]:
    """`pid` and the ids of all its descendants."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except FileNotFoundError:
        return []
    return [pid, *(each for child in children for each in tree(int(child)))]
