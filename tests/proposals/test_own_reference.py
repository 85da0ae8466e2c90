"""`partner_reference` of a submission: the partner's own name for it, which is not sent to the bank and not
compared."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client as DjangoClient
from django.utils import timezone

from partners.models import Partner
from proposals import submission
from proposals.dataset import to_bank
from proposals.models import Cause, Proposal
from providers.types.proposal import BankProposal, ProposalStatus
from tests.proposals.datasets import dataset
from tests.proposals.rows import a_proposal, accepted, an_offer, shown
from webhooks.models import Event

Phase = Proposal.Submission


def body(proposal: Proposal, **more: Any) -> dict[str, Any]:
    return {**dataset(shown(proposal.offer)), **more}


def posted(http: DjangoClient, told: dict[str, Any]) -> Any:
    return http.post("/partners/v1/proposals", told, "application/json")


def test_a_repeat_with_another_name_is_no_other_submission_and_the_newest_counts(
    partner: Partner, http: DjangoClient
) -> None:
    proposal = accepted(an_offer(partner, "ipe"), ProposalStatus.CREATED)
    for sent, kept in (("order:7", "order:7"), ("order-8._x", "order-8._x"), (None, "order-8._x")):
        reply = posted(http, body(proposal, partner_reference=sent))
        assert (reply.status_code, reply.json()["partner_reference"]) == (200, kept)
    reply = posted(http, body(proposal))
    assert (reply.status_code, reply.json()["partner_reference"]) == (200, "order-8._x")
    Proposal.objects.get().absorb(BankProposal("N-1", "paid", ProposalStatus.DISBURSED), Cause.REFRESH)
    reply = posted(http, body(proposal))
    assert (reply.status_code, reply.json()["status"]) == (200, "disbursed")
    names = {event.name: json.loads(event.body)["partner_reference"] for event in Event.objects.all()}
    assert names == {
        "proposal.created": None,
        "proposal.awaiting_signature": "order-8._x",
        "proposal.disbursed": "order-8._x",
    }


def test_a_refused_repeat_changes_no_name(partner: Partner, http: DjangoClient) -> None:
    proposal = a_proposal(an_offer(partner, "ipe"), Phase.ACCEPTED, native_id="N-1", partner_reference="order:7")
    other = dataset(shown(proposal.offer), changes={"titular.nome": "Outra Pessoa"})
    reply = posted(http, {**other, "partner_reference": "order:8"})
    assert (reply.status_code, reply.json()["field"]) == (409, "titular.nome")
    assert Proposal.objects.get().partner_reference == "order:7"


@pytest.mark.parametrize(
    "route", ["consultas", "consultas/stream", "providers/ipe/consultas", "authorizations", "proposals"]
)
def test_a_name_that_is_a_cpf_is_refused_on_each_route(http: DjangoClient, route: str) -> None:
    """Before the fix, it was stored in the clear and indexed, and no erasure found it."""
    reply = http.post(f"/partners/v1/{route}", {"partner_reference": "529.982.247-25"}, "application/json")
    faults = {each["field"]: each["message"] for each in reply.json()["details"]}
    assert reply.status_code == 422
    assert "CPF" in faults["partner_reference"]


@pytest.mark.parametrize("phase", [Phase.NOT_SENT, Phase.UNKNOWN])
def test_the_name_comes_with_the_try_and_is_no_part_of_the_dataset(
    partner: Partner, phase: Proposal.Submission
) -> None:
    offer = an_offer(partner, "ipe")
    told = {**dataset(shown(offer)), "partner_reference": "order:7"}
    first, is_ours = submission._claim_attempt(offer, *submission._split(told), "request-1")
    assert is_ours
    assert first.partner_reference == "order:7"
    sent = timezone.now() - timedelta(hours=1) if phase == Phase.UNKNOWN else None
    Proposal.objects.update(submission=phase, lease_until=None, sent_until=sent)
    submission._claim_attempt(offer, *submission._split({**told, "partner_reference": "order:8"}), "request-2")
    row = Proposal.objects.get()
    assert (row.partner_reference, row.attempts) == ("order:8", 2)
    for kept in (row.dataset, row.next_dataset or {}):
        assert "partner_reference" not in kept
    assert "order:8" not in str(to_bank(row.dataset, row.offer, reference=row.reference))
    Proposal.objects.update(submission=phase, lease_until=None)
    submission._claim_attempt(offer, *submission._split(dataset(shown(offer))), "request-3")
    assert Proposal.objects.get().partner_reference == "order:8"
