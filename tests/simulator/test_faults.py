"""What each fault does on the wire, seen by a raw socket, and whether the work was done."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.processes import Programs
from tests.providers.manuals import query_body
from tests.providers.samples import HOLDERS
from tests.simulator.dialect import of_holder
from tests.simulator.http import HttpSimulator
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


def read_all(connection: socket.socket) -> tuple[bytes, bytes, type[OSError] | None]:
    """The head of an answer, what comes of its body, and the error that ends it."""
    found, error = bytearray(), None
    try:
        while chunk := connection.recv(65536):
            found += chunk
    except (ConnectionResetError, TimeoutError) as raised:
        error = type(raised)
    head, _, body = bytes(found).partition(b"\r\n\r\n")
    return head, body, error


def noted(simulator: HttpSimulator) -> tuple[str | None, bool, int]:
    """The fault of the only submission, whether it worked, and how many contracts there are."""
    [call] = simulator.calls("ipe", "submit")
    assert call["reference"] == "reference-1"
    return call["fault"], call["worked"], len(simulator.contracts("ipe"))


@dataclass(frozen=True)
class Wire:
    """What comes of the answer to a submission: nothing if the connection is cut. Whether the work was done."""

    fault: str
    status: bytes = b""
    media_type: bytes = b""
    begins: bytes = b""
    worked: bool = False


@pytest.mark.parametrize(
    "wire",
    [
        Wire("http_500", b"500", b"text/plain", b"Internal Server Error"),
        Wire("http_503", b"503", b"text/plain", b"Service Unavailable"),
        Wire("html", b"200", b"text/html", b"<!DOCTYPE html>"),
        Wire("garbage", b"200", b"application/json", b'{"status": "ok"'),
        Wire("huge_body", b"200", b"application/json", b'"000'),
        Wire("half_body", b"201", b"application/json", b'{"debt_key"', worked=True),
        Wire("reset"),
        Wire("drop_after_accept", worked=True),
    ],
    ids=lambda wire: wire.fault,
)
def test_what_comes_of_an_answer_and_whether_the_work_was_done(
    simulator: HttpSimulator, ipe: IpeClient, wire: Wire
) -> None:
    with submitted(ipe, fault=wire.fault) as connection:
        head, body, error = read_all(connection)
    assert (head[9:12], body.startswith(wire.begins)) == (wire.status, True)
    assert error is (None if wire.status else ConnectionResetError)
    assert not wire.status or b"content-type: " + wire.media_type in head.lower()
    assert noted(simulator) == (wire.fault, wire.worked, int(wire.worked))
    if wire.fault == "garbage":
        with pytest.raises(ValueError):
            json.loads(body)
    if wire.fault == "huge_body":
        assert (len(body), json.loads(body).strip("0")) == (50 * 1024 * 1024, "")
    if wire.fault == "half_body":
        assert len(body) == int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]) // 2


def test_slow_body_does_the_work_and_sends_a_byte_a_second(simulator: HttpSimulator, ipe: IpeClient) -> None:
    with submitted(ipe, fault="slow_body") as connection:
        found, started = b"", time.monotonic()
        while not found.endswith(b'{"'):
            found += connection.recv(65536)
        assert time.monotonic() - started > 0.75
    assert noted(simulator) == ("slow_body", True, 1)


@pytest.mark.parametrize("fault", ["huge_body", "slow_body", "half_body"])
def test_a_client_that_hangs_up_in_the_middle_of_an_answer_is_not_worth_a_line(
    simulator: HttpSimulator, ipe: IpeClient, programs: Programs, fault: str
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


def test_hang_says_nothing_until_reset(simulator: HttpSimulator, ipe: IpeClient) -> None:
    with submitted(ipe, 0.5, fault="hang") as connection:
        assert read_all(connection) == (b"", b"", TimeoutError)
        assert noted(simulator) == ("hang", False, 0)
        simulator.reset()
        connection.settimeout(10)
        assert read_all(connection) == (b"", b"", ConnectionResetError)


def test_a_bank_goes_on_after_clients_that_hung_have_left(simulator: HttpSimulator, ipe: IpeClient) -> None:
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
    simulator: HttpSimulator, ipe: IpeClient, behaviour: dict[str, Any], statuses: list[int]
) -> None:
    """Seen by a token, three queries, a search by reference and a submission."""
    body = ipe.submission()
    simulator.bank("ipe", fault="http_502")
    simulator.bank("ipe", **behaviour)
    token, queries = ipe.log_in(), [ipe.query() for _ in range(3)]
    found = [token, *queries, ipe.get("/debts?requester_identifier_key=x"), ipe.submit(body)]
    assert [answer.status_code for answer in found] == statuses


def test_latency_holds_back_the_answer_but_not_the_work(simulator: HttpSimulator, ipe: IpeClient) -> None:
    with submitted(ipe, 0.5, latency_ms=60_000) as connection, pytest.raises(TimeoutError):
        connection.recv(1)
    assert noted(simulator) == (None, True, 1)


def test_latency_comes_before_the_answer(simulator: HttpSimulator, ipe: IpeClient) -> None:
    simulator.bank("ipe", latency_ms=300)
    assert ipe.query().elapsed.total_seconds() >= 0.3


def test_a_scenario_may_let_the_query_hang(simulator: HttpSimulator, ipe: IpeClient) -> None:
    body = of_holder(ALL_SLOW, query_body("ipe"))
    with sent(ipe, "/simulations", body, 0.5) as connection, pytest.raises(TimeoutError):
        connection.recv(1)
    [call] = simulator.calls("ipe", "query")
    assert (call["cpf"], call["fault"], call["worked"]) == (ALL_SLOW, "hang", False)
