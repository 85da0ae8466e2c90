"""What each fault does on the wire, seen by a raw socket, and whether the work was done."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from urllib.parse import urlsplit

import pytest
import requests

from tests.processes import Programs
from tests.providers.manuals import changed
from tests.simulator.http import HttpSimulator
from tests.simulator.ipe_client import ALL_SLOW, PAYROLL, QUERY, IpeClient


@contextmanager
def sent(ipe: IpeClient, path: str, body: object, timeout_s: float) -> Iterator[socket.socket]:
    address = urlsplit(ipe.simulator.url)
    payload = json.dumps(body).encode()
    head = (
        f"POST {PAYROLL}{path} HTTP/1.1\r\nHost: bank\r\nAuthorization: Bearer {ipe.token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(payload)}\r\nConnection: close\r\n\r\n"
    )
    with closing(socket.create_connection((address.hostname, address.port), timeout_s)) as connection:
        connection.sendall(head.encode() + payload)
        yield connection


def read_all(connection: socket.socket) -> bytes:
    found = bytearray()
    while chunk := connection.recv(65536):
        found += chunk
    return bytes(found)


def the_submit_call(simulator: HttpSimulator) -> tuple[str | None, bool]:
    [call] = simulator.calls("ipe", "submit")
    assert call["reference"] == "reference-1"
    return call["fault"], call["worked"]


@pytest.mark.parametrize(
    ("fault", "status", "media_type"),
    [
        ("http_500", 500, "text/plain"),
        ("http_503", 503, "text/plain"),
        ("html", 200, "text/html"),
        ("garbage", 200, "application/json"),
    ],
)
def test_an_answer_instead_of_the_work(
    simulator: HttpSimulator, ipe: IpeClient, fault: str, status: int, media_type: str
) -> None:
    body = ipe.submission()
    simulator.bank("ipe", fault=fault)
    answer = ipe.post("/debts", body)
    assert answer.status_code == status
    assert answer.headers["Content-Type"].startswith(media_type)
    with pytest.raises(requests.JSONDecodeError):
        answer.json()
    assert the_submit_call(simulator) == (fault, False)
    assert simulator.contracts("ipe") == []


def test_reset_cuts_the_connection_before_the_answer(simulator: HttpSimulator, ipe: IpeClient) -> None:
    body = ipe.submission()
    simulator.bank("ipe", fault="reset")
    with sent(ipe, "/debts", body, 10) as connection, pytest.raises(ConnectionResetError):
        read_all(connection)
    assert the_submit_call(simulator) == ("reset", False)
    assert simulator.contracts("ipe") == []


def test_drop_after_accept_does_the_work_and_cuts_the_connection(simulator: HttpSimulator, ipe: IpeClient) -> None:
    body = ipe.submission()
    simulator.bank("ipe", fault="drop_after_accept")
    with sent(ipe, "/debts", body, 10) as connection, pytest.raises(ConnectionResetError):
        read_all(connection)
    assert the_submit_call(simulator) == ("drop_after_accept", True)
    assert [contract["reference"] for contract in simulator.contracts("ipe")] == ["reference-1"]


def test_half_body_does_the_work_and_sends_half_of_what_it_promised(simulator: HttpSimulator, ipe: IpeClient) -> None:
    body = ipe.submission()
    simulator.bank("ipe", fault="half_body")
    with sent(ipe, "/debts", body, 10) as connection:
        head, _, half = read_all(connection).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 201")
    promised = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    assert len(half) == promised // 2
    assert half.startswith(b'{"debt_key"')
    assert the_submit_call(simulator) == ("half_body", True)
    assert len(simulator.contracts("ipe")) == 1


def test_slow_body_does_the_work_and_sends_a_byte_a_second(simulator: HttpSimulator, ipe: IpeClient) -> None:
    body = ipe.submission()
    simulator.bank("ipe", fault="slow_body")
    with sent(ipe, "/debts", body, 10) as connection:
        found, started = b"", time.monotonic()
        while not found.endswith(b'{"d'):
            found += connection.recv(65536)
        assert time.monotonic() - started > 1.5
    assert the_submit_call(simulator) == ("slow_body", True)
    assert len(simulator.contracts("ipe")) == 1


def test_huge_body_is_50_mb_of_one_answer(simulator: HttpSimulator, ipe: IpeClient) -> None:
    body = ipe.submission()
    simulator.bank("ipe", fault="huge_body")
    with sent(ipe, "/debts", body, 10) as connection:
        head, _, rest = read_all(connection).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    assert len(rest) == 50 * 1024 * 1024
    assert json.loads(rest).strip("0") == ""
    assert the_submit_call(simulator) == ("huge_body", False)


@pytest.mark.parametrize("fault", ["huge_body", "slow_body", "half_body"])
def test_a_client_that_hangs_up_in_the_middle_of_an_answer_is_not_worth_a_line(
    simulator: HttpSimulator, ipe: IpeClient, programs: Programs, fault: str
) -> None:
    body = ipe.submission()
    before = programs.logs("simulator")
    simulator.bank("ipe", fault=fault)
    for _ in range(5):
        with sent(ipe, "/debts", body, 10) as connection:
            connection.recv(1024)
            # Nobody reads the rest: the kernel answers it with a reset.
    simulator.bank("ipe")
    for _ in range(5):
        assert ipe.query().status_code == 200
    assert programs.logs("simulator") == before


def test_hang_says_nothing_until_reset(simulator: HttpSimulator, ipe: IpeClient) -> None:
    body = ipe.submission()
    simulator.bank("ipe", fault="hang")
    with sent(ipe, "/debts", body, 0.5) as connection:
        with pytest.raises(TimeoutError):
            connection.recv(1)
        assert the_submit_call(simulator) == ("hang", False)
        simulator.reset()
        connection.settimeout(10)
        with pytest.raises(ConnectionResetError):
            read_all(connection)


def test_a_bank_goes_on_after_clients_that_hung_have_left(simulator: HttpSimulator, ipe: IpeClient) -> None:
    simulator.bank("ipe", fault="hang", operation="query")
    for _ in range(20):
        with sent(ipe, "/simulations", QUERY, 10):
            pass
    simulator.bank("ipe")
    assert ipe.query().status_code == 200


def test_expired_token_answers_as_the_bank_does_and_forgets_the_token(simulator: HttpSimulator, ipe: IpeClient) -> None:
    body = ipe.submission()
    simulator.bank("ipe", fault="expired_token", times=1)
    answer = ipe.post("/debts", body)
    assert (answer.status_code, answer.json()["code"]) == (401, "IPE000401")
    assert the_submit_call(simulator) == ("expired_token", False)
    assert ipe.post("/debts", body).status_code == 401
    ipe.token = ipe.take_token().json()["access_token"]
    assert ipe.post("/debts", body).status_code == 201


def test_a_fault_is_for_its_operation_only(simulator: HttpSimulator, ipe: IpeClient) -> None:
    simulator.bank("ipe", fault="http_500", operation="submit")
    assert ipe.query().status_code == 200
    assert ipe.post("/debts", ipe.submission()).status_code == 500


@pytest.mark.parametrize("operation", ["any", None])
def test_any_covers_tokens_and_finds_too(simulator: HttpSimulator, ipe: IpeClient, operation: str | None) -> None:
    simulator.bank("ipe", fault="http_503", operation=operation)
    assert ipe.take_token().status_code == 503
    assert ipe.get("/debts?requester_identifier_key=reference-1").status_code == 503


def test_times_counts_the_calls_that_meet_the_fault(simulator: HttpSimulator, ipe: IpeClient) -> None:
    simulator.bank("ipe", fault="http_500", operation="query", times=2)
    ipe.take_token()
    assert [ipe.query().status_code for _ in range(3)] == [500, 500, 200]


def test_each_call_replaces_the_settings_and_an_empty_one_clears_them(simulator: HttpSimulator, ipe: IpeClient) -> None:
    simulator.bank("ipe", fault="http_500")
    simulator.bank("ipe", latency_ms=1)
    assert ipe.query().status_code == 200
    simulator.bank("ipe", fault="http_500")
    simulator.bank("ipe")
    assert ipe.query().status_code == 200


def test_latency_holds_back_the_answer_but_not_the_work(simulator: HttpSimulator, ipe: IpeClient) -> None:
    body = ipe.submission()
    simulator.bank("ipe", latency_ms=60_000)
    with sent(ipe, "/debts", body, 0.5) as connection, pytest.raises(TimeoutError):
        connection.recv(1)
    assert the_submit_call(simulator) == (None, True)
    assert len(simulator.contracts("ipe")) == 1


def test_latency_comes_before_the_answer(simulator: HttpSimulator, ipe: IpeClient) -> None:
    simulator.bank("ipe", latency_ms=300)
    assert ipe.query().elapsed.total_seconds() >= 0.3


def test_a_scenario_may_let_the_query_hang(simulator: HttpSimulator, ipe: IpeClient) -> None:
    body = changed(QUERY, {"borrower.document_number": ALL_SLOW})
    with sent(ipe, "/simulations", body, 0.5) as connection, pytest.raises(TimeoutError):
        connection.recv(1)
    [call] = simulator.calls("ipe", "query")
    assert (call["cpf"], call["fault"], call["worked"]) == (ALL_SLOW, "hang", False)
