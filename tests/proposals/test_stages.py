"""What a proposal waits for, why it waits, and the holder's withdrawal after the payment."""

import json
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone
from msgspec import to_builtins

from partners.models import Partner
from proposals import envelope, sweep
from proposals.models import Cause, Proposal
from providers.types.proposal import BankProposal, ProposalStatus, Stage, StageReport
from tests.factories import PartnerFactory
from tests.proposals.rows import a_proposal, accepted, an_offer
from webhooks.models import Event

S = ProposalStatus
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
def partner(db: None) -> Partner:
    events = ["proposal", "proposal.stage_changed", "proposal.withdrawn"]
    return PartnerFactory(providers=["canela", "jatoba"], webhook_events=events)


@pytest.fixture
def proposal(partner: Partner) -> Proposal:
    """A proposal at `canela` that awaits the signature."""
    return accepted(an_offer(partner, "canela"))


def told(status: S | None, **more: Any) -> BankProposal:
    return BankProposal("N-1", str(status), status, **more)


def averbation(reason: str | None = None, stage: Stage = Stage.AVERBATION, since: datetime | None = AT) -> BankProposal:
    return told(S.SIGNED, stage=StageReport(stage, since, reason, is_retried=reason is not None))


def absorb(proposal: Proposal, *reports: BankProposal) -> Proposal:
    for reported in reports:
        Proposal.objects.get(pk=proposal.pk).absorb(reported, Cause.REFRESH)
    return Proposal.objects.get(pk=proposal.pk)


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
def test_a_status_that_says_the_stage_needs_no_word_of_the_bank(partner: Partner, status: S, stage: str) -> None:
    row = accepted(an_offer(partner, "jatoba"), status)
    assert (row.stage, row.stage_since is not None, row.stage_reason) == (stage, True, None)
    changed = Event.objects.get(name="proposal.stage_changed")
    assert (json.loads(changed.body)["stage"], json.loads(changed.body)["previous_status"]) == (stage, None)
    assert stage_of(absorb(row, told(S.SIGNED))) == (None, None, None)
    assert Event.objects.filter(name="proposal.stage_changed").count() == 1 + (status is S.IN_ANALYSIS)


def test_a_created_or_unknown_proposal_has_no_stage(partner: Partner) -> None:
    row = a_proposal(an_offer(partner, "jatoba"), Proposal.Submission.UNKNOWN)
    assert stage_of(row) == (None, None, None)


def test_averbation_that_fails_and_is_tried_again_is_told(proposal: Proposal) -> None:
    Event.objects.all().delete()
    assert stage_of(absorb(proposal, averbation())) == ("averbation", "2026-11-21T12:00:00.000Z", None)
    row = absorb(proposal, averbation(FAILED))
    assert row.stage_reason == {
        "code": "averbation_refused",
        "source": "bank",
        "message": FAILED,
        "retryable": True,
    }
    absorb(proposal, averbation(FAILED), averbation(FAILED_AGAIN), averbation(stage=Stage.DISBURSEMENT))
    assert stage_of(absorb(proposal, told(S.DISBURSED))) == (None, None, None)
    assert [each[0:3] for each in sent(proposal)] == [
        ("proposal.signed", "averbation", None),
        ("proposal.stage_changed", "averbation", None),
        ("proposal.stage_changed", "averbation", FAILED),
        ("proposal.stage_changed", "averbation", FAILED_AGAIN),
        ("proposal.stage_changed", "disbursement", None),
        ("proposal.disbursed", None, None),
    ]


def test_a_failure_that_the_bank_does_not_repeat_is_not_retryable(proposal: Proposal) -> None:
    failed = StageReport(Stage.AVERBATION, AT, "chuva em marte")
    row = absorb(proposal, told(S.SIGNED, stage=failed))
    assert row.stage_reason is not None
    assert (row.stage_reason["code"], row.stage_reason["retryable"]) == ("other", False)


@pytest.mark.parametrize("late", [averbation(FAILED), told(S.SIGNED), told(None), told(S.AWAITING_SIGNATURE)])
def test_a_late_report_takes_no_stage_back(proposal: Proposal, late: BankProposal) -> None:
    row = absorb(proposal, averbation(stage=Stage.DISBURSEMENT))
    before = stage_of(row), Event.objects.count()
    assert (stage_of(absorb(proposal, late)), Event.objects.count()) == before


def test_a_stage_without_the_banks_time_lasts_since_it_was_seen(proposal: Proposal) -> None:
    row = absorb(proposal, averbation(since=None))
    assert row.stage_since is not None
    assert absorb(proposal, averbation(FAILED, since=None)).stage_since == row.stage_since


@pytest.mark.parametrize("end", [S.REJECTED, S.CANCELLED, S.DISBURSED])
def test_an_end_has_no_stage_and_its_own_event_only(proposal: Proposal, end: S) -> None:
    absorb(proposal, averbation(FAILED))
    Event.objects.all().delete()
    assert stage_of(absorb(proposal, told(end))) == (None, None, None)
    assert [event.name for event in Event.objects.all()] == [f"proposal.{end.value}"]


