"""The statuses of a proposal and the moves between them."""

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.test import Client as DjangoClient
from django.utils import timezone
from msgspec import to_builtins

from consultas.models import Offer
from foundation.formats import iso_utc
from partners.models import Partner
from proposals import envelope
from proposals.models import Cause, Move, Proposal
from providers.errors import OfferExpired, ProviderRejected
from providers.types.proposal import BankProposal, ProposalStatus
from tests.client import error_body
from tests.proposals.datasets import JUST_SUBMITTED
from tests.proposals.rows import a_proposal, an_offer
from webhooks.models import Event

S = ProposalStatus


def told(word: str, status: ProposalStatus | None, **more: Any) -> BankProposal:
    return BankProposal(native_id="N-1", native_status=word, status=status, **more)


@pytest.fixture
def proposal(partner: Partner) -> Proposal:
    """A proposal that is being sent."""
    return a_proposal(an_offer(partner, "ipe"))


def absorb(proposal: Proposal, found: BankProposal) -> Proposal:
    proposal.absorb(found, Cause.REFRESH)
    return Proposal.objects.get(pk=proposal.pk)


def accept(proposal: Proposal, found: BankProposal) -> Proposal:
    proposal.adopt(found, Cause.SUBMIT)
    return Proposal.objects.get(pk=proposal.pk)


@pytest.mark.parametrize("status", [S.AWAITING_SIGNATURE, None])
def test_an_outdated_answer_changes_nothing(proposal: Proposal, status: S | None) -> None:
    """Before the fix, a status check that began before the cancellation and ended after it kept its old word for
    good."""
    accept(proposal, told("criada", S.CREATED))
    absorb(proposal, told("cancelada", S.CANCELLED))
    late = told("aguardando", status, signature_url="https://bank.example/s", data={"old": True})
    row = absorb(proposal, late)
    assert (row.status, row.native_status, row.signature_url, row.data) == ("cancelled", "cancelada", None, {})


def test_a_bank_that_is_steps_ahead_is_followed_step_by_step(proposal: Proposal) -> None:
    row = accept(proposal, told("paid", S.DISBURSED))
    assert row.status == "disbursed"
    moves = Move.objects.filter(proposal=row).values_list("from_status", "to_status", "native_word")
    assert list(moves) == [
        ("", "created", "paid"),
        ("created", "awaiting_signature", "paid"),
        ("awaiting_signature", "disbursed", "paid"),
    ]


def test_every_move_is_sent_as_an_event(proposal: Proposal, partner: Partner) -> None:
    proposal.rename("order:7")
    accept(proposal, told("new", S.CREATED))
    absorbed = absorb(proposal, told("desk", S.IN_ANALYSIS))
    events = [json.loads(event.body) for event in Event.objects.order_by("created_at")]
    common = {
        **JUST_SUBMITTED,
        "partner_id": str(partner.pk),
        "external_reference": str(proposal.pk),
        "provider": "ipe",
        "offer_id": str(proposal.offer_id),
        "partner_reference": "order:7",
    }
    for event in events:
        assert event.pop("timestamp").endswith("Z")
    assert events == [
        {**common, "event": "proposal.created", "status": "created", "previous_status": None},
        {
            **common,
            "event": "proposal.in_analysis",
            "status": "in_analysis",
            "previous_status": "created",
            "next_actions": ["wait", "cancel"],
            "stage": "analysis",
            "stage_since": iso_utc(absorbed.stage_since or proposal.created_at),
        },
    ]


@pytest.mark.parametrize(("error", "end"), [(ProviderRejected("Não."), "rejected"), (OfferExpired(), "expired")])
def test_a_first_outcome_that_is_a_refusal_is_told_as_created_first(
    proposal: Proposal, error: ProviderRejected | OfferExpired, end: str
) -> None:
    """Before the fix, `proposal.rejected` was the first event of a proposal, without a `proposal.created`."""
    proposal.refuse(error)
    bodies = [json.loads(event.body) for event in Event.objects.order_by("created_at")]
    told_of = [(body["external_reference"], body["event"], body["previous_status"]) for body in bodies]
    assert told_of == [
        (str(proposal.pk), "proposal.created", None),
        (str(proposal.pk), f"proposal.{end}", "created"),
    ]


def test_an_end_is_sent_with_its_reason(proposal: Proposal) -> None:
    accept(proposal, told("sign", S.AWAITING_SIGNATURE))
    row = absorb(proposal, told("no", S.REJECTED))
    assert row.reason == {
        "code": "signature_refused",
        "source": "holder",
        "message": "O titular recusou a assinatura do contrato.",
        "retryable": False,
    }
    assert json.loads(Event.objects.get(name="proposal.rejected").body)["reason"] == row.reason
    moves = [(move.to_status, move.reason) for move in row.moves.all()]
    assert moves == [("created", None), ("awaiting_signature", None), ("rejected", row.reason)]
    assert [each.reason for each in envelope.detail(row, None).history] == [None, None, row.reason]


def test_an_error_about_an_ended_proposal_says_why_it_ended(proposal: Proposal, http: DjangoClient) -> None:
    accept(proposal, told("sign", S.AWAITING_SIGNATURE))
    row = absorb(proposal, told("no", S.REJECTED))
    for call in ("formalize", "cancel"):
        reply = http.post(f"/partners/v1/proposals/{row.pk}/{call}", content_type="application/json")
        facts = {"proposal_id": str(row.pk), "status": "rejected", "next_actions": ["none"], "reason": row.reason}
        refusal = error_body("invalid_state", "O estado atual não permite esta operação.")
        assert (reply.status_code, reply.json()) == (409, {**refusal, **facts})


