"""The statuses of a proposal and the moves between them; what a proposal waits for, and why; and the withdrawal of its
holder after the payment."""

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.test import Client as DjangoClient
from django.utils import timezone
from msgspec import to_builtins

from consultas.models import Offer
from foundation.formats import iso_utc
from partners.models import Partner
from proposals import envelope, sweep
from proposals.models import Cause, Move, Proposal
from providers.errors import OfferExpired, ProviderRejected
from providers.types.proposal import BankProposal, ProposalStatus, Stage, StageReport
from tests.client import error_body
from tests.factories import PartnerFactory
from tests.proposals.datasets import JUST_SUBMITTED
from tests.proposals.rows import a_proposal, accepted, an_offer
from webhooks.models import Event

S = ProposalStatus


def told(status: S | None, word: str = "", **more: Any) -> BankProposal:
    return BankProposal("N-1", word or str(status), status, **more)


@pytest.fixture
def proposal(partner: Partner) -> Proposal:
    """A proposal that is being sent."""
    return a_proposal(an_offer(partner, "ipe"))


def absorb(proposal: Proposal, *reports: BankProposal) -> Proposal:
    for reported in reports:
        Proposal.objects.get(pk=proposal.pk).absorb(reported, Cause.REFRESH)
    return Proposal.objects.get(pk=proposal.pk)


def accept(proposal: Proposal, found: BankProposal) -> Proposal:
    proposal.adopt(found, Cause.SUBMIT)
    return Proposal.objects.get(pk=proposal.pk)


@pytest.mark.parametrize("status", [S.AWAITING_SIGNATURE, None])
def test_an_outdated_answer_changes_nothing(proposal: Proposal, status: S | None) -> None:
    """Before the fix, a status check that began before the cancellation and ended after it kept its old word for
    good."""
    accept(proposal, told(S.CREATED, "criada"))
    absorb(proposal, told(S.CANCELLED, "cancelada"))
    late = told(status, "aguardando", signature_url="https://bank.example/s", data={"old": True})
    row = absorb(proposal, late)
    assert (row.status, row.native_status, row.signature_url, row.data) == ("cancelled", "cancelada", None, {})


def test_a_bank_that_is_steps_ahead_is_followed_step_by_step(proposal: Proposal) -> None:
    row = accept(proposal, told(S.DISBURSED, "paid"))
    assert row.status == "disbursed"
    moves = Move.objects.filter(proposal=row).values_list("from_status", "to_status", "native_word")
    assert list(moves) == [
        ("", "created", "paid"),
        ("created", "awaiting_signature", "paid"),
        ("awaiting_signature", "disbursed", "paid"),
    ]


def test_every_move_is_sent_as_an_event(proposal: Proposal, partner: Partner) -> None:
    proposal.rename("order:7")
    accept(proposal, told(S.CREATED, "new"))
    absorbed = absorb(proposal, told(S.IN_ANALYSIS, "desk"))
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


def test_an_end_is_sent_with_its_reason_and_an_error_about_it_says_why(proposal: Proposal, http: DjangoClient) -> None:
    accept(proposal, told(S.AWAITING_SIGNATURE, "sign"))
    row = absorb(proposal, told(S.REJECTED, "no"))
    assert row.reason == {
        "code": "signature_refused",
        "source": "holder",
        "message": "O titular recusou a assinatura do contrato.",
        "retryable": False,
    }
    assert json.loads(Event.objects.get(name="proposal.rejected").body)["reason"] == row.reason
    moves = [(move.to_status, move.reason) for move in row.moves.all()]
    assert moves == [("created", None), ("awaiting_signature", None), ("rejected", row.reason)]
    assert [each.reason for each in envelope.detail(row).history] == [None, None, row.reason]
    for call in ("formalize", "cancel"):
        reply = http.post(f"/partners/v1/proposals/{row.pk}/{call}", content_type="application/json")
        facts = {"proposal_id": str(row.pk), "status": "rejected", "next_actions": ["none"], "reason": row.reason}
        refusal = error_body("invalid_state", "O estado atual não permite esta operação.")
        assert (reply.status_code, reply.json()) == (409, {**refusal, **facts})


