"""The supervisor of `make run`, driven as a real program with real children."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.processes import ROOT, Started, wait_until

PROGRAM = """
import signal
import sys
from pathlib import Path
from config.local.supervisor import Process
from config.local.supervisor import *
signal.signal(signal.SIGHUP, {hangup})
supervisor = Supervisor(Path("."))
try:
    {start}
    supervisor.serve()
except Stopped:
    supervisor.say("ending")
finally:
    supervisor.stop()
supervisor.say("ended")
"""


@pytest.fixture
def supervise(tmp_path: Path) -> Iterator:
    with ExitStack() as running:

        def start(text: str, *, hangup: str = "signal.SIG_DFL") -> Started:
            """`hangup` is the handling of SIGHUP that the program inherits from its parent."""
            program = PROGRAM.format(start=text, hangup=hangup)
            return running.enter_context(Started([sys.executable, "-c", program], tmp_path / "output"))

        yield start


def is_running(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_each_line_stands_under_its_process_also_the_last_without_an_end(supervise):
    program = supervise('supervisor.run("once", ["printf", "um\\ndois\\nsem fim"], {})')
    program.wait_for("sem fim")
    assert program.output == "once      | um\nonce      | dois\nonce      | sem fim\n"


def test_a_process_that_dies_at_once_every_time_is_tried_again_a_second_later(supervise):
    program = supervise('supervisor.start(Process("web", ["sh", "-c", "exit 3"]))')
    program.wait_for(r"(?s)(ended with code 3: starting it again in 1 s.*web was started again.*){2}")


def test_what_a_killed_parent_leaves_of_its_workers_is_killed_before_it_starts_again(supervise):
    program = supervise('supervisor.start(Process("web", ["sh", "-c", "sleep 60 & echo worker $!; wait"]))')
    worker = int(program.wait_for(r"worker (\d+)")[1])
    parent = int(Path(f"/proc/{worker}/stat").read_text().split()[3])
    os.kill(parent, signal.SIGKILL)
    program.wait_for(r"web was started again")
    wait_until(lambda: not is_running(worker), 5, "the worker of the killed parent is gone")


def test_under_nohup_a_hangup_ends_nothing(supervise):
    program = supervise(
        'supervisor.start(Process("web", ["sh", "-c", "while :; do echo lives; sleep 0.1; done"]))',
        hangup="signal.SIG_IGN",
    )
    program.wait_for("lives")
    program.handle.send_signal(signal.SIGHUP)
    lines = program.output.count("lives")
    program.wait_for(f"(?s)(lives.*){{{lines + 3}}}")
    assert program.end() == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_later_stages_before_the_first_and_leaves_no_process(supervise, number):
    script = "trap 'echo {name} ends; exit 0' TERM INT; echo pid $$; while :; do sleep 0.05; done"
    program = supervise(
        f'supervisor.start(Process("db", ["sh", "-c", "{script.format(name="db")}"], '
        "stop_signal=signal.SIGINT), stage=0); "
        f'supervisor.start(Process("web", ["sh", "-c", "{script.format(name="web")}"]))'
    )
    program.wait_for(r"(?s)pid.*pid")
    pids = [int(pid) for pid in re.findall(r"pid (\d+)", program.output)]
    assert program.end(number) == 0
    assert re.search(r"(?s)ending\n.*web ends\n.*db ends\n.*run +\| ended\n$", program.output)
    assert not any(is_running(pid) for pid in pids)


def test_a_process_that_ignores_the_request_to_end_is_killed_and_named(supervise):
    program = supervise(
        "import config.local.supervisor; config.local.supervisor.GRACE_S = 0.5; "
        'supervisor.start(Process("deaf", ["sh", "-c", "trap \'\' TERM; echo pid $$; while :; do sleep 1; done"]))'
    )
    pid = int(program.wait_for(r"pid (\d+)")[1])
    assert program.end() == 0
    assert "deaf did not end in time: killed" in program.output
    assert not is_running(pid)


def test_if_it_is_killed_no_process_outlives_it(supervise):
    """Before the fix, each got SIGTERM several times. A worker hung in its handler, and stayed for ever."""
    deaf = "trap '' TERM; echo pid $$; while :; do sleep 0.1; done"
    program = supervise(f'supervisor.start(Process("deaf", ["sh", "-c", "{deaf}"]))')
    pid = int(program.wait_for(r"pid (\d+)")[1])
    program.handle.kill()
    wait_until(lambda: not is_running(pid), 5, "the process is gone")


def test_it_ends_when_nobody_reads_its_output_any_more():
    start = 'supervisor.start(Process("web", ["sh", "-c", "while echo line; do sleep 0.05; done"]))'
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(start=start, hangup="signal.SIG_DFL")], cwd=ROOT, stdout=subprocess.PIPE
    ) as handle:
        handle.stdout.readline()
        handle.stdout.close()
        assert handle.wait(timeout=15) == 0
