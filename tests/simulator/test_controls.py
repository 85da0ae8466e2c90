"""The controls of the simulator, the ledger in which each bank keeps its contracts, and that a bank which misbehaves
stays well itself, seen over HTTP at ipe. The holder's phone."""

import json
import re
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.processes import Programs, Simulator
from tests.providers.manuals import query_body
from tests.providers.samples import HOLDERS
from tests.simulator.test_ipe import FULL_FLOW, PAYROLL, IpeClient

COMPLETE = f"holders/{FULL_FLOW}/complete"


@pytest.mark.parametrize("token", [{}, "wrong", "né".encode(), b"\xe9"], ids=ascii)
def test_every_control_is_401_without_the_token(simulator: Simulator, token: Any) -> None:
    headers = {"X-Control-Token": token} if token else {}
    for path in ("reset", "banks/ipe", COMPLETE, "clock"):
        assert simulator.post(f"/_control/{path}", headers=headers).status_code == 401, path
    for path in ("banks/ipe/calls", "banks/ipe/contracts", "unknown"):
        assert simulator.get(f"/_control/{path}", headers=headers).status_code == 401, path


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "field"),
    [
        ("POST", "banks/unknown", {}, 404, None),
        ("GET", "banks/unknown/calls", None, 404, None),
        ("GET", "banks/unknown/contracts", None, 404, None),
        ("GET", "banks/ipe/calls?operation=dance", None, 422, "operation"),
        ("POST", "banks/ipe", {"fault": "explode"}, 422, "fault"),
        ("POST", "banks/ipe", {"latency_ms": -1}, 422, "latency_ms"),
        ("POST", "banks/ipe", {"latency_ms": True}, 422, "latency_ms"),
        ("POST", "banks/ipe", {"operation": "poll"}, 422, "operation"),
        ("POST", "banks/ipe", {"times": 0}, 422, "times"),
        ("POST", "banks/ipe", {"offers_times": 0}, 422, "offers_times"),
        ("POST", "banks/ipe", {"offers_times": 101}, 422, "offers_times"),
        ("POST", "banks/ipe", {"fualt": "hang"}, 422, "fualt"),
        ("POST", "banks/ipe", [], 422, None),
        ("POST", COMPLETE, {"step": "chat"}, 422, "provider"),
        ("POST", COMPLETE, {"provider": "unknown", "step": "chat"}, 422, "provider"),
        ("POST", COMPLETE, {"provider": "ipe"}, 422, "step"),
        ("POST", COMPLETE, {"provider": "ipe", "step": "dance"}, 422, "step"),
        ("POST", COMPLETE, {"provider": "ipe", "step": "chat", "outcome": "expired"}, 422, "outcome"),
        ("POST", COMPLETE, {"provider": "ipe", "step": "signature"}, 409, None),  # nobody opened it
        ("POST", "clock", {}, 422, "advance_s"),
        ("POST", "clock", {"advance_s": -1}, 422, "advance_s"),
        ("POST", "clock", {"advance_s": "60"}, 422, "advance_s"),
        ("POST", "clock", {"advance_s": True}, 422, "advance_s"),
        ("POST", "clock", {"advance_s": 10**12}, 422, "advance_s"),
    ],
)
def test_a_wrong_command_is_refused_and_names_the_field(
    simulator: Simulator, method: str, path: str, body: Any, status: int, field: str | None
) -> None:
    answer = simulator.request(method, f"/_control/{path}", json=body, headers=simulator.control_headers)
    assert (answer.status_code, answer.json().get("field")) == (status, field)


@pytest.mark.parametrize("body", [b"{", b"\xff", b'{"advance_s": NaN}', b"[" * 50_000])
def test_a_body_that_is_no_json_is_422(simulator: Simulator, body: bytes) -> None:
    assert simulator.post("/_control/clock", data=body, headers=simulator.control_headers).status_code == 422


