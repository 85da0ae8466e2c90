"""A small process supervisor for `make run`: prefixes output, restarts processes, leaves nothing running.

One thread per process reads its output; the main thread starts and ends processes. docs/decisions/0002-local-machine.md
says why it is not a library.
"""

import contextlib
import io
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, NoReturn, TextIO

RESTART_AFTER_S = 1.0  # so that a process which cannot start leaves the processor to the others
GRACE_S = 10.0  # between the request to stop and SIGKILL
TURN_S = 0.1  # between two looks at the processes
LAST_WORDS_S = 1.0  # for output of children that outlive a killed process
NAME_WIDTH = 9


class Stopped(Exception):
    """Ctrl-C, SIGTERM or SIGHUP arrived, or the reader of the output has gone."""


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
        return self.handle is not None and self.handle.poll() is None

    @property
    def pid(self) -> int:
        """The id of the command's own process, which may have workers. Raises LookupError before the start."""
        if self.handle is None:
            raise LookupError(f"{self.name} has not been started")
        return self.handle.pid

    def start(self, folder: Path, output: int | IO[bytes], **environment: str) -> subprocess.Popen[bytes]:
        """Start the process in `folder`, with `environment` added to its own. `output` receives what it writes."""
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


class Supervisor:
    """Keeps processes running in `folder`. Prints their output, each line prefixed with the process's name.

    A program has one, because it sets the program's signal handlers. After Stopped, call `stop`.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._output: TextIO = sys.stdout
        self._writing = threading.Lock()
        self._stages: dict[int, list[Process]] = {}
        self._readers: dict[str, threading.Thread] = {}
        #: When the processes that ended are started again, by name.
        self._restarts: dict[str, float] = {}
        self._stop_requested = False
        signal.signal(signal.SIGINT, self._request_stop)
        signal.signal(signal.SIGTERM, self._request_stop)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # not if run by nohup
            signal.signal(signal.SIGHUP, self._request_stop)

    def say(self, text: str) -> None:
        """Write lines of the supervisor itself."""
        for line in text.splitlines():
            self._write("run", line)

    def start(self, process: Process, *, stage: int = 1) -> None:
        """Start `process` and keep it running. `stop` stops a higher `stage` first."""
        self._spawn(process)
        self._stages.setdefault(stage, []).append(process)

    def run(self, name: str, command: Sequence[str], environment: Mapping[str, str]) -> int:
        """Run `command` to its end, with its output prefixed by `name`. Returns its exit code. Raises Stopped."""
        process = Process(name, command, environment)
        handle = self._spawn(process)
        try:
            while process.alive:
                self._turn()
        finally:
            process.kill()
        self._readers[name].join()
        return handle.wait()

    def wait_until(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Keep everything running until `condition` is true, which is checked ten times a second.

        Returns False if it is not true within `timeout_s` seconds. Raises Stopped.
        """
        deadline = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > deadline:
                return False
            self._turn()
        return True

    def serve(self) -> NoReturn:
        """Keep everything running until a signal raises Stopped."""
        while True:
            self._turn()

    def stop(self) -> None:
        """Stop all processes, stage by stage, and kill those that do not end in time."""
        for _, group in sorted(self._stages.items(), reverse=True):
            for process in group:
                process.ask_to_end()
            deadline = time.monotonic() + GRACE_S
            while late := [process.name for process in group if process.alive]:
                if time.monotonic() > deadline:
                    self.say(f"{', '.join(late)} did not end in time: killed")
                    break
                time.sleep(TURN_S)
            for process in group:
                process.kill()
                self._readers[process.name].join(LAST_WORDS_S)

    def _request_stop(self, *_: object) -> None:
        self._stop_requested = True

    def _spawn(self, process: Process) -> subprocess.Popen[bytes]:
        """Start the process in its own group: Ctrl-C reaches only the supervisor, which stops all in order."""
        handle = process.start(self._folder, subprocess.PIPE)
        reader = threading.Thread(target=self._relay, args=(process.name, handle), daemon=True)
        reader.start()
        self._readers[process.name] = reader
        return handle

    def _turn(self) -> None:
        """Wait a moment, and restart what has ended. Raises Stopped."""
        time.sleep(TURN_S)
        if self._stop_requested:
            raise Stopped
        now = time.monotonic()
        for process in (each for group in self._stages.values() for each in group):
            if process.name in self._restarts:
                if self._restarts[process.name] <= now:
                    del self._restarts[process.name]
                    handle = self._spawn(process)
                    self.say(f"{process.name} was started again (process {handle.pid})")
            elif process.handle is not None and not process.alive:
                process.kill()  # workers left by a killed parent
                self._restarts[process.name] = now + RESTART_AFTER_S
                how = _ending(process.handle.returncode)
                self.say(f"{process.name} {how}: starting it again in {RESTART_AFTER_S:g} s")

    def _relay(self, name: str, handle: subprocess.Popen[bytes]) -> None:
        """Write the process's output line by line until nobody can write to it any more."""
        assert handle.stdout is not None  # noqa: S101 - PIPE was asked for
        with io.TextIOWrapper(handle.stdout, errors="replace") as lines:
            for line in lines:
                self._write(name, line.rstrip("\n"))

    def _write(self, name: str, line: str) -> None:
        with self._writing:
            try:
                self._output.write(f"{name:<{NAME_WIDTH}} | {line}\n")
                self._output.flush()
            except OSError:  # the reader has gone, as in `make run | head`
                self._output = open(os.devnull, "w")  # noqa: SIM115 - for the rest of the program
                self._request_stop()


def _ending(code: int) -> str:
    if code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return f"ended with code {code}"
