"""How long and how often a simulated bank misbehaves, and that it stays well. What each fault is to a caller, and
whether the work was done: tests/providers/contract/test_failures.py and tests/faults/test_submission.py."""

import json
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.processes import Programs, Simulator
from tests.providers.manuals import query_body
from tests.providers.samples import HOLDERS
from tests.simulator.dialect import of_holder
from tests.simulator.ipe_client import PAYROLL, IpeClient

ALL_SLOW = HOLDERS["all_slow"]


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


@pytest.mark.parametrize(
    ("behaviour", "statuses"),
    [
        ({"fault": "http_500", "operation": "submit"}, [200, 200, 200, 200, 200, 500]),
        ({"fault": "http_503", "operation": "any"}, [503] * 6),
        ({"fault": "http_503", "operation": None}, [503] * 6),
        ({"fault": "http_500", "operation": "query", "times": 2}, [200, 500, 500, 200, 200, 201]),
        ({"latency_ms": 1}, [200, 200, 200, 200, 200, 201]),
        ({}, [200, 200, 200, 200, 200, 201]),
    ],
)
def test_a_behaviour_is_for_its_operation_and_times_and_replaces_the_one_before(
    simulator: Simulator, ipe: IpeClient, behaviour: dict[str, Any], statuses: list[int]
) -> None:
    """Seen by a token, three queries, a search by reference and a submission."""
    body = ipe.submission()
    simulator.bank("ipe", fault="http_502")
    simulator.bank("ipe", **behaviour)
    token, queries = ipe.log_in(), [ipe.query() for _ in range(3)]
    found = [token, *queries, ipe.get("/debts?requester_identifier_key=x"), ipe.submit(body)]
    assert [answer.status_code for answer in found] == statuses


def test_latency_holds_back_the_answer_but_not_the_work(simulator: Simulator, ipe: IpeClient) -> None:
    with submitted(ipe, 0.5, latency_ms=60_000) as connection, pytest.raises(TimeoutError):
        connection.recv(1)
    assert noted(simulator) == (None, True, 1)


def test_latency_comes_before_the_answer(simulator: Simulator, ipe: IpeClient) -> None:
    simulator.bank("ipe", latency_ms=300)
    assert ipe.query().elapsed.total_seconds() >= 0.3


def test_a_scenario_may_let_the_query_hang(simulator: Simulator, ipe: IpeClient) -> None:
    body = of_holder(ALL_SLOW, query_body("ipe"))
    with sent(ipe, "/simulations", body, 0.5) as connection, pytest.raises(TimeoutError):
        connection.recv(1)
    [call] = simulator.calls("ipe", "query")
    assert (call["cpf"], call["fault"], call["worked"]) == (ALL_SLOW, "hang", False)
