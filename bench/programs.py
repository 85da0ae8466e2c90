"""The service's processes and its servers, for the benchmark and the tests: each is started on request, and writes to
its own log."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from config.local.servers import ROOT, PlatformError, Server
from config.local.supervisor import Process

GRACE_S = 15.0  # between the request to stop and SIGKILL
START_TIMEOUT_S = 30


class Programs:
    """Processes by name, run in `folder`. Each is started on request and writes to its own log."""

    def __init__(self, processes: Iterable[Process], folder: Path, log_folder: Path) -> None:
        self._processes = {process.name: process for process in processes}
        self._variables: dict[str, dict[str, str]] = {}
        self._folder = folder
        self._log_folder = log_folder
        log_folder.mkdir(parents=True, exist_ok=True)

    @property
    def all(self) -> list[Process]:
        """All processes, running or not."""
        return list(self._processes.values())

    @property
    def running(self) -> list[Process]:
        """The processes that were started and have not ended."""
        return [process for process in self._processes.values() if process.alive]

    def add(self, process: Process) -> None:
        """Add `process` and start it."""
        self._processes[process.name] = process
        self.restart(process.name)

    def ensure(self, *names: str, **environment: str) -> list[str]:
        """Make `names` run with `environment` added to their own: start the ones that do not run, continue the ones
        that are halted, and restart the ones that run with another environment. Returns those that it started, which
        may not be ready yet."""
        begun = [name for name in names if not self.is_running(name) or self._variables[name] != environment]
        for name in begun:
            self.restart(name, **environment)
        for name in set(names) - set(begun):
            self.kill(name, signal.SIGCONT)
        return begun

    def restart(self, name: str, **environment: str) -> None:
        """Kill `name` if it runs, and start it with `environment` added to its own."""
        self.kill(name)
        self._variables[name] = environment
        with self.log(name).open("ab") as log:
            self._processes[name].start(self._folder, log, **environment)

    def kill(self, name: str, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal to the process group of `name`. After SIGKILL, returns when it has ended."""
        process = self._processes[name]
        if number is signal.SIGKILL:
            process.kill()
        else:
            process.send(number)

    def pid(self, name: str) -> int:
        """The process id of `name`; of its parent process, if it has workers."""
        return self._processes[name].pid

    def is_running(self, name: str) -> bool:
        """True while `name` runs."""
        return self._processes[name].alive

    def log(self, name: str) -> Path:
        """The log file of `name`."""
        return self._log_folder / name

    def logs(self, *names: str) -> str:
        """What the processes `names` (default: all) have logged since this object was created."""
        files = [self.log(name) for name in names or self._processes]
        return "".join(file.read_text(errors="replace") for file in files if file.exists())

    def stop(self, *names: str) -> None:
        """Stop the processes `names` (default: all), and kill those that have not ended after GRACE_S seconds."""
        ending = [self._processes[name] for name in names or self._processes]
        for process in ending:
            process.send(signal.SIGCONT)  # a halted process cannot handle the signal
            process.ask_to_end()
        deadline = time.monotonic() + GRACE_S
        for process in ending:
            _end(process, deadline - time.monotonic())
            process.handle = None


def _end(process: Process, seconds: float) -> None:
    """Kill the process group once its parent has ended, at the latest after `seconds`."""
    if process.handle is not None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.handle.wait(timeout=max(0.0, seconds))
    process.kill()


@contextlib.contextmanager
def running(*services: Server) -> Iterator[None]:
    """Run `services` inside the context, with their output in `home/log`.

    Raises PlatformError if one does not start.
    """
    processes: list[Process] = []
    try:
        for service in services:
            process = service.process()
            with (service.home / "log").open("ab") as log:
                process.start(ROOT, log)
            processes.append(process)
        deadline = time.monotonic() + START_TIMEOUT_S
        for service, process in zip(services, processes, strict=True):
            while not service.answers():
                if not process.alive or time.monotonic() > deadline:
                    log_text = (service.home / "log").read_text(errors="replace")
                    raise PlatformError(f"{service.name} did not start:\n{log_text}")
                time.sleep(0.05)
        yield
    finally:
        for process in reversed(processes):
            process.ask_to_end()
        for process in processes:
            _end(process, 10)