def test_an_event_tells_when_the_link_ends_and_not_the_link(proposal: Proposal) -> None:
    """A receiver may log an event, and everybody who has the link can sign."""
    ends_at = datetime(2126, 3, 2, 12, tzinfo=UTC)
    link = {"signature_url": "https://bank.example/1", "signature_expires_at": ends_at}
    accept(proposal, told(S.AWAITING_SIGNATURE, "sign", **link))
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
    accept(proposal, told(S.CREATED, "new", contract_number="CCB-7"))
    row = absorb(proposal, told(S.DISBURSED, "paid", **paid))
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
    assert facts.items() <= to_builtins(envelope.shown(absorb(proposal, told(S.DISBURSED, "paid")))).items()


@pytest.mark.parametrize("found", [told(None, "orbit"), told(S.CREATED, "new"), told(S.IN_ANALYSIS, "desk")])
def test_an_unknown_word_or_one_that_lies_behind_moves_nothing(proposal: Proposal, found: BankProposal) -> None:
    accept(proposal, told(S.AWAITING_SIGNATURE, "sign"))
    before = Move.objects.count(), Event.objects.count()
    row = absorb(proposal, found)
    assert (row.status, row.native_status) == ("awaiting_signature", found.native_status)
    assert (Move.objects.count(), Event.objects.count()) == before


def test_a_first_word_that_is_unknown_is_kept_beside_created(proposal: Proposal) -> None:
    row = accept(proposal, told(None, "em_orbita"))
    assert (row.status, row.native_status, row.error) == ("created", "em_orbita", None)


@pytest.mark.parametrize("end", [S.DISBURSED, S.REJECTED, S.CANCELLED, S.EXPIRED])
def test_the_offer_knows_its_live_proposal_and_is_free_again_after_a_dead_end(proposal: Proposal, end: S) -> None:
    assert Offer.objects.get().live_proposal_id is None
    accept(proposal, told(S.AWAITING_SIGNATURE, "sign"))
    assert Offer.objects.get().live_proposal_id == proposal.pk
    absorb(proposal, told(end, "end"))
    is_live = end is S.DISBURSED
    assert Offer.objects.get().live_proposal_id == (proposal.pk if is_live else None)
    assert is_live or a_proposal(proposal.offer)


def test_a_second_contract_is_seen_and_changes_nothing(proposal: Proposal) -> None:
    accept(proposal, told(S.CREATED, "new"))
    again = BankProposal(native_id="N-2", native_status="new", status=S.CREATED)
    assert accept(proposal, again).native_id == "N-1"


def test_a_link_is_kept_while_the_bank_repeats_none(proposal: Proposal) -> None:
    accept(proposal, told(S.AWAITING_SIGNATURE, "sign", signature_url="https://bank.example/1"))
    row = absorb(proposal, told(S.AWAITING_SIGNATURE, "sign"))
    assert row.usable_link() == "https://bank.example/1"
    assert absorb(proposal, told(S.SIGNED, "signed")).usable_link() is None


def test_a_banks_new_facts_are_saved_beside_earlier_ones(proposal: Proposal) -> None:
    accept(proposal, told(S.CREATED, "new", data={"number": 7}))
    absorb(proposal, told(S.CREATED, "new", data={"seen": "yes"}))
    assert Proposal.objects.get(pk=proposal.pk).data == {"number": 7, "seen": "yes"}


def test_a_look_that_tells_nothing_new_leaves_the_time_of_the_last_change(proposal: Proposal) -> None:
    before = accept(proposal, told(S.CREATED, "new"))
    after = absorb(proposal, told(S.CREATED, "new"))
    assert after.updated_at == before.updated_at
    assert after.due_at != before.due_at
    assert absorb(proposal, told(S.CREATED, "newer")).updated_at > before.updated_at


