"""Formalize, status and cancel over HTTP: /partners/v1/proposals/{id}…"""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from foundation.formats import iso_utc
from proposals.models import BankCall, Proposal
from providers.models import Provider
from tests.client import FULL_FLOW, Client, error_body
from tests.processes import Simulator, wait_until
from tests.proposals.datasets import dataset

UNAVAILABLE = error_body(
    "provider_unavailable", "Banco indisponível no momento. Tente novamente em instantes.", retryable=True
)
WAIT_S = 30


def submitted(client: Client, bank: str, cpf: str = FULL_FLOW, changes: dict[str, Any] | None = None) -> str:
    offer = client.offer(bank, cpf)
    response = client.post("/proposals", dataset(offer, cpf, changes))
    assert response.status_code == 201, response.text
    return response.json()["proposal_id"]  # type: ignore[no-any-return]


def look_again(proposal_id: str) -> None:
    """Set the last status check far back, and the next check in the background far ahead."""
    far = timezone.now() + timedelta(hours=1)
    Proposal.objects.filter(pk=proposal_id).update(last_status_at=None, due_at=far)


def status(client: Client, proposal_id: str) -> dict[str, Any]:
    look_again(proposal_id)
    response = client.get(f"/proposals/{proposal_id}")
    assert response.status_code == 200, response.text
    return response.json()  # type: ignore[no-any-return]


# --- formalize --------------------------------------------------------------------------------------------------


def test_formalize_gives_the_link(client: Client, simulator: Simulator) -> None:
    """The link's expiry and the history are told, so that a partner's backend need not count days."""
    proposal_id = submitted(client, "ipe")
    body = client.post(f"/proposals/{proposal_id}/formalize").json()
    row = Proposal.objects.get()
    assert row.signature_expires_at is not None
    assert (body["status"], "history" in body) == ("awaiting_signature", False)
    assert body["action"] == {
        "type": "signature",
        "url": body["action"]["url"],
        "expires_at": iso_utc(row.signature_expires_at),
        "delivery": {"channel": "link", "destination": None},
    }
    assert body["action"]["url"].startswith(simulator.url)
    told = status(client, proposal_id)
    again = client.post(f"/proposals/{proposal_id}/formalize", {}).json()
    assert told["action"] == again["action"] == body["action"]
    assert [each["status"] for each in told["history"]] == ["created", "awaiting_signature"]
    assert [each["at"] for each in told["history"]] == [iso_utc(move.at) for move in row.moves.all()]


def test_tipo_envio_of_formalize_goes_before_that_of_submit(client: Client, simulator: Simulator) -> None:
    proposal_id = submitted(client, "ipe", changes={"evidencia.tipo_envio": "sms"})
    body = client.post(f"/proposals/{proposal_id}/formalize", {"tipo_envio": "whatsapp"}).json()
    assert body["action"]["delivery"] == {"channel": "whatsapp", "destination": "(11) *****-4321"}
    [call] = simulator.calls("ipe", "formalize")
    assert "whatsapp" in call["body"]


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("http_503", UNAVAILABLE),
        ("garbage", error_body("provider_error", "O banco respondeu de forma inesperada.")),
    ],
)
def test_a_bank_that_fails_on_formalize_is_a_502_and_the_retry_works(
    client: Client, simulator: Simulator, fault: str, error: dict[str, Any]
) -> None:
    proposal_id = submitted(client, "ipe")
    simulator.bank("ipe", fault=fault, operation="formalize")
    response = client.post(f"/proposals/{proposal_id}/formalize")
    assert (response.status_code, response.json()) == (502, {**error, "proposal_id": proposal_id})
    simulator.bank("ipe")
    assert client.post(f"/proposals/{proposal_id}/formalize").status_code == 200


@pytest.mark.parametrize("fault", ["http_503", "reset", "garbage"])
def test_the_link_is_given_again_while_the_bank_is_down(client: Client, simulator: Simulator, fault: str) -> None:
    """Before the fix, the answer was 502, and the holder could not sign the issued contract."""
    proposal_id = submitted(client, "ipe")
    first = client.post(f"/proposals/{proposal_id}/formalize").json()
    simulator.bank("ipe", fault=fault, operation="any")  # a check in the background would bring a new expiry
    again = client.post(f"/proposals/{proposal_id}/formalize", {"tipo_envio": "sms"})
    assert (again.status_code, again.json()) == (200, {**first, "error": UNAVAILABLE})
    Proposal.objects.update(signature_expires_at=timezone.now())
    late = client.post(f"/proposals/{proposal_id}/formalize")
    assert late.status_code == 502
    simulator.bank("ipe")
    assert client.post(f"/proposals/{proposal_id}/formalize").json()["error"] is None


