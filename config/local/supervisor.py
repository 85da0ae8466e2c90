"""A small process supervisor for `make run`: prefixes output, restarts processes, and leaves nothing running at the
end.

It has one thread and one selector, and sleeps while nothing happens. docs/decisions/0002-local-machine.md says why it
is not a library.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NoReturn, TextIO

from config.local.processes import Process

RESTART_DELAYS_S = (0.5, 1.0, 2.0, 3.0)
SETTLED_AFTER_S = 30.0  # a process that ran this long is restarted with the first delay again
GRACE_S = 10.0  # between the request to stop and SIGKILL
ONE_KEY_PRESS_S = 1.0  # the terminal and `make` may both deliver the same Ctrl-C
NAME_WIDTH = 9
COLOURS = (36, 33, 32, 35, 34, 96, 93, 92, 95)


class Stopped(Exception):
    """Ctrl-C, SIGTERM or SIGHUP arrived, or the reader of the output has gone."""


@dataclass
class _Supervised:
    """A supervised process and the state of its restarts. Processes of a higher `stage` are stopped first."""

    process: Process
    stage: int
    started_at: float = 0.0
    restarts: int = 0
    restart_at: float | None = None


class Supervisor:
    """Keeps processes running in `folder`. Writes their output to `output`, each line prefixed with the process's name.

    A program has one supervisor, because it sets the program's signal handlers. After any method has raised Stopped,
    call `stop`.
    """

    def __init__(self, folder: Path, output: TextIO = sys.stdout) -> None:
        self._folder = folder
        self._output = output
        self._coloured = output.isatty() and "NO_COLOR" not in os.environ
        self._processes: list[_Supervised] = []
        self._stop_requested_at: float | None = None
        self._impatient = False
        self._selector = selectors.DefaultSelector()
        # A signal writes into this socket pair, which wakes the selector.
        self._woken, self._waker = socket.socketpair()
        self._woken.setblocking(False)
        self._waker.setblocking(False)
        self._selector.register(self._woken, selectors.EVENT_READ)
        signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, self._request_stop)
        signal.signal(signal.SIGTERM, self._request_stop)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # not if run by nohup
            signal.signal(signal.SIGHUP, self._request_stop)

    def say(self, text: str) -> None:
        """Write lines of the supervisor itself."""
        for line in text.splitlines():
            self._write("run", "1", line)

    def start(self, process: Process, *, stage: int = 1) -> None:
        """Start `process` and keep it running. `stop` stops a higher `stage` first."""
        supervised = _Supervised(process, stage)
        self._processes.append(supervised)
        self._spawn(supervised)

    def run(self, name: str, command: Sequence[str], environment: Mapping[str, str]) -> int:
        """Run `command` to its end, with its output prefixed by `name`. Returns its exit code. Raises Stopped."""
        process = Process(name, command, environment)
        handle = self._spawn(_Supervised(process, stage=1))
        try:
            while process.alive:
                self._turn(None)
        finally:
            process.kill()
        while handle.stdout is not None and not handle.stdout.closed:
            self._relay(None)
        return handle.wait()

    def wait_until(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Keep everything running until `condition` is true, which is checked ten times a second.

        Returns False if it is not true within `timeout_s` seconds. Raises Stopped.
        """
        deadline = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > deadline:
                return False
            self._turn(0.1)
        return True

    def serve(self) -> NoReturn:
        """Keep everything running until a signal raises Stopped."""
        while True:
            self._turn(None)

    def stop(self) -> None:
        """Stop all processes, stage by stage, and kill those that do not end in time. A second Ctrl-C kills at once."""
        for stage in sorted({supervised.stage for supervised in self._processes}, reverse=True):
            group = [supervised.process for supervised in self._processes if supervised.stage == stage]
            for process in group:
                process.ask_to_end()
            deadline = time.monotonic() + GRACE_S
            while any(process.alive for process in group):
                if time.monotonic() > deadline or self._impatient:
                    names = ", ".join(process.name for process in group if process.alive)
                    self.say(f"{names} did not end in time: killed")
                    break
                self._relay(0.2)
            for process in group:
                process.kill()
        self._relay(0)

    def _request_stop(self, *_: object) -> None:
        now = time.monotonic()
        if self._stop_requested_at is None:
            self._stop_requested_at = now
        elif now - self._stop_requested_at > ONE_KEY_PRESS_S:
            self._impatient = True

    def _spawn(self, supervised: _Supervised) -> subprocess.Popen[bytes]:
        """Start the process in a group of its own: Ctrl-C reaches only the supervisor, which stops everything in
        order."""
        handle = supervised.process.start(self._folder, subprocess.PIPE)
        supervised.started_at, supervised.restart_at = time.monotonic(), None
        assert handle.stdout is not None  # noqa: S101 - PIPE was asked for
        os.set_blocking(handle.stdout.fileno(), False)
        self._selector.register(handle.stdout, selectors.EVENT_READ, _Lines(supervised.process.name, handle.stdout))
        return handle

    def _turn(self, timeout_s: float | None) -> None:
        """Wait at most `timeout_s` seconds for an event and handle it. Raises Stopped."""
        due = [supervised.restart_at for supervised in self._processes if supervised.restart_at is not None]
        if due:
            until_due = max(0.0, min(due) - time.monotonic())
            timeout_s = until_due if timeout_s is None else min(timeout_s, until_due)
        self._relay(timeout_s)
        if self._stop_requested_at is not None:
            raise Stopped
        now = time.monotonic()
        for supervised in self._processes:
            if supervised.restart_at is not None:
                if supervised.restart_at <= now:
                    handle = self._spawn(supervised)
                    self.say(f"{supervised.process.name} was started again (process {handle.pid})")
            elif supervised.process.handle is not None and not supervised.process.alive:
                self._schedule_restart(supervised, supervised.process.handle.returncode, now)

    def _schedule_restart(self, supervised: _Supervised, code: int, now: float) -> None:
        supervised.process.kill()  # workers left by a killed parent
        supervised.restarts = 0 if now - supervised.started_at > SETTLED_AFTER_S else supervised.restarts + 1
        delay = RESTART_DELAYS_S[min(supervised.restarts, len(RESTART_DELAYS_S) - 1)]
        supervised.restart_at = now + delay
        self.say(f"{supervised.process.name} {_ending(code)}: starting it again in {delay:g} s")

    def _relay(self, timeout_s: float | None) -> None:
        """Write the output that is available, or wait at most `timeout_s` seconds for some."""
        for key, _events in self._selector.select(timeout_s):
            if key.data is None:
                with contextlib.suppress(BlockingIOError):
                    self._woken.recv(4096)
                continue
            chunk = os.read(key.fd, 65536)
            for line in key.data.feed(chunk):
                self._write(key.data.name, key.data.colour, line)
            if not chunk:
                self._selector.unregister(key.fileobj)
                key.data.pipe.close()

    def _write(self, name: str, colour: str, line: str) -> None:
        prefix = f"{name:<{NAME_WIDTH}} |"
        if self._coloured:
            prefix = f"\x1b[{colour}m{prefix}\x1b[0m"
        try:
            self._output.write(f"{prefix} {line}\n")
            self._output.flush()
        except OSError:  # the reader has gone, as in `make run | head`
            self._output = open(os.devnull, "w")  # noqa: SIM115 - for the rest of the program
            self._request_stop()


class _Lines:
    """Splits one process's output into lines."""

    def __init__(self, name: str, pipe: IO[bytes]) -> None:
        self.name = name
        self.pipe = pipe
        self.colour = str(COLOURS[sum(name.encode()) % len(COLOURS)])
        self._rest = b""

    def feed(self, chunk: bytes) -> list[str]:
        """The lines completed by `chunk`. An empty chunk means the end of the output and completes the last line."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        if not chunk and self._rest:
            lines.append(self._rest)
        return [line.decode(errors="replace").rstrip("\r") for line in lines]


def _ending(code: int) -> str:
    if code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return f"ended with code {code}"
