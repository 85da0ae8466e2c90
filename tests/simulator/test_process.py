"""The simulator as a process: how it starts, what it writes, how it ends."""

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from config.local.servers import free_port
from simulator.front import prepare
from tests.processes import ROOT, Simulator, answers, wait_until
from tests.simulator.test_ipe import FULL_FLOW, IpeClient

TOKEN = "a-token-of-its-own"


def start(port: int, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "simulator"],
        cwd=ROOT,
        env={**os.environ, "SIMULATOR_PORT": str(port), "SIMULATOR_CONTROL_TOKEN": TOKEN, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_cleanly_with_a_connection_that_hangs_and_logs_no_cpf(signum: signal.Signals) -> None:
    port = free_port()
    process = start(port)
    try:
        wait_until(lambda: answers(f"http://127.0.0.1:{port}/"), 30, "the simulator answers")
        simulator = Simulator(f"http://127.0.0.1:{port}", TOKEN, shows_turned_away=True)
        with closing(simulator):
            IpeClient(simulator).debt()
            simulator.get(f"/phone/{FULL_FLOW}")
            simulator.bank("ipe", fault="hang")
        with closing(socket.create_connection(("127.0.0.1", port), 10)) as hanging:
            hanging.sendall(b"POST /ipe/oauth2/token HTTP/1.1\r\nHost: bank\r\nContent-Length: 0\r\n\r\n")
            process.send_signal(signum)
            written, _ = process.communicate(timeout=10)
    finally:
        process.kill()
    assert process.returncode == 0
    assert [line.split(" ", 3)[3] for line in written.splitlines()] == [
        f"simulator ready on http://127.0.0.1:{port}",
        "simulator stopped",
    ]
    assert FULL_FLOW not in written


@pytest.mark.parametrize("is_of_front", [False, True])
def test_a_port_in_use_is_said_in_one_line(tmp_path: Path, is_of_front: bool) -> None:
    """Before the fix, the simulator answered before its front did: a call through the front could come too early."""
    prepare(tmp_path)
    with closing(socket.socket()) as taken:
        port = json.loads((tmp_path / "front.json").read_text())["proxy_port"] if is_of_front else free_port()
        taken.bind(("127.0.0.1", port))
        taken.listen()
        process = start(free_port() if is_of_front else port, SIMULATOR_FRONT_DIR=str(tmp_path))
        written, _ = process.communicate(timeout=30)
    assert process.returncode == 1
    assert len(written.splitlines()) == 1
    assert "can't start" in written


PUBLIC = {"SIMULATOR_PUBLIC_URL": "https://banks.sandbox.example"}


def test_where_others_reach_it_the_controls_have_a_port_of_their_own() -> None:
    """Before the fix, they shared the port of the laboratory, which partners of a sandbox need."""
    port, control_port = free_port(), free_port()
    process = start(port, SIMULATOR_CONTROL_PORT=str(control_port), **PUBLIC)
    try:
        wait_until(lambda: answers(f"http://127.0.0.1:{control_port}/"), 30, "the simulator answers")
        statuses = {}
        for each in (port, control_port):
            with closing(Simulator(f"http://127.0.0.1:{each}", TOKEN, shows_turned_away=True)) as asked:
                headers = asked.control_headers
                statuses[each] = asked.get("/_control/banks/ipe/calls", headers=headers).status_code
                assert asked.get("/lab/").status_code == 200
    finally:
        process.kill()
        process.communicate(timeout=10)
    assert statuses == {port: 404, control_port: 200}


@pytest.mark.parametrize(
    ("reach", "refused"),
    [
        (PUBLIC | {"SIMULATOR_CONTROL_TOKEN": "dev-control"}, "SIMULATOR_CONTROL_TOKEN must not be dev-control"),
        ({"SIMULATOR_HOST": "0.0.0.0", "SIMULATOR_CONTROL_TOKEN": "dev-control"}, "must not be dev-control"),
        (PUBLIC | {"SIMULATOR_CONTROL_PORT": "8123", "SIMULATOR_PORT": "8123"}, "must not be SIMULATOR_PORT"),
    ],
    ids=["public token, by its address", "public token, by its host", "controls at the port of all"],
)
def test_where_others_reach_it_the_controls_are_not_for_everybody(reach: dict[str, str], refused: str) -> None:
    """Before the fix, everybody could read all bodies and slow the banks."""
    process = start(free_port(), **reach)
    written, _ = process.communicate(timeout=30)
    assert process.returncode == 1
    assert refused in written
