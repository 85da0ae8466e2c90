from __future__ import annotations

from typing import Any

import pytest

from tests.simulator.http import HttpSimulator
from tests.simulator.ipe_client import FULL_FLOW, PAYROLL, IpeClient


@pytest.mark.parametrize(
    "headers", [{}, {"X-Control-Token": "wrong"}, {"X-Control-Token": "né".encode()}, {"X-Control-Token": b"\xe9"}]
)
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/_control/reset"),
        ("POST", "/_control/banks/ipe"),
        ("GET", "/_control/banks/ipe/calls"),
        ("GET", "/_control/banks/ipe/contracts"),
        ("POST", "/_control/holders/90000000175/complete"),
        ("POST", "/_control/clock"),
        ("GET", "/_control/unknown"),
    ],
)
def test_every_control_is_401_without_the_token(
    simulator: HttpSimulator, method: str, path: str, headers: dict[str, Any]
) -> None:
    answer = simulator.request(method, path, headers=headers)
    assert answer.status_code == 401


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", ""), ("GET", "/calls"), ("GET", "/contracts")],
    ids=["faults", "calls", "contracts"],
)
def test_an_unknown_bank_is_404(simulator: HttpSimulator, method: str, path: str) -> None:
    answer = simulator.request(method, f"/_control/banks/unknown{path}", headers=simulator.control_headers)
    assert answer.status_code == 404


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("banks/ipe", {"fault": "explode"}, "fault"),
        ("banks/ipe", {"latency_ms": -1}, "latency_ms"),
        ("banks/ipe", {"latency_ms": True}, "latency_ms"),
        ("banks/ipe", {"operation": "poll"}, "operation"),
        ("banks/ipe", {"times": 0}, "times"),
        ("banks/ipe", {"offers_times": 0}, "offers_times"),
        ("banks/ipe", {"offers_times": 101}, "offers_times"),
        ("banks/ipe", {"fualt": "hang"}, "fualt"),
        ("banks/ipe", [], None),
        ("holders/90000000175/complete", {"step": "chat"}, "provider"),
        ("holders/90000000175/complete", {"provider": "unknown", "step": "chat"}, "provider"),
        ("holders/90000000175/complete", {"provider": "ipe"}, "step"),
        ("holders/90000000175/complete", {"provider": "ipe", "step": "dance"}, "step"),
        (
            "holders/90000000175/complete",
            {"provider": "ipe", "step": "chat", "outcome": "expired"},
            "outcome",
        ),
        ("clock", {}, "advance_s"),
        ("clock", {"advance_s": -1}, "advance_s"),
        ("clock", {"advance_s": "60"}, "advance_s"),
        ("clock", {"advance_s": True}, "advance_s"),
        ("clock", {"advance_s": 10**12}, "advance_s"),
    ],
)
def test_a_bad_body_is_422_and_names_the_field(
    simulator: HttpSimulator, path: str, body: Any, field: str | None
) -> None:
    answer = simulator.post(f"/_control/{path}", json=body, headers=simulator.control_headers)
    assert answer.status_code == 422
    assert answer.json()["field"] == field


@pytest.mark.parametrize("body", [b"{", b"\xff", b'{"advance_s": NaN}', b"[" * 50_000])
def test_a_body_that_is_no_json_is_422(simulator: HttpSimulator, body: bytes) -> None:
    assert simulator.post("/_control/clock", data=body, headers=simulator.control_headers).status_code == 422


def test_an_unknown_operation_of_calls_is_422(simulator: HttpSimulator) -> None:
    answer = simulator.get("/_control/banks/ipe/calls?operation=dance", headers=simulator.control_headers)
    assert answer.status_code == 422
    assert answer.json()["field"] == "operation"


def test_a_call_is_recorded_as_it_arrived(simulator: HttpSimulator, ipe: IpeClient) -> None:
    body = ipe.submission(reference="reference-7")
    answer = simulator.post(
        f"{PAYROLL}/debts",
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


def test_a_call_that_the_bank_refuses_has_not_worked(simulator: HttpSimulator, ipe: IpeClient) -> None:
    simulator.get(f"{PAYROLL}/debts?requester_identifier_key=reference-1")
    [call] = simulator.calls("ipe", "find")
    assert (call["reference"], call["cpf"], call["fault"]) == ("reference-1", None, None)
    assert (call["let_in"], call["worked"]) == (False, False)


def test_calls_about_a_contract_bear_its_reference_and_cpf(simulator: HttpSimulator, ipe: IpeClient) -> None:
    debt = ipe.submit()
    ipe.status(debt)
    ipe.get("/debts?requester_identifier_key=reference-1")
    for operation in ("status", "find"):
        [call] = simulator.calls("ipe", operation)
        assert (call["reference"], call["cpf"]) == ("reference-1", FULL_FLOW)


def test_a_body_that_cannot_be_read_is_recorded_all_the_same(simulator: HttpSimulator, ipe: IpeClient) -> None:
    headers = {"Authorization": f"Bearer {ipe.token}", "Content-Type": "application/json"}
    for body in (
        b'{"a": \xff',
        b"[" * 50_000,
        b'{"borrower": {"document_number": "\\ud800"}}',
        b"1e99999999999999999999",
    ):
        answer = simulator.post(f"{PAYROLL}/simulations", data=body, headers=headers)
        assert answer.status_code == 400
    assert [call["worked"] for call in simulator.calls("ipe", "query")] == [False] * 4


def test_the_ledger_lists_the_contracts(simulator: HttpSimulator, ipe: IpeClient) -> None:
    debt = ipe.submit()
    [contract] = simulator.contracts("ipe")
    assert contract.pop("created_at").endswith("Z")
    assert contract == {
        "contract": debt["debt_key"],
        "reference": "reference-1",
        "cpf": FULL_FLOW,
        "status": "created",
        "channel": None,
    }


def test_reset_forgets_calls_contracts_tokens_and_faults(simulator: HttpSimulator, ipe: IpeClient) -> None:
    ipe.submit()
    simulator.bank("ipe", fault="http_500")
    simulator.control("reset", {})
    assert simulator.calls("ipe") == []
    assert simulator.contracts("ipe") == []
    assert ipe.query().status_code == 401


def test_reset_keeps_tokens_where_it_is_told_to(simulator: HttpSimulator, ipe: IpeClient) -> None:
    ipe.submit()
    simulator.control("reset", {"keep_tokens": True})
    assert simulator.contracts("ipe") == []
    assert ipe.query().status_code == 200


def test_reset_puts_the_clock_back(simulator: HttpSimulator, ipe: IpeClient) -> None:
    year = 365 * 24 * 3600
    ahead = simulator.control("clock", {"advance_s": year})["now"]
    simulator.reset()
    assert simulator.control("clock", {"advance_s": 0})["now"] < ahead


def test_a_token_ends_by_the_simulators_clock(simulator: HttpSimulator, ipe: IpeClient) -> None:
    simulator.advance(20 * 60 - 5)
    assert ipe.query().status_code == 200
    simulator.advance(10)
    assert ipe.query().status_code == 401


def test_completing_a_step_that_nobody_opened_is_409(simulator: HttpSimulator) -> None:
    answer = simulator.post(
        "/_control/holders/90000000175/complete",
        json={"provider": "ipe", "step": "signature"},
        headers=simulator.control_headers,
    )
    assert answer.status_code == 409
