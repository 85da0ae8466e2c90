from typing import Any

import pytest

from tests.processes import Simulator
from tests.simulator.ipe_client import FULL_FLOW, PAYROLL, IpeClient

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


def test_a_call_is_recorded_as_it_arrived(simulator: Simulator, ipe: IpeClient) -> None:
    body = ipe.submission({"requester_identifier_key": "reference-7"})
    answer = simulator.post(
        f"/ipe{PAYROLL}/debts",
        json=body,
        headers={"Authorization": f"Bearer {ipe.token}", "X-Request-Id": "request-9"},
    )
    assert answer.status_code == 201
    assert [call["operation"] for call in simulator.calls("ipe")] == ["token", "query", "submit"]
    [call] = simulator.calls("ipe", "submit")
    assert call.pop("at").endswith("Z")
    assert call == {
        "operation": "submit",
        "reference": "reference-7",
        "cpf": FULL_FLOW,
        "request_id": "request-9",
        "body": answer.request.body.decode(),
        "fault": None,
        "let_in": True,
        "worked": True,
    }


def test_a_call_that_the_bank_refuses_has_not_worked(simulator: Simulator) -> None:
    simulator.get(f"/ipe{PAYROLL}/debts?requester_identifier_key=reference-1")
    [call] = simulator.calls("ipe", "find")
    assert (call["reference"], call["cpf"], call["fault"]) == ("reference-1", None, None)
    assert (call["let_in"], call["worked"]) == (False, False)


def test_calls_about_a_contract_bear_its_reference_and_cpf(simulator: Simulator, ipe: IpeClient) -> None:
    ipe.status(ipe.debt())
    ipe.get("/debts?requester_identifier_key=reference-1")
    for operation in ("status", "find"):
        [call] = simulator.calls("ipe", operation)
        assert (call["reference"], call["cpf"]) == ("reference-1", FULL_FLOW)


def test_a_body_that_cannot_be_read_is_recorded_all_the_same(simulator: Simulator, ipe: IpeClient) -> None:
    headers = {"Authorization": f"Bearer {ipe.token}", "Content-Type": "application/json"}
    surrogate = b'{"borrower": {"document_number": "\\ud800"}}'
    for body in (b'{"a": \xff', b"[" * 50_000, surrogate, b"1e99999999999999999999"):
        assert ipe.send(ipe.dialect.query, data=body, headers=headers).status_code == 400
    assert [call["worked"] for call in simulator.calls("ipe", "query")] == [False] * 4


def test_the_ledger_lists_the_contracts(simulator: Simulator, ipe: IpeClient) -> None:
    debt = ipe.debt()
    [contract] = simulator.contracts("ipe")
    assert contract.pop("created_at").endswith("Z")
    assert contract == {
        "contract": debt["debt_key"],
        "reference": "reference-1",
        "cpf": FULL_FLOW,
        "status": "created",
        "channel": None,
    }


@pytest.mark.parametrize(("order", "status"), [({}, 401), ({"keep_tokens": True}, 200)])
def test_reset_forgets_calls_contracts_faults_and_unless_told_otherwise_tokens(
    simulator: Simulator, ipe: IpeClient, order: dict[str, bool], status: int
) -> None:
    ipe.debt()
    simulator.bank("ipe", fault="http_500")
    simulator.control("reset", order)
    assert (simulator.calls("ipe"), simulator.contracts("ipe")) == ([], [])
    assert ipe.query().status_code == status


def test_reset_puts_the_clock_back(simulator: Simulator) -> None:
    year = 365 * 24 * 3600
    ahead = simulator.control("clock", {"advance_s": year})["now"]
    simulator.reset()
    assert simulator.control("clock", {"advance_s": 0})["now"] < ahead