def test_an_event_tells_when_the_link_ends_and_not_the_link(proposal: Proposal) -> None:
    """A receiver may log an event, and everybody who has the link can sign."""
    ends_at = datetime(2126, 3, 2, 12, tzinfo=UTC)
    link = {"signature_url": "https://bank.example/1", "signature_expires_at": ends_at}
    accept(proposal, told("sign", S.AWAITING_SIGNATURE, **link))
    body = Event.objects.get(name="proposal.awaiting_signature").body
    assert "bank.example" not in body
    assert json.loads(body)["action"] == {
        "type": "signature",
        "expires_at": "2126-03-02T12:00:00.000Z",
        "delivery": {"channel": "link", "destination": None},
    }


def test_what_the_bank_paid_is_told_once_it_paid(proposal: Proposal) -> None:
    paid = {
        "disbursed_at": datetime(2026, 3, 2, 12, tzinfo=UTC),
        "disbursed_amount": Decimal("4987.65"),
        "contract_number": "CCB-7",
    }
    accept(proposal, told("new", S.CREATED, contract_number="CCB-7"))
    row = absorb(proposal, told("paid", S.DISBURSED, **paid))
    facts = {
        "contract_number": "CCB-7",
        "disbursed_at": "2026-03-02T12:00:00.000Z",
        "disbursed_amount": 4987.65,
    }
    assert facts.items() <= to_builtins(envelope.shown(row)).items()
    told_by = {event.name: json.loads(event.body) for event in Event.objects.all()}
    assert facts.items() <= told_by["proposal.disbursed"].items()
    unpaid = {"contract_number": "CCB-7", "disbursed_at": None, "disbursed_amount": None}
    assert unpaid.items() <= told_by["proposal.created"].items()
    assert unpaid.items() <= told_by["proposal.awaiting_signature"].items()
    # A later check that does not repeat them changes nothing.
    assert facts.items() <= to_builtins(envelope.shown(absorb(proposal, told("paid", S.DISBURSED)))).items()


@pytest.mark.parametrize("found", [told("orbit", None), told("new", S.CREATED), told("desk", S.IN_ANALYSIS)])
def test_an_unknown_word_or_one_that_lies_behind_moves_nothing(proposal: Proposal, found: BankProposal) -> None:
    accept(proposal, told("sign", S.AWAITING_SIGNATURE))
    before = Move.objects.count(), Event.objects.count()
    row = absorb(proposal, found)
    assert (row.status, row.native_status) == ("awaiting_signature", found.native_status)
    assert (Move.objects.count(), Event.objects.count()) == before


def test_a_first_word_that_is_unknown_is_kept_beside_created(proposal: Proposal) -> None:
    row = accept(proposal, told("em_orbita", None))
    assert (row.status, row.native_status, row.error) == ("created", "em_orbita", None)


@pytest.mark.parametrize("end", [S.DISBURSED, S.REJECTED, S.CANCELLED, S.EXPIRED])
def test_the_offer_knows_its_live_proposal_and_is_free_again_after_a_dead_end(proposal: Proposal, end: S) -> None:
    assert Offer.objects.get().live_proposal_id is None
    accept(proposal, told("sign", S.AWAITING_SIGNATURE))
    assert Offer.objects.get().live_proposal_id == proposal.pk
    absorb(proposal, told("end", end))
    is_live = end is S.DISBURSED
    assert Offer.objects.get().live_proposal_id == (proposal.pk if is_live else None)
    assert is_live or a_proposal(proposal.offer)


def test_a_second_contract_is_seen_and_changes_nothing(proposal: Proposal) -> None:
    accept(proposal, told("new", S.CREATED))
    again = BankProposal(native_id="N-2", native_status="new", status=S.CREATED)
    assert accept(proposal, again).native_id == "N-1"


def test_a_link_is_kept_while_the_bank_repeats_none(proposal: Proposal) -> None:
    accept(proposal, told("sign", S.AWAITING_SIGNATURE, signature_url="https://bank.example/1"))
    row = absorb(proposal, told("sign", S.AWAITING_SIGNATURE))
    assert row.usable_link() == "https://bank.example/1"
    assert absorb(proposal, told("signed", S.SIGNED)).usable_link() is None


def test_a_banks_new_facts_are_saved_beside_earlier_ones(proposal: Proposal) -> None:
    accept(proposal, told("new", S.CREATED, data={"number": 7}))
    absorb(proposal, told("new", S.CREATED, data={"seen": "yes"}))
    assert Proposal.objects.get(pk=proposal.pk).data == {"number": 7, "seen": "yes"}


def test_a_look_that_tells_nothing_new_leaves_the_time_of_the_last_change(proposal: Proposal) -> None:
    before = accept(proposal, told("new", S.CREATED))
    after = absorb(proposal, told("new", S.CREATED))
    assert after.updated_at == before.updated_at
    assert after.due_at != before.due_at
    assert absorb(proposal, told("newer", S.CREATED)).updated_at > before.updated_at


def test_a_later_look_without_an_expiry_keeps_the_earlier_one(proposal: Proposal) -> None:
    """Before the fix, such a check made an expired link usable again."""
    ends_at = timezone.now() + timedelta(hours=1)
    link: dict[str, Any] = {"signature_url": "https://bank.example/1"}
    first = told("w", S.AWAITING_SIGNATURE, signature_expires_at=ends_at, **link)
    assert accept(proposal, first).signature_expires_at == ends_at
    assert absorb(proposal, told("w", S.AWAITING_SIGNATURE, **link)).signature_expires_at == ends_at
    fresh = told("w", S.AWAITING_SIGNATURE, signature_url="https://bank.example/2")
    assert absorb(proposal, fresh).signature_expires_at is None