def test_a_later_look_without_an_expiry_keeps_the_earlier_one(proposal: Proposal) -> None:
    """Before the fix, such a check made an expired link usable again."""
    ends_at = timezone.now() + timedelta(hours=1)
    link: dict[str, Any] = {"signature_url": "https://bank.example/1"}
    first = told(S.AWAITING_SIGNATURE, "w", signature_expires_at=ends_at, **link)
    assert accept(proposal, first).signature_expires_at == ends_at
    assert absorb(proposal, told(S.AWAITING_SIGNATURE, "w", **link)).signature_expires_at == ends_at
    fresh = told(S.AWAITING_SIGNATURE, "w", signature_url="https://bank.example/2")
    assert absorb(proposal, fresh).signature_expires_at is None


# --- Stages and withdrawals ---------------------------------------------------------------------------------------


AT = datetime(2026, 11, 21, 12, tzinfo=UTC)
FAILED = "averbacao nao processada pela dataprev"
FAILED_AGAIN = "margem em atualizacao na dataprev"
WITHDRAWN = {
    "code": "withdrawn",
    "source": "holder",
    "message": "O titular desistiu do contrato no prazo do banco.",
    "retryable": False,
}


@pytest.fixture
def listener(db: None) -> Partner:
    """A partner that asks for stages and withdrawals, too."""
    events = ["proposal", "proposal.stage_changed", "proposal.withdrawn"]
    return PartnerFactory(providers=["canela", "jatoba"], webhook_events=events)


@pytest.fixture
def signing(listener: Partner) -> Proposal:
    """A proposal at `canela` that awaits the signature."""
    return accepted(an_offer(listener, "canela"))


def averbation(reason: str | None = None, stage: Stage = Stage.AVERBATION, since: datetime | None = AT) -> BankProposal:
    return told(S.SIGNED, stage=StageReport(stage, since, reason, is_retried=reason is not None))


def stage_of(proposal: Proposal) -> tuple[Any, Any, Any]:
    shown = envelope.shown(proposal)
    return shown.stage, shown.stage_since, shown.stage_reason


def sent(proposal: Proposal) -> list[tuple[str, str | None, str | None]]:
    """The events about it in their order, each with the stage and the reason's message that its body tells."""
    bodies = [json.loads(event.body) for event in Event.objects.order_by("created_at", "pk")]
    bodies = sorted(bodies, key=lambda body: body["timestamp"])
    assert {body["external_reference"] for body in bodies} <= {str(proposal.pk)}
    return [(b["event"], b["stage"], b["stage_reason"] and b["stage_reason"]["message"]) for b in bodies]


@pytest.mark.parametrize(("status", "stage"), [(S.IN_ANALYSIS, "analysis"), (S.AWAITING_SIGNATURE, "signature")])
def test_a_status_that_says_the_stage_needs_no_word_of_the_bank(listener: Partner, status: S, stage: str) -> None:
    row = accepted(an_offer(listener, "jatoba"), status)
    assert (row.stage, row.stage_since is not None, row.stage_reason) == (stage, True, None)
    changed = Event.objects.get(name="proposal.stage_changed")
    assert (json.loads(changed.body)["stage"], json.loads(changed.body)["previous_status"]) == (stage, None)
    assert stage_of(absorb(row, told(S.SIGNED))) == (None, None, None)
    assert Event.objects.filter(name="proposal.stage_changed").count() == 1 + (status is S.IN_ANALYSIS)


def test_a_created_or_unknown_proposal_has_no_stage(listener: Partner) -> None:
    row = a_proposal(an_offer(listener, "jatoba"), Proposal.Submission.UNKNOWN)
    assert stage_of(row) == (None, None, None)


