"""A second submission of one offer: the same dataset is the same proposal, a changed one is refused."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from proposals.models import BankCall, Proposal
from tests.client import Client
from tests.processes import Simulator
from tests.proposals.datasets import dataset

Phase = Proposal.Submission
ACCOUNT_NUMBER = "recebimento.conta_bancaria.conta"


def changed(offer: dict[str, Any]) -> dict[str, Any]:
    """The submission of `offer` with another account for the money."""
    return dataset(offer, changes={ACCOUNT_NUMBER: "999990"})


def refusal(proposal: Proposal, *, accepted: bool = True) -> dict[str, Any]:
    """The refusal of another account. `accepted`: the bank already had the proposal."""
    known = {"status": proposal.status, "next_actions": ["formalize", "cancel"]}
    if proposal.provider != "ipe":  # the only bank that cancels
        known["next_actions"] = ["formalize"]
    return {
        "code": "invalid_state",
        "message": (
            f"A proposta {proposal.pk} desta oferta já foi enviada, ou está em envio, com outro valor neste campo. "
            "Nada foi alterado."
        ),
        "retryable": False,
        "field": ACCOUNT_NUMBER,
        "proposal_id": str(proposal.pk),
        **(known if accepted else {}),
    }


def accounts(simulator: Simulator, bank: str) -> list[str]:
    """The account numbers of the submissions that the bank worked on."""
    bodies = [json.loads(call["body"]) for call in simulator.worked(bank, "submit")]
    return [body["disbursement"]["bank_account"]["account_number"] for body in bodies]


def test_another_account_for_an_accepted_proposal_is_refused(client: Client, simulator: Simulator) -> None:
    """Before the fix, the answer was 200 with the first proposal, and the money went to the first account."""
    offer = client.offer("ipe")
    first = client.post("/proposals", dataset(offer)).json()
    before = Proposal.objects.get()
    response = client.post("/proposals", changed(offer))
    assert (response.status_code, response.json()) == (409, refusal(before))
    after = Proposal.objects.get()
    assert (after.dataset, after.next_dataset, after.updated_at) == (before.dataset, None, before.updated_at)
    assert accounts(simulator, "ipe") == ["567890"]
    assert client.post("/proposals", dataset(offer)).json() == first


def test_after_an_unknown_outcome_only_the_same_data_may_be_sent_again(client: Client, simulator: Simulator) -> None:
    """The bank may have the first body: no second one may be sent, and the service may not choose silently."""
    for bank, fault in (("ipe", "drop_after_accept"), ("ipe", "reset"), ("aroeira", "http_500")):
        Proposal.objects.all().delete()
        offer = client.offer(bank)
        simulator.bank(bank, fault=fault, operation="submit", times=1)
        lost = client.post("/proposals", dataset(offer))
        row = Proposal.objects.get()
        assert (lost.status_code, lost.json()["proposal_id"]) == (502, str(row.pk))
        calls = BankCall.objects.count()
        response = client.post("/proposals", changed(offer))
        assert (response.status_code, response.json()) == (409, refusal(row, accepted=False)), (bank, fault)
        assert BankCall.objects.count() == calls
        row = Proposal.objects.get()
        assert (row.submission, row.next_dataset, row.attempts) == (Phase.UNKNOWN, None, 1)


def test_a_replacement_is_not_answered_with_the_submission_that_arrived_after_all(
    client: Client, simulator: Simulator
) -> None:
    """The look-up before the second attempt finds the first body at the bank: the partner who sent other data must
    learn that the contract does not have them."""
    offer = client.offer("ipe")
    simulator.bank("ipe", fault="drop_after_accept", operation="submit", times=1)
    assert client.post("/proposals", dataset(offer)).status_code == 502
    Proposal.objects.update(submission=Phase.NOT_SENT, due_at=None)
    response = client.post("/proposals", changed(offer))
    row = Proposal.objects.get()
    assert (response.status_code, response.json()) == (409, refusal(row))
    assert (row.submission, row.dataset["recebimento"]["conta_bancaria"]["conta"]) == (Phase.ACCEPTED, "567890")
    assert row.moves.last().cause == "reconcile"
    assert client.post("/proposals", dataset(offer)).status_code == 200
    assert len(simulator.contracts("ipe")) == 1


@pytest.mark.parametrize("bank", ["aroeira", "ipe"])  # one that does not deduplicate, and one that does
def test_of_fifty_equal_and_unequal_ones_at_once_one_is_the_contract(
    client: Client, simulator: Simulator, bank: str
) -> None:
    offer = client.offer(bank)
    bodies = [dataset(offer, changes={ACCOUNT_NUMBER: str(700000 + number % 3)}) for number in range(50)]
    simulator.bank(bank, latency_ms=300, operation="submit")
    with ThreadPoolExecutor(50) as pool:
        replies = list(pool.map(lambda body: client.post("/proposals", body), bodies))
    row = Proposal.objects.get()
    won = row.dataset["recebimento"]["conta_bancaria"]["conta"]
    assert len(simulator.contracts(bank)) == 1
    assert sum(reply.status_code == 201 for reply in replies) == 1
    for body, reply in zip(bodies, replies, strict=True):
        if body["recebimento"]["conta_bancaria"]["conta"] == won:
            assert reply.status_code in (200, 201)
            assert reply.json()["proposal_id"] == str(row.pk)
        else:
            assert reply.status_code == 409
            assert reply.json() in (refusal(row, accepted=False), refusal(row))
