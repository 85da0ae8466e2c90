"""The processes that `make run`, the benchmark and the tests start, as real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import programs as programs_module
from bench.programs import Programs
from config.local.processes import Process
from tests.local.test_supervisor import is_running
from tests.processes import ROOT, wait_until

#: Prints its id, starts a worker, and on SIGTERM ends only itself.
PARENT = "echo $$; sleep 60 & echo worker $!; trap 'echo ends; exit 0' TERM; while :; do wait; done"


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Programs]:
    made = Programs([Process("web", ["sh", "-c", PARENT])], ROOT, tmp_path / "logs")
    yield made
    for process in made.running:
        process.kill()


def words(programs: Programs, lines: int) -> list[list[str]]:
    """The output of `web`, once it has that many lines."""
    wait_until(lambda: programs.logs("web").count("\n") >= lines, 10, f"{lines} lines")
    return [line.split() for line in programs.logs("web").splitlines()]


def test_the_end_is_asked_for_also_of_one_that_was_halted_and_leaves_no_worker(programs: Programs) -> None:
    programs.ensure("web")
    worker = int(words(programs, 2)[1][1])
    programs.kill("web", signal.SIGSTOP)
    programs.stop()
    assert words(programs, 3)[2] == ["ends"]
    assert programs.running == []
    wait_until(lambda: not is_running(worker), 5, "the worker is gone")


def test_what_does_not_end_is_killed(programs: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs_module, "GRACE_S", 0.3)
    programs.add(Process("deaf", ["sh", "-c", "trap '' TERM; echo deaf; while :; do sleep 1; done"]))
    wait_until(lambda: programs.logs("deaf"), 10, "it has set its trap")
    pid = programs.pid("deaf")
    programs.stop("deaf")
    assert not is_running(pid)


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's death signal")
@pytest.mark.parametrize(("orphan_signal", "told"), [("None", "asked"), ("signal.SIGKILL", "")])
def test_a_process_whose_parent_is_killed_gets_its_signal(tmp_path: Path, orphan_signal: str, told: str) -> None:
    """Beat may be halted when the tests are killed: only SIGKILL ends a halted process."""
    output = tmp_path / "output"
    script = f"trap 'echo asked >>{output}; exit' TERM; echo $$ >>{output}; while :; do sleep 0.05; done"
    program = f"""
import signal, sys, time
from pathlib import Path
from config.local.processes import Process
child = Process("child", ["sh", "-c", {script!r}], orphan_signal={orphan_signal})
child.start(Path("."), sys.stdout.buffer)
time.sleep(60)
"""
    parent = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT)
    wait_until(lambda: output.exists() and output.read_text().endswith("\n"), 10, "the child runs")
    child = int(output.read_text())
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    wait_until(lambda: not is_running(child), 5, "the child ended")
    assert output.read_text().split()[1:] == told.split()
