"""A partner's automated tests with the laboratory, through the whole service."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from django.db.models import Q

from consultas.models import Step
from tests.client import Client
from tests.processes import Simulator, wait_until
from tests.proposals.datasets import dataset

WAIT_S = 20
OWN_CPF = "52998224725"


def test_a_story_of_ones_own_holder(client: Client, simulator: Simulator) -> None:
    simulator.lab(OWN_CPF, "", scenario="biometric")
    waiting = client.query(OWN_CPF, providers=["imbuia"])["providerResults"]["imbuia"]
    assert waiting["status"] == "requires_action"
    simulator.lab(OWN_CPF, "steps/approve", provider="imbuia")
    [offer, _] = client.query(OWN_CPF, providers=["imbuia"])["proposals"]
    # A check of the step asks the bank again and would refresh the offer after it expired.
    unsettled = Step.objects.filter(Q(closed_at=None) | Q(lease_until__isnull=False))
    wait_until(lambda: not unsettled.exists(), WAIT_S, "the step is settled")

    simulator.lab(OWN_CPF, "faults", provider="imbuia", fault="expired_offer")
    refused = client.post("/proposals", dataset(offer, cpf=OWN_CPF))
    assert (refused.status_code, refused.json()["code"]) == (409, "offer_expired")

    [offer, _] = client.query(OWN_CPF, providers=["imbuia"], prazo=24)["proposals"]
    proposal_id = client.submit(dataset(offer, cpf=OWN_CPF))["proposal_id"]
    simulator.lab(OWN_CPF, "proposals/advance", status="disbursed")
    wait_until(lambda: client.read(f"/proposals/{proposal_id}")["status"] == "disbursed", WAIT_S, "the money is out")


def test_a_bank_refuses_in_the_words_that_were_ordered(client: Client, simulator: Simulator) -> None:
    proposal_id = sold(client, simulator, "full_flow", "ipe", status="rejected", words="Chuva em Marte")
    told = client.read(f"/proposals/{proposal_id}")
    reason = told["reason"]
    assert (told["status"], reason["code"], reason["message"]) == ("rejected", "other", "Chuva em Marte")


def test_the_cost_that_a_bank_leaves_out_is_computed(client: Client, simulator: Simulator) -> None:
    simulator.lab(OWN_CPF, "", scenario="full_flow")
    simulator.lab(OWN_CPF, "faults", provider="ipe", fault="without_cet")
    wish = {"providers": ["ipe"], "with_insurance": False}
    [computed] = client.query(OWN_CPF, **wish)["proposals"]
    [told] = client.query(OWN_CPF, **wish, prazo=48)["proposals"]
    assert (computed["cetSource"], told["cetSource"]) == ("computed", "bank")
    assert 0 < computed["cetMonthly"] < computed["cetAnnual"]
    comparable = ("cetComparableMonthly", "cetComparableAnnual")
    assert [told[name] for name in comparable] == [computed[name] for name in comparable]
    assert [told[name] for name in comparable] == [computed["cetMonthly"], computed["cetAnnual"]]
    assert "cetMonthlyPercent" not in computed["providerData"]
    numbers = ("installmentValue", "installments", "totalAmount", "iof")
    assert [computed[name] for name in numbers] == [told[name] for name in numbers]


def sold(client: Client, simulator: Simulator, scenario: str, bank: str, **order: str) -> str:
    """The id of a proposal at `bank` that the laboratory led to a status."""
    simulator.lab(OWN_CPF, "", scenario=scenario)
    [offer, _] = client.query(OWN_CPF, providers=[bank])["proposals"]
    proposal_id: str = client.submit(dataset(offer, cpf=OWN_CPF))["proposal_id"]
    simulator.lab(OWN_CPF, "proposals/advance", provider=bank, **order)
    return proposal_id


def told(client: Client, proposal_id: str, name: str) -> list[dict[str, Any]]:
    """The bodies of the events `name` about the proposal, in their order."""
    page = client.get("/webhook-events", params={"event": name, "order": "asc", "include": "body"}).json()
    assert len(page["events"]) < 50
    return [each["body"] for each in page["events"] if each["body"]["external_reference"] == proposal_id]


def test_averbation_that_fails_twice_is_followed_to_the_payment(client: Client, simulator: Simulator) -> None:
    """The bank calls back at each change, so the partner need not poll."""
    proposal_id = sold(client, simulator, "averbation_retried", "canela", status="signed")
    [paid] = wait_until(
        lambda: told(client, proposal_id, "proposal.disbursed"), 2 * WAIT_S, "the money is out", every_s=0.5
    )
    bodies = told(client, proposal_id, "proposal.stage_changed")
    assert [body["stage"] for body in bodies][-4:] == ["averbation", "averbation", "averbation", "disbursement"]
    assert [body["status"] for body in bodies][-4:] == ["signed"] * 4
    reasons = [body["stage_reason"] for body in bodies][-4:]
    assert [reason and (reason["code"], reason["retryable"]) for reason in reasons] == [
        None,
        ("averbation_refused", True),
        ("averbation_refused", True),
        None,
    ]
    assert (paid["stage"], paid["stage_reason"]) == (None, None)


@pytest.mark.parametrize("bank", ["canela", "ipe"])
def test_a_withdrawal_is_noticed_without_a_poll(client: Client, simulator: Simulator, bank: str) -> None:
    proposal_id = sold(client, simulator, "full_flow", bank, status="disbursed")
    shown = wait_until(
        lambda: (found := client.read(f"/proposals/{proposal_id}"))["status"] == "disbursed" and found,
        WAIT_S,
        "the money is out",
    )
    until = date.fromisoformat(shown["withdrawal_until"])
    assert timedelta(days=5) < until - datetime.now(UTC).date() < timedelta(days=9)
    simulator.lab(OWN_CPF, "proposals/advance", status="withdrawn")
    [body] = wait_until(lambda: told(client, proposal_id, "proposal.withdrawn"), WAIT_S, "the withdrawal is noticed")
    facts = {name: body[name] for name in ("status", "withdrawal_until", "withdrawn_at", "reason")}
    assert (facts["status"], facts["reason"]["code"]) == ("disbursed", "withdrawn")
    assert facts["withdrawn_at"]
    assert facts.items() <= client.read(f"/proposals/{proposal_id}").items()
