"""Starts, signals and ends processes on this machine. `make run`, the benchmark and the tests start all theirs here."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

GRACE_S = 15.0  # between asking processes to end and killing them


def ends_with_parent(command: Sequence[str], stop_signal: signal.Signals = signal.SIGTERM) -> list[str]:
    """`command`, made to receive `stop_signal` when the process that starts it is killed.

    Unchanged where there is no `setpriv` (on Linux it belongs to util-linux, which every distribution installs).
    """
    if not shutil.which("setpriv"):
        return list(command)
    return ["setpriv", "--pdeathsig", stop_signal.name.removeprefix("SIG"), "--", *command]


@dataclass
class Process:
    """A command with a short name, run in the environment of the starting process plus `environment`.

    Its processes form a group of their own, so that Ctrl-C does not reach them and a signal reaches them all.
    It receives `orphan_signal` (by default `stop_signal`) when the process that started it is killed.
    """

    name: str
    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    stop_signal: signal.Signals = signal.SIGTERM
    orphan_signal: signal.Signals | None = None
    handle: subprocess.Popen[bytes] | None = None

    @property
    def alive(self) -> bool:
        """True while it runs."""
        return self.handle is not None and self.handle.poll() is None

    @property
    def pid(self) -> int:
        """The id of the process that the command became, which may have workers. Raises LookupError before a start."""
        if self.handle is None:
            raise LookupError(f"{self.name} has not been started")
        return self.handle.pid

    def start(self, folder: Path, output: int | IO[bytes], **environment: str) -> subprocess.Popen[bytes]:
        """Start it in `folder` with `environment` added to its own. `output` takes what it writes."""
        self.handle = subprocess.Popen(
            ends_with_parent(self.command, self.orphan_signal or self.stop_signal),
            cwd=folder,
            env={**os.environ, **self.environment, **environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        return self.handle

    def ask_to_end(self) -> None:
        """Send `stop_signal` to the process that the command became; it ends its workers itself."""
        if self.handle is not None and self.alive:
            self.handle.send_signal(self.stop_signal)

    def send(self, number: signal.Signals) -> None:
        """Send `number` to all its processes, if any is left."""
        if self.handle is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.handle.pid, number)

    def kill(self) -> None:
        """Kill all its processes. Returns when the first one is gone."""
        if self.handle is not None:
            self.send(signal.SIGKILL)
            self.handle.wait()

    def ended_within(self, seconds: float) -> bool:
        """Wait for its end. Returns False when it has not come within `seconds`."""
        if self.handle is None:
            return True
        try:
            self.handle.wait(timeout=max(0.0, seconds))
        except subprocess.TimeoutExpired:
            return False
        return True


class Programs:
    """Processes by their names, run in `folder`. Each is started on request and writes to a log of its own."""

    def __init__(self, processes: Iterable[Process], folder: Path, log_folder: Path) -> None:
        self._processes = {process.name: process for process in processes}
        self._variables: dict[str, dict[str, str]] = {}
        self._folder = folder
        self._log_folder = log_folder
        log_folder.mkdir(parents=True, exist_ok=True)

    @property
    def all(self) -> list[Process]:
        """All of them, whether they run or not."""
        return list(self._processes.values())

    @property
    def running(self) -> list[Process]:
        """Those that have been started and have not ended."""
        return [process for process in self._processes.values() if process.alive]

    def add(self, process: Process) -> None:
        """Take in `process` and start it."""
        self._processes[process.name] = process
        self.restart(process.name)

    def ensure(self, *names: str, **environment: str) -> None:
        """Have `names` run, with `environment` added to their own: start those that do not run (any more), and
        start anew those that run with another one."""
        for name in names:
            if not self.is_running(name) or self._variables[name] != environment:
                self.restart(name, **environment)

    def restart(self, name: str, **environment: str) -> None:
        """Kill `name` where it runs, and start it with `environment` added to its own."""
        self.kill(name)
        self._variables[name] = environment
        with self.log(name).open("ab") as log:
            self._processes[name].start(self._folder, log, **environment)

    def kill(self, name: str, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal to all processes of `name`; after SIGKILL, returns when they are gone."""
        process = self._processes[name]
        if number is signal.SIGKILL:
            process.kill()
        else:
            process.send(number)

    def pid(self, name: str) -> int:
        """The process id of `name` (of a program with workers, the parent's)."""
        return self._processes[name].pid

    def is_running(self, name: str) -> bool:
        """True while `name` has been started and has not ended."""
        return self._processes[name].alive

    def log(self, name: str) -> Path:
        """The file that `name` writes to."""
        return self._log_folder / name

    def logs(self, *names: str) -> str:
        """What the processes `names` (none given: all) have written since these were made."""
        files = [self.log(name) for name in names or self._processes]
        return "".join(file.read_text(errors="replace") for file in files if file.exists())

    def stop(self, *names: str) -> None:
        """End the processes `names` (none given: all), and kill what has not ended after GRACE_S seconds."""
        ending = [self._processes[name] for name in names or self._processes]
        for process in ending:
            process.send(signal.SIGCONT)  # a halted process hears nothing
            process.ask_to_end()
        deadline = time.monotonic() + GRACE_S
        for process in ending:
            process.ended_within(deadline - time.monotonic())
            process.kill()  # also what a parent that ended left of its workers
            process.handle = None