# --- status -----------------------------------------------------------------------------------------------------


def test_status_asks_the_bank_at_most_once_in_5_s_under_the_requests_id(client: Client, simulator: Simulator) -> None:
    proposal_id = submitted(client, "ipe")
    look_again(proposal_id)
    for number in range(5):
        response = client.get(f"/proposals/{proposal_id}", headers={"X-Request-Id": f"status-read-{number}"})
        assert (response.status_code, response.headers["X-Request-Id"]) == (200, f"status-read-{number}")
        Proposal.objects.update(last_status_at=timezone.now() - timedelta(seconds=1))  # five take 5 s on a busy machine
    assert [call["request_id"] for call in simulator.calls("ipe", "status")] == ["status-read-0"]
    Proposal.objects.update(last_status_at=timezone.now() - timedelta(seconds=6))
    client.get(f"/proposals/{proposal_id}")
    assert len(simulator.calls("ipe", "status")) == 2


def test_a_bank_that_can_not_tell_leaves_the_last_known_status(client: Client, simulator: Simulator) -> None:
    """It fails in some way, or an operator switched it off."""
    proposal_id = submitted(client, "ipe")
    for fault in ("http_500", "html", "reset", "expired_token", ""):
        simulator.bank("ipe", fault=fault or None, operation="status")
        Provider.objects.filter(name="ipe").update(enabled=bool(fault))
        failed = status(client, proposal_id)
        assert (failed["status"], failed["error"]) == ("created", UNAVAILABLE), fault
        assert client.get(f"/proposals/{proposal_id}").json()["error"] == UNAVAILABLE
        Provider.objects.filter(name="ipe").update(enabled=True)
        simulator.bank("ipe")
        assert status(client, proposal_id)["error"] is None


def test_that_the_bank_does_not_know_a_proposal_is_told_once_in_its_timeline(
    client: Client, simulator: Simulator
) -> None:
    """Before the fix, it was asked about again and again, and no page told the answer."""
    proposal_id = submitted(client, "ipe")
    Proposal.objects.update(native_id="unknown-to-the-bank")
    for _ in range(2):
        assert status(client, proposal_id)["error"] == UNAVAILABLE
    assert len(simulator.calls("ipe", "status")) == 2
    told = [(each.operation, each.outcome) for each in BankCall.objects.exclude(operation="submit")]
    assert told == [("status", "not_found")]


def test_overlapping_status_checks_are_all_answered(client: Client, simulator: Simulator) -> None:
    """Before the fix, the later check took the answer of an earlier one in the same process, which then got 500."""
    proposal_id = submitted(client, "ipe")
    simulator.bank("ipe", latency_ms=3000, operation="status")
    waiting = []
    with ThreadPoolExecutor() as pool:
        for number in range(1, 7):
            look_again(proposal_id)
            waiting.append(pool.submit(client.get, f"/proposals/{proposal_id}"))
            wait_until(lambda n=number: len(simulator.calls("ipe", "status")) == n, WAIT_S, "the bank is asked")
        replies = [each.result() for each in waiting]
    assert [(reply.status_code, reply.json()["error"]) for reply in replies] == [(200, None)] * len(waiting)
    assert max(reply.elapsed for reply in replies) < timedelta(seconds=10)


# --- cancel -----------------------------------------------------------------------------------------------------


def test_cancel_and_again(client: Client, simulator: Simulator) -> None:
    proposal_id = submitted(client, "ipe")
    first = client.post(f"/proposals/{proposal_id}/cancel", {"motivo": "Desistência do titular."})
    again = client.post(f"/proposals/{proposal_id}/cancel")
    assert (first.status_code, first.json()["status"]) == (200, "cancelled")
    assert (again.status_code, again.json()) == (200, first.json())
    assert status(client, proposal_id)["status"] == "cancelled"
    [call] = simulator.calls("ipe", "cancel")
    assert "Desistência do titular." in call["body"]
    assert simulator.calls("ipe", "status") == [], "a final status is not asked again"
    assert [contract["status"] for contract in simulator.contracts("ipe")] == ["cancelled"]


def test_cancel_of_one_that_the_bank_paid_meanwhile_is_a_409(client: Client, simulator: Simulator) -> None:
    """Before the fix, the answer named the status of before and called for `formalize`, whose refusal called for
    `cancel`."""
    proposal_id = submitted(client, "ipe")
    client.post(f"/proposals/{proposal_id}/formalize")
    simulator.complete(FULL_FLOW, "ipe", "signature")
    simulator.advance(10)
    response = client.post(f"/proposals/{proposal_id}/cancel")
    assert (response.status_code, response.json()["code"]) == (409, "invalid_state")
    assert (response.json()["status"], response.json()["next_actions"]) == ("disbursed", ["none"])
