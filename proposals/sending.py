"""A worker sends a proposal to its bank, exactly once, whatever fails.

Whatever becomes of the worker's process, the row says what it began. Once anything may have been sent, the next step is
always to ask the bank by our reference. Sending again takes the bank's clear "not found", given after the longest time
that the bank needs to show a submission. docs/decisions/0030-exactly-once-submission.md has the states and the reasons.
"""

from __future__ import annotations

from datetime import timedelta
from functools import partial

import structlog
from django.conf import settings
from django.db import connection, transaction
from django.db.models import QuerySet
from django.utils import timezone

from authorizations import evidence
from authorizations.models import Evidence
from foundation.database import outlasts_restart
from foundation.errors import ApiError, InvalidInput, NotFound
from proposals import dataset
from proposals.calls import adapter, call_bank
from proposals.killpoints import die_at
from proposals.models import BankCall, Cause, Proposal
from providers.errors import BankFailure, OfferExpired, ProviderRejected
from providers.models import Provider
from providers.operation import BankClient
from providers.types import BankProposal

Phase = Proposal.Submission
Operation = BankCall.Operation
#: Seconds before each look for a submission whose outcome is unknown; the last wait repeats.
RECONCILE_AFTER_S = (5, 30, 120, 600, 3600)
#: A worker may look, then send: a try lasts so many time-outs of the bank, and some seconds to write the outcome down.
TIMEOUTS_PER_TRY = 3
MARGIN = timedelta(seconds=5)


def run(proposal_id: str) -> None:
    """Take the current try of the proposal and bring it to an outcome. A task that comes twice, or too late,
    finds nothing to take."""
    proposal = take_try(proposal_id)
    if proposal is None:
        return
    structlog.contextvars.bind_contextvars(request_id=proposal.request_id)
    try:
        if proposal.sent_until is None or _look_before_sending_again(proposal):
            send(proposal)
    finally:
        connection.close()


@outlasts_restart
def take_try(proposal_id: str) -> Proposal | None:
    """The proposal, its current try taken for this worker; None where there is no try to take.

    With the same commit the row says that something may have been sent: from here on only the bank knows. The
    object's own `sent_until` stays that of the earlier tries, None where nothing was ever sent.
    """
    with transaction.atomic():
        rows = Proposal.objects.select_for_update(of=("self",)).select_related("offer__query")
        proposal = rows.get(pk=proposal_id)
        now = timezone.now()
        if proposal.taken_at is not None or not proposal.is_held(now):
            return None
        until = now + timedelta(seconds=TIMEOUTS_PER_TRY * _timeout_s(proposal)) + MARGIN
        earlier = proposal.sent_until
        proposal.taken_at = now
        proposal.lease_until = proposal.next_reconcile_at = until
        proposal.sent_until = earlier or until
        proposal.save(update_fields=["taken_at", "lease_until", "next_reconcile_at", "sent_until", "updated_at"])
    proposal.sent_until = earlier
    return proposal


def _timeout_s(proposal: Proposal) -> float:
    row = Provider.objects.only("timeout_s").filter(name=proposal.provider).first()
    return float((row and row.timeout_s) or settings.BANK_TIMEOUT_S)


def _look_before_sending_again(proposal: Proposal) -> bool:
    """Whether the bank has nothing of the earlier tries, so that one more may be sent. What it has is adopted;
    where it can't tell yet, the outcome stays unknown."""
    is_final = is_not_found_final(proposal)
    try:
        found = find(proposal)
    except ApiError:
        found = None
    else:
        if found is None and (is_final or adapter(proposal.provider).deduplicates):
            if is_final:
                proposal.sent_until = None
            sending = Proposal.columns_to_send(proposal.next_dataset or proposal.dataset)
            proposal.dataset = sending["dataset"]
            # Fenced: where somebody else took over meanwhile, this worker sends nothing.
            return bool(current_try(proposal).update(sent_until=proposal.lease_until, **sending))
    if found is not None:
        adopt(proposal, found, Cause.RECONCILE)
    else:
        wait = timedelta(seconds=pause_before_look(proposal.reconciles))
        current_try(proposal).update(submission=Phase.UNKNOWN, next_reconcile_at=timezone.now() + wait)
    return False