def test_a_body_that_cannot_be_read_is_recorded_all_the_same(simulator: Simulator, ipe: IpeClient) -> None:
    headers = {"Authorization": f"Bearer {ipe.token}", "Content-Type": "application/json"}
    surrogate = b'{"borrower": {"document_number": "\\ud800"}}'
    for body in (b'{"a": \xff', b"[" * 50_000, surrogate, b"1e99999999999999999999"):
        assert ipe.send(ipe.dialect.call_to("query"), data=body, headers=headers).status_code == 400
    assert [call["worked"] for call in simulator.calls("ipe", "query")] == [False] * 4


@pytest.mark.parametrize(("order", "status"), [({}, 401), ({"keep_tokens": True}, 200)])
def test_reset_forgets_calls_contracts_faults_and_unless_told_otherwise_tokens(
    simulator: Simulator, ipe: IpeClient, order: dict[str, bool], status: int
) -> None:
    ipe.debt()
    simulator.bank("ipe", fault="http_500")
    simulator.control("reset", order)
    assert (simulator.calls("ipe"), simulator.contracts("ipe")) == ([], [])
    assert ipe.query().status_code == status


def ledger_status(simulator: Simulator) -> str:
    [contract] = simulator.contracts("ipe")
    return str(contract["status"])


def test_a_holder_who_never_signs_lets_the_contract_expire(simulator: Simulator, ipe: IpeClient) -> None:
    debt = ipe.debt(HOLDERS["unsigned"])
    ipe.issue(debt)
    simulator.advance(55)
    assert ipe.status(debt)["status"] == "waiting_signature"
    simulator.advance(10)
    assert ipe.status(debt)["status"] == "signature_expired"
    assert ledger_status(simulator) == "expired"
    assert ipe.issue(debt).status_code == 409


def test_a_strange_word_is_told_until_the_contract_is_issued(simulator: Simulator, ipe: IpeClient) -> None:
    debt = ipe.debt(HOLDERS["strange_status"])
    assert ipe.status(debt)["status"] == "em_orbita"
    assert ledger_status(simulator) == "created"
    assert ipe.issue(debt).json()["status"] == "waiting_signature"


def test_a_cancelled_contract_stays_cancelled(simulator: Simulator, ipe: IpeClient) -> None:
    debt = ipe.debt()
    ipe.issue(debt)
    for _ in range(2):
        answer = ipe.post(f"/debts/{debt['debt_key']}/cancel", {"reason": "desistência"})
        assert (answer.status_code, answer.json()["status"]) == (200, "canceled")
    simulator.advance(60)
    assert ledger_status(simulator) == "cancelled"
    with pytest.raises(AssertionError, match="409"):
        simulator.complete(FULL_FLOW, "ipe", "signature")


def test_the_control_ends_the_newest_open_signature(simulator: Simulator, ipe: IpeClient) -> None:
    debts = [ipe.debt(reference=f"reference-{number}") for number in (1, 2)]
    for debt in debts:
        ipe.issue(debt)
    simulator.complete(FULL_FLOW, "ipe", "signature")
    assert [ipe.status(debt)["status"] for debt in debts] == ["waiting_signature", "pending_reservation"]


# --- A bank that misbehaves. What each fault is to a caller, and whether the work was done:
# tests/providers/contract/test_failures.py and tests/faults/test_submission.py.


@contextmanager
def sent(ipe: IpeClient, path: str, body: object, timeout_s: float = 10) -> Iterator[socket.socket]:
    address = urlsplit(ipe.simulator.url)
    headers = {"Authorization": f"Bearer {ipe.token}", "Content-Type": "application/json"}
    with closing(HTTPConnection(address.hostname or "", address.port, timeout=timeout_s)) as connection:
        connection.request("POST", f"/ipe{PAYROLL}{path}", json.dumps(body), headers)
        yield connection.sock


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


# --- The holder's phone: its page with links and messages, and the gateway whose text messages it gets


STEP = re.compile(r'<li class="step (\w+)" data-bank="(\w+)" data-step="(\w+)"')
TEXT = {"to": "+5511987654321", "text": "123456 é o seu <código>.", "reference": "r-1"}
BEARER = {"Authorization": "Bearer x"}
MESSAGE = re.compile(r'<li class="message (\w+)" data-bank="(\w+)"')