def test_a_withdrawal_is_told_and_the_status_stays(proposal: Proposal) -> None:
    """And only what the bank says of it."""
    shown = to_builtins(envelope.shown(absorb(proposal, averbation())))
    assert (shown["withdrawal_until"], shown["withdrawn_at"]) == (None, None)
    paid = told(S.DISBURSED, withdrawal_until=date(2026, 11, 28))
    shown = to_builtins(envelope.shown(absorb(proposal, paid)))
    assert (shown["withdrawal_until"], shown["withdrawn_at"], shown["reason"]) == ("2026-11-28", None, None)
    told_by = json.loads(Event.objects.get(name="proposal.disbursed").body)
    assert (told_by["withdrawal_until"], told_by["withdrawn_at"]) == ("2026-11-28", None)

    row = absorb(proposal, told(S.DISBURSED, withdrawn_at=AT), told(S.DISBURSED, withdrawn_at=AT + timedelta(days=1)))
    shown = to_builtins(envelope.shown(row))
    facts = {"status": "disbursed", "withdrawal_until": "2026-11-28", "withdrawn_at": "2026-11-21T12:00:00.000Z"}
    facts |= {"reason": WITHDRAWN, "next_actions": ["none"], "stage": None}
    assert facts.items() <= shown.items()
    assert facts.items() <= json.loads(Event.objects.get(name="proposal.withdrawn").body).items()
    assert (row.due_at, row.lease_until) == (None, None)
    assert [each.status for each in envelope.detail(row, None).history][-1] == "disbursed"


@pytest.mark.parametrize("events", [["proposal"], ["proposal.stage_changed"], ["proposal.withdrawn"]])
def test_each_event_is_sent_to_a_registration_that_names_it(
    partner: Partner, proposal: Proposal, events: list[str]
) -> None:
    """`proposal` alone names neither of the two."""
    Event.objects.all().delete()
    partner.webhook_events = events
    partner.save()
    absorb(proposal, averbation(), told(S.DISBURSED), told(S.DISBURSED, withdrawn_at=AT))
    names = set(Event.objects.values_list("name", flat=True))
    assert names == ({"proposal.signed", "proposal.disbursed"} if events == ["proposal"] else set(events))


def due(proposal: Proposal, **columns: Any) -> Proposal:
    """The row with these columns, due for a check."""
    Proposal.objects.filter(pk=proposal.pk).update(due_at=timezone.now(), **columns)
    return Proposal.objects.get(pk=proposal.pk)


@pytest.mark.parametrize(
    ("age", "wait"),
    [(timedelta(), timedelta(hours=6)), (timedelta(days=9, hours=23), timedelta(hours=6)), (timedelta(days=10), None)],
)
def test_a_paid_proposal_is_watched_seldom_and_for_some_days(
    proposal: Proposal, settings: Any, age: timedelta, wait: timedelta | None
) -> None:
    settings.WITHDRAWAL_WATCH_EVERY = timedelta(hours=6)
    absorb(proposal, told(S.DISBURSED))
    due(proposal, moved_at=timezone.now() - age)
    [claimed] = sweep.claim_due()
    claimed.absorb(told(S.DISBURSED), Cause.REFRESH)
    row = Proposal.objects.get()
    if wait is None or row.due_at is None:
        assert (wait, row.due_at) == (None, None)
    else:
        assert timedelta() <= timezone.now() + wait - row.due_at < timedelta(minutes=1)


def test_a_bank_that_cannot_tell_a_withdrawal_is_not_asked(partner: Partner) -> None:
    assert accepted(an_offer(partner, "jatoba"), S.DISBURSED).due_at is None


def test_open_proposals_are_checked_before_paid_ones(
    partner: Partner, proposal: Proposal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Watching many paid proposals must not delay the moves of the open ones."""
    monkeypatch.setattr(sweep, "ACCEPTED_AT_ONCE", 1)
    due(absorb(proposal, told(S.DISBURSED)))
    is_open = due(accepted(an_offer(partner, "canela")))
    assert [each.pk for each in sweep.claim_due()] == [is_open.pk]
    assert [each.pk for each in sweep.claim_due()] == [proposal.pk]


def test_a_callback_during_a_check_leads_to_another_one(proposal: Proposal) -> None:
    """The answer may be older than what the bank called back about: a withdrawal would be found six hours later."""
    due(absorb(proposal, told(S.DISBURSED)))
    [claimed] = sweep.claim_due()
    Proposal.objects.get(pk=proposal.pk).hasten_refresh()
    claimed.absorb(told(S.DISBURSED), Cause.REFRESH)
    assert [each.pk for each in sweep.claim_due()] == [proposal.pk]


def test_a_callback_has_a_paid_proposal_checked_after_the_watch_ended(proposal: Proposal) -> None:
    absorb(proposal, told(S.DISBURSED))
    Proposal.objects.update(due_at=None)
    sweep.wake_by_callback("jatoba", "N-1")
    assert sweep.claim_due() == []
    sweep.wake_by_callback("canela", "N-1")
    assert [each.pk for each in sweep.claim_due()] == [proposal.pk]
    absorb(proposal, told(S.DISBURSED, withdrawn_at=AT))
    sweep.wake_by_callback("canela", "N-1")
    sweep.wake_by_callback("canela", "N-1\0")
    assert sweep.claim_due() == []