def send(proposal: Proposal) -> None:
    die_at("after_commit")
    # What is sent has arrived, or never will, when the lease ends: others count on it.
    left = (proposal.lease_until - timezone.now()).total_seconds() if proposal.lease_until else 0.0
    seconds = max(0.0, min((TIMEOUTS_PER_TRY - 1) * _timeout_s(proposal), left))
    body = dataset.to_bank(proposal.dataset, proposal.offer, reference=proposal.reference)

    def submit(bank: BankClient) -> BankProposal:
        return bank.submit(body, about_to_send=partial(_record_evidence_use, proposal))

    try:
        accepted = call_bank(proposal, Operation.SUBMIT, submit, seconds=seconds)
    except BankFailure as failure:
        if failure.sent:
            _record_unknown_outcome(proposal)
        else:
            _record_not_sent(proposal, failure)
    except InvalidInput as error:
        _record_not_sent(proposal, error)
    except (OfferExpired, NotFound):
        # An offer that the bank knows no longer: asked again, it makes a new one.
        _record_refusal(proposal, OfferExpired())
    except ApiError as error:
        _record_refusal(proposal, ProviderRejected(error.message))
    else:
        die_at("after_send")
        adopt(proposal, accepted, Cause.SUBMIT)


def _record_evidence_use(proposal: Proposal) -> None:
    """The bank is about to rely on the session that the offer's query was authorized by, where it was."""
    if authorization_id := proposal.offer.query.authorization_id:
        seen = Evidence.objects.get(session__authorization_id=authorization_id)
        evidence.record_use(seen.number, [proposal.provider], call="submit", reference=str(proposal.pk))
    connection.close()


def find(proposal: Proposal) -> BankProposal | None:
    return call_bank(proposal, Operation.FIND, lambda bank: bank.find(proposal.reference))


def is_not_found_final(proposal: Proposal) -> bool:
    """Whether a "not found" to a question asked from now on counts: all that was sent has long arrived, and the
    bank has had its longest time. A question already asked may have been answered too early."""
    if proposal.sent_until is None:
        return True
    longest = timedelta(seconds=adapter(proposal.provider).processing_time_s)
    return timezone.now() >= proposal.sent_until + longest


def current_try(proposal: Proposal) -> QuerySet[Proposal]:
    """The row, as long as the try that it is about is still the current one and has no outcome."""
    return Proposal.objects.filter(pk=proposal.pk, attempts=proposal.attempts, submission=Phase.SENDING)


@outlasts_restart
def adopt(proposal: Proposal, found: BankProposal, cause: Cause) -> None:
    """What the bank accepted counts, whoever learns of it and however late."""
    with Proposal.locked(proposal.pk) as row:
        row.accept(found, cause)
        die_at("before_settle")


@outlasts_restart
def _record_refusal(proposal: Proposal, error: ProviderRejected | OfferExpired) -> None:
    """The bank refused this try. An earlier one that may still arrive could be accepted all the same: then the
    refusal is told, and counts only once nothing is there and nothing can arrive."""
    with Proposal.locked(proposal.pk) as row:
        if row.attempts != proposal.attempts or row.submission != Phase.SENDING:
            return
        if proposal.sent_until is None:
            row.refuse(error)
        else:
            row.submission, row.sent_until, row.error = Phase.UNKNOWN, proposal.sent_until, error.as_dict()
            row.next_reconcile_at = timezone.now() + timedelta(seconds=pause_before_look(row.reconciles))
        die_at("before_settle")


@outlasts_restart
def _record_not_sent(proposal: Proposal, error: ApiError) -> None:
    """Nothing of this try was sent. Where nothing of an earlier one can arrive either, the bank has nothing of it,
    for certain, and the next try may be sent at once."""
    if proposal.sent_until is None:
        current_try(proposal).update(
            submission=Phase.NOT_SENT, error=error.as_dict(), sent_until=None, lease_until=None, next_reconcile_at=None
        )
    else:
        wait = timedelta(seconds=pause_before_look(proposal.reconciles))
        current_try(proposal).update(
            submission=Phase.UNKNOWN, sent_until=proposal.sent_until, next_reconcile_at=timezone.now() + wait
        )


@outlasts_restart
def _record_unknown_outcome(proposal: Proposal) -> None:
    now = timezone.now()
    current_try(proposal).update(
        submission=Phase.UNKNOWN,
        sent_until=now,
        reconciles=0,
        next_reconcile_at=now + timedelta(seconds=pause_before_look(0)),
    )


def pause_before_look(looks: int) -> int:
    return RECONCILE_AFTER_S[min(looks, len(RECONCILE_AFTER_S) - 1)]
