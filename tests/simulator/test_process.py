"""The simulator as a process: how it starts, what it writes, how it ends."""

import json
import os
import signal
import socket
import sys
from contextlib import closing
from pathlib import Path

import pytest

from config.local.servers import free_port
from simulator.__main__ import main
from simulator.front import prepare
from tests.processes import Simulator, Started
from tests.simulator.test_ipe import FULL_FLOW, IpeClient

TOKEN = "a-token-of-its-own"
PUBLIC = {"SIMULATOR_PUBLIC_URL": "https://banks.sandbox.example"}


def start(log: Path, **environment: str) -> Started:
    """A simulator of its own."""
    variables = {**os.environ, "SIMULATOR_CONTROL_TOKEN": TOKEN, **environment}
    return Started([sys.executable, "-m", "simulator"], log, env=variables)


def at(port: int) -> closing[Simulator]:
    return closing(Simulator(f"http://127.0.0.1:{port}", TOKEN, shows_turned_away=True))


def test_it_ends_cleanly_with_a_connection_that_hangs_and_logs_no_cpf(tmp_path: Path) -> None:
    port = free_port()
    with start(tmp_path / "log", SIMULATOR_PORT=str(port)) as program:
        program.wait_for("ready on")
        with at(port) as simulator:
            IpeClient(simulator).debt()
            simulator.get(f"/phone/{FULL_FLOW}")
            simulator.bank("ipe", fault="hang")
        with closing(socket.create_connection(("127.0.0.1", port), 10)) as hanging:
            hanging.sendall(b"POST /ipe/oauth2/token HTTP/1.1\r\nHost: bank\r\nContent-Length: 0\r\n\r\n")
            assert program.end(signal.SIGTERM) == 0
    assert [line.split(" ", 3)[3] for line in program.output.splitlines()] == [
        f"simulator ready on http://127.0.0.1:{port}",
        "simulator stopped",
    ]
    assert FULL_FLOW not in program.output


def test_where_others_reach_it_the_controls_have_a_port_of_their_own(tmp_path: Path) -> None:
    """Before the fix, they shared the port of the laboratory, which partners of a sandbox need."""
    port, control_port = free_port(), free_port()
    statuses = {}
    ports = {"SIMULATOR_PORT": str(port), "SIMULATOR_CONTROL_PORT": str(control_port)}
    with start(tmp_path / "log", **ports, **PUBLIC) as program:
        program.wait_for("ready on")
        for each in (port, control_port):
            with at(each) as asked:
                headers = asked.control_headers
                statuses[each] = asked.get("/_control/banks/ipe/calls", headers=headers).status_code
                assert asked.get("/lab/").status_code == 200
        assert program.end(signal.SIGINT) == 0
    assert statuses == {port: 404, control_port: 200}


@pytest.mark.parametrize("is_of_front", [False, True])
def test_a_port_in_use_is_said_in_one_line(tmp_path: Path, is_of_front: bool) -> None:
    """Before the fix, the simulator answered before its front did: a call through the front could come too early."""
    prepare(tmp_path)
    port = json.loads((tmp_path / "front.json").read_text())["proxy_port"] if is_of_front else free_port()
    own = free_port() if is_of_front else port
    ports = {"SIMULATOR_PORT": str(own), "SIMULATOR_FRONT_DIR": str(tmp_path)}
    with socket.create_server(("127.0.0.1", port)), start(tmp_path / "log", **ports) as program:
        assert program.handle.wait(30) == 1
    [told] = program.output.splitlines()
    assert "can't start" in told


@pytest.mark.parametrize(
    ("reach", "refused"),
    [
        (PUBLIC | {"SIMULATOR_CONTROL_TOKEN": "dev-control"}, "SIMULATOR_CONTROL_TOKEN must not be dev-control"),
        ({"SIMULATOR_HOST": "0.0.0.0", "SIMULATOR_CONTROL_TOKEN": "dev-control"}, "must not be dev-control"),
        (PUBLIC | {"SIMULATOR_CONTROL_PORT": "8123", "SIMULATOR_PORT": "8123"}, "must not be SIMULATOR_PORT"),
    ],
    ids=["public token, by its address", "public token, by its host", "controls at the port of all"],
)
def test_where_others_reach_it_the_controls_are_not_for_everybody(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, reach: dict[str, str], refused: str
) -> None:
    """Before the fix, everybody could read all bodies and slow the banks."""
    for name, value in {"SIMULATOR_CONTROL_TOKEN": TOKEN, **reach}.items():
        monkeypatch.setenv(name, value)
    assert main() == 1
    [told] = caplog.records
    assert told.getMessage().startswith("can't start: ")
    assert refused in told.getMessage()