def issued(ipe: IpeClient) -> tuple[dict[str, Any], str]:
    debt = ipe.debt()
    return debt, ipe.issue(debt).json()["signature"]["url"]


def test_a_phone_without_anything_says_so(simulator: Simulator) -> None:
    page = simulator.get(f"/phone/{FULL_FLOW}")
    assert page.status_code == 200
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    assert page.headers["Cache-Control"] == "no-store"
    assert "Nenhuma mensagem." in page.text
    assert "Nenhum link." in page.text


def test_the_phone_shows_every_link_with_what_the_holder_would_do(simulator: Simulator, ipe: IpeClient) -> None:
    _, url = issued(ipe)
    page = simulator.get(f"/phone/{FULL_FLOW}").text
    assert STEP.findall(page) == [("open", "ipe", "signature")]
    assert f'href="{url}"' in page
    assert "Assinar o contrato" in page
    assert "Recusar a assinatura" in page
    assert MESSAGE.findall(page) == []


@pytest.mark.parametrize(
    ("outcome", "state", "status"),
    [("approved", "Concluída", "pending_reservation"), ("refused", "Recusada", "refused")],
)
@pytest.mark.parametrize("back_to", ["link", "phone"])
def test_the_first_button_does_what_the_holder_does_and_looking_does_nothing(
    simulator: Simulator, ipe: IpeClient, outcome: str, state: str, status: str, back_to: str
) -> None:
    debt, url = issued(ipe)
    assert simulator.get(url).text.count("<button") == 2
    simulator.request("HEAD", url)
    assert ipe.status(debt)["status"] == "waiting_signature"
    page = simulator.post(url, data={"outcome": outcome, "back_to": back_to})
    assert page.url == (url if back_to == "link" else f"{simulator.url}/phone/{FULL_FLOW}")
    assert state in page.text
    assert "<button" not in page.text
    for _ in range(2):
        assert ipe.status(debt)["status"] == status
        simulator.post(url, data={"outcome": "refused" if outcome == "approved" else "approved"})  # too late


def test_an_unknown_link_is_a_page_for_a_holder(simulator: Simulator) -> None:
    page = simulator.get("/links/unknown")
    assert page.status_code == 404
    assert "Link desconhecido" in page.text


def test_the_start_page_leads_to_every_holder(simulator: Simulator) -> None:
    page = simulator.get("/").text
    assert f'href="/phone/{FULL_FLOW}"' in page
    assert page.count('href="/phone/') == len(HOLDERS)


def test_what_came_from_outside_is_escaped(simulator: Simulator) -> None:
    page = simulator.get("/phone/%3Cscript%3Ealert(1)%3C%2Fscript%3E").text
    assert "<script>" not in page


def test_a_text_message_lands_on_the_phone_of_its_number_once(simulator: Simulator) -> None:
    message = TEXT | {"reference": "once"}
    for _ in range(2):
        reply = simulator.post("/sms", json=message, headers=BEARER)
        assert (reply.status_code, reply.json()) == (202, {"reference": "once"})
    page = simulator.get("/phone/11987654321").text
    assert page.count("123456 é o seu &lt;código&gt;.") == 1
    assert "Nenhuma mensagem." in simulator.get("/phone/11987654322").text


@pytest.mark.parametrize(
    ("change", "headers", "status"),
    [
        ({}, {}, 401),
        ({"to": "11987654321"}, BEARER, 422),
        ({"text": ""}, BEARER, 422),
        ({"text": "x" * 1001}, BEARER, 422),
        ({"reference": None}, BEARER, 422),
        ({"colour": "red"}, BEARER, 422),
    ],
)
def test_what_is_no_message_is_refused(
    simulator: Simulator, change: dict[str, Any], headers: dict[str, str], status: int
) -> None:
    assert simulator.post("/sms", json=TEXT | change, headers=headers).status_code == status
    assert "Nenhuma mensagem." in simulator.get("/phone/11987654321").text