def test_averbation_that_fails_and_is_tried_again_is_told(signing: Proposal) -> None:
    Event.objects.all().delete()
    assert stage_of(absorb(signing, averbation())) == ("averbation", "2026-11-21T12:00:00.000Z", None)
    row = absorb(signing, averbation(FAILED))
    assert row.stage_reason == {
        "code": "averbation_refused",
        "source": "bank",
        "message": FAILED,
        "retryable": True,
    }
    absorb(signing, averbation(FAILED), averbation(FAILED_AGAIN), averbation(stage=Stage.DISBURSEMENT))
    assert stage_of(absorb(signing, told(S.DISBURSED))) == (None, None, None)
    assert [each[0:3] for each in sent(signing)] == [
        ("proposal.signed", "averbation", None),
        ("proposal.stage_changed", "averbation", None),
        ("proposal.stage_changed", "averbation", FAILED),
        ("proposal.stage_changed", "averbation", FAILED_AGAIN),
        ("proposal.stage_changed", "disbursement", None),
        ("proposal.disbursed", None, None),
    ]


def test_a_failure_that_the_bank_does_not_repeat_is_not_retryable(signing: Proposal) -> None:
    failed = StageReport(Stage.AVERBATION, AT, "chuva em marte")
    row = absorb(signing, told(S.SIGNED, stage=failed))
    assert (row.stage_reason["code"], row.stage_reason["retryable"]) == ("other", False)


@pytest.mark.parametrize("late", [averbation(FAILED), told(S.SIGNED), told(None), told(S.AWAITING_SIGNATURE)])
def test_a_late_report_takes_no_stage_back(signing: Proposal, late: BankProposal) -> None:
    row = absorb(signing, averbation(stage=Stage.DISBURSEMENT))
    before = stage_of(row), Event.objects.count()
    assert (stage_of(absorb(signing, late)), Event.objects.count()) == before


def test_a_stage_without_the_banks_time_lasts_since_it_was_seen(signing: Proposal) -> None:
    row = absorb(signing, averbation(since=None))
    assert row.stage_since is not None
    assert absorb(signing, averbation(FAILED, since=None)).stage_since == row.stage_since


@pytest.mark.parametrize("end", [S.REJECTED, S.CANCELLED, S.DISBURSED])
def test_an_end_has_no_stage_and_its_own_event_only(signing: Proposal, end: S) -> None:
    absorb(signing, averbation(FAILED))
    Event.objects.all().delete()
    assert stage_of(absorb(signing, told(end))) == (None, None, None)
    assert [event.name for event in Event.objects.all()] == [f"proposal.{end.value}"]


def test_a_withdrawal_is_told_and_the_status_stays(signing: Proposal) -> None:
    """And only what the bank says of it."""
    shown = to_builtins(envelope.shown(absorb(signing, averbation())))
    assert (shown["withdrawal_until"], shown["withdrawn_at"]) == (None, None)
    paid = told(S.DISBURSED, withdrawal_until=date(2026, 11, 28))
    shown = to_builtins(envelope.shown(absorb(signing, paid)))
    assert (shown["withdrawal_until"], shown["withdrawn_at"], shown["reason"]) == ("2026-11-28", None, None)
    told_by = json.loads(Event.objects.get(name="proposal.disbursed").body)
    assert (told_by["withdrawal_until"], told_by["withdrawn_at"]) == ("2026-11-28", None)

    row = absorb(signing, told(S.DISBURSED, withdrawn_at=AT), told(S.DISBURSED, withdrawn_at=AT + timedelta(days=1)))
    shown = to_builtins(envelope.shown(row))
    facts = {"status": "disbursed", "withdrawal_until": "2026-11-28", "withdrawn_at": "2026-11-21T12:00:00.000Z"}
    facts |= {"reason": WITHDRAWN, "next_actions": ["none"], "stage": None}
    assert facts.items() <= shown.items()
    assert facts.items() <= json.loads(Event.objects.get(name="proposal.withdrawn").body).items()
    assert (row.due_at, row.lease_until) == (None, None)
    assert [each.status for each in envelope.detail(row).history][-1] == "disbursed"


