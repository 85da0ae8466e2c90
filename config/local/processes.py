"""Starts, signals and stops processes on this machine, for `make run`, the benchmark and the tests."""

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

GRACE_S = 15.0  # between the request to stop and SIGKILL


def ends_with_parent(command: Sequence[str], stop_signal: signal.Signals = signal.SIGTERM) -> list[str]:
    """`command`, extended so that it receives `stop_signal` if the starting process is killed.

    Unchanged if `setpriv` is missing (part of util-linux on Linux).
    """
    if not shutil.which("setpriv"):
        return list(command)
    return ["setpriv", "--pdeathsig", stop_signal.name.removeprefix("SIG"), "--", *command]


@dataclass
class Process:
    """A command with a short name. Its environment is that of the starting process plus `environment`.

    The command and its children form a process group, so that Ctrl-C does not reach them and one signal reaches all of
    them. It receives `orphan_signal` (default `stop_signal`) if the starting process is killed.
    """

    name: str
    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    stop_signal: signal.Signals = signal.SIGTERM
    orphan_signal: signal.Signals | None = None
    handle: subprocess.Popen[bytes] | None = None

    @property
    def alive(self) -> bool:
        """True while the process runs."""
        return self.handle is not None and self.handle.poll() is None

    @property
    def pid(self) -> int:
        """The id of the command's own process, which may have workers. Raises LookupError before the start."""
        if self.handle is None:
            raise LookupError(f"{self.name} has not been started")
        return self.handle.pid

    def start(self, folder: Path, output: int | IO[bytes], **environment: str) -> subprocess.Popen[bytes]:
        """Start the process in `folder`, with `environment` added to its own. `output` receives its standard output and
        error."""
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
        """Send `stop_signal` to the command's own process, which stops its workers itself."""
        if self.handle is not None and self.alive:
            self.handle.send_signal(self.stop_signal)

    def send(self, number: signal.Signals) -> None:
        """Send the signal `number` to the whole process group, if it still exists."""
        if self.handle is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.handle.pid, number)

    def kill(self) -> None:
        """Kill the whole process group. Returns when the first process has ended."""
        if self.handle is not None:
            self.send(signal.SIGKILL)
            self.handle.wait()

    def ended_within(self, seconds: float) -> bool:
        """Wait for the end. Returns False if the process still runs after `seconds`."""
        if self.handle is None:
            return True
        try:
            self.handle.wait(timeout=max(0.0, seconds))
        except subprocess.TimeoutExpired:
            return False
        return True


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
            process.ended_within(deadline - time.monotonic())
            process.kill()  # also workers left by a parent that ended
            process.handle = None
