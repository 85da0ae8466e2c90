"""Starts, signals and stops processes on this machine."""

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO


@dataclass
class Process:
    """A command with a short name. Its environment is that of the starting process plus `environment`.

    The command and its children form a process group, so that Ctrl-C does not reach them and one signal reaches all of
    them. It receives `orphan_signal` if the starting process is killed, unless `setpriv` is missing (part of util-linux
    on Linux). Linux sends that once for each thread of the starting process, and Celery hangs if a second SIGTERM
    interrupts its handling of the first.
    """

    name: str
    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    stop_signal: signal.Signals = signal.SIGTERM
    orphan_signal: signal.Signals = signal.SIGKILL
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
        number = self.orphan_signal.name.removeprefix("SIG")
        bound = ["setpriv", "--pdeathsig", number, "--"] if shutil.which("setpriv") else []
        self.handle = subprocess.Popen(
            [*bound, *self.command],
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

    def wait(self, seconds: float) -> None:
        """Wait for the end, at most `seconds`."""
        if self.handle is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.handle.wait(timeout=max(0.0, seconds))
