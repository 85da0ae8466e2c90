"""A simulated bank that misbehaves stays well itself. What each fault is to a caller, and whether the work was done:
tests/providers/contract/test_failures.py and tests/faults/test_submission.py."""

import json
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.processes import Programs, Simulator
from tests.providers.manuals import query_body
from tests.simulator.test_ipe import PAYROLL, IpeClient


@contextmanager
def sent(ipe: IpeClient, path: str, body: object, timeout_s: float = 10) -> Iterator[socket.socket]:
    address = urlsplit(ipe.simulator.url)
    payload = json.dumps(body).encode()
    head = (
        f"POST /ipe{PAYROLL}{path} HTTP/1.1\r\nHost: bank\r\nAuthorization: Bearer {ipe.token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(payload)}\r\nConnection: close\r\n\r\n"
    )
    with closing(socket.create_connection((address.hostname, address.port), timeout_s)) as connection:
        connection.sendall(head.encode() + payload)
        yield connection


@contextmanager
def submitted(ipe: IpeClient, timeout_s: float = 10, **behaviour: Any) -> Iterator[socket.socket]:
    """A valid submission, sent to a bank that behaves in this way."""
    body = ipe.submission()
    ipe.simulator.bank("ipe", **behaviour)
    with sent(ipe, "/debts", body, timeout_s) as connection:
        yield connection


def noted(simulator: Simulator) -> tuple[str | None, bool, int]:
    """The fault of the only submission, whether it worked, and how many contracts there are."""
    [call] = simulator.calls("ipe", "submit")
    assert call["reference"] == "reference-1"
    return call["fault"], call["worked"], len(simulator.contracts("ipe"))


@pytest.mark.parametrize("fault", ["huge_body", "slow_body", "half_body"])
def test_a_client_that_hangs_up_in_the_middle_of_an_answer_is_not_worth_a_line(
    simulator: Simulator, ipe: IpeClient, programs: Programs, fault: str
) -> None:
    before = programs.logs("simulator")
    for _ in range(5):
        with submitted(ipe, fault=fault, operation="submit") as connection:
            connection.recv(1024)
            # Nobody reads the rest: the kernel answers it with a reset.
    simulator.bank("ipe")
    for _ in range(5):
        assert ipe.query().status_code == 200
    assert programs.logs("simulator") == before


def test_hang_says_nothing_until_reset(simulator: Simulator, ipe: IpeClient) -> None:
    with submitted(ipe, 0.5, fault="hang") as connection:
        with pytest.raises(TimeoutError):
            connection.recv(1)
        assert noted(simulator) == ("hang", False, 0)
        simulator.reset()
        connection.settimeout(10)
        with pytest.raises(ConnectionResetError):
            connection.recv(1)


def test_a_bank_goes_on_after_clients_that_hung_have_left(simulator: Simulator, ipe: IpeClient) -> None:
    simulator.bank("ipe", fault="hang", operation="query")
    for _ in range(20):
        with sent(ipe, "/simulations", query_body("ipe")):
            pass
    simulator.bank("ipe")
    assert ipe.query().status_code == 200


def test_latency_holds_back_the_answer_but_not_the_work(simulator: Simulator, ipe: IpeClient) -> None:
    with submitted(ipe, 0.5, latency_ms=60_000) as connection, pytest.raises(TimeoutError):
        connection.recv(1)
    assert noted(simulator) == (None, True, 1)