@pytest.mark.parametrize("events", [["proposal"], ["proposal.stage_changed"], ["proposal.withdrawn"]])
def test_each_event_is_sent_to_a_registration_that_names_it(
    listener: Partner, signing: Proposal, events: list[str]
) -> None:
    """`signing` alone names neither of the two."""
    Event.objects.all().delete()
    listener.webhook_events = events
    listener.save()
    absorb(signing, averbation(), told(S.DISBURSED), told(S.DISBURSED, withdrawn_at=AT))
    names = set(Event.objects.values_list("name", flat=True))
    assert names == ({"proposal.signed", "proposal.disbursed"} if events == ["proposal"] else set(events))


def due(signing: Proposal, **columns: Any) -> Proposal:
    """The row with these columns, due for a check."""
    Proposal.objects.filter(pk=signing.pk).update(due_at=timezone.now(), **columns)
    return Proposal.objects.get(pk=signing.pk)


@pytest.mark.parametrize(
    ("age", "wait"),
    [(timedelta(), timedelta(hours=6)), (timedelta(days=9, hours=23), timedelta(hours=6)), (timedelta(days=10), None)],
)
def test_a_paid_proposal_is_watched_seldom_and_for_some_days(
    signing: Proposal, settings: Any, age: timedelta, wait: timedelta | None
) -> None:
    settings.WITHDRAWAL_WATCH_EVERY = timedelta(hours=6)
    absorb(signing, told(S.DISBURSED))
    due(signing, moved_at=timezone.now() - age)
    [claimed] = sweep.claim_due()
    claimed.absorb(told(S.DISBURSED), Cause.REFRESH)
    row = Proposal.objects.get()
    if wait is None or row.due_at is None:
        assert (wait, row.due_at) == (None, None)
    else:
        assert timedelta() <= timezone.now() + wait - row.due_at < timedelta(minutes=1)


def test_a_bank_that_cannot_tell_a_withdrawal_is_not_asked(listener: Partner) -> None:
    assert accepted(an_offer(listener, "jatoba"), S.DISBURSED).due_at is None


def test_open_proposals_are_checked_before_paid_ones(
    listener: Partner, signing: Proposal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Watching many paid proposals must not delay the moves of the open ones."""
    monkeypatch.setattr(sweep, "ACCEPTED_AT_ONCE", 1)
    due(absorb(signing, told(S.DISBURSED)))
    is_open = due(accepted(an_offer(listener, "canela")))
    assert [each.pk for each in sweep.claim_due()] == [is_open.pk]
    assert [each.pk for each in sweep.claim_due()] == [signing.pk]


def test_a_callback_during_a_check_leads_to_another_one(signing: Proposal) -> None:
    """The answer may be older than what the bank called back about: a withdrawal would be found six hours later."""
    due(absorb(signing, told(S.DISBURSED)))
    [claimed] = sweep.claim_due()
    Proposal.objects.get(pk=signing.pk).hasten_refresh()
    claimed.absorb(told(S.DISBURSED), Cause.REFRESH)
    assert [each.pk for each in sweep.claim_due()] == [signing.pk]


def test_a_callback_has_a_paid_proposal_checked_after_the_watch_ended(signing: Proposal) -> None:
    absorb(signing, told(S.DISBURSED))
    Proposal.objects.update(due_at=None)
    sweep.wake_by_callback("jatoba", "N-1")
    assert sweep.claim_due() == []
    sweep.wake_by_callback("canela", "N-1")
    assert [each.pk for each in sweep.claim_due()] == [signing.pk]
    absorb(signing, told(S.DISBURSED, withdrawn_at=AT))
    sweep.wake_by_callback("canela", "N-1")
    sweep.wake_by_callback("canela", "N-1\0")
    assert sweep.claim_due() == []
