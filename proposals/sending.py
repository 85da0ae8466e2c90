"""A worker sends a proposal to its bank, exactly once, whatever fails.

Whatever becomes of the worker's process, the row says what it began. Once anything may have been sent, the next step is
always to ask the bank by our reference. Sending again takes the bank's clear "not found", given after the longest time
that the bank needs to show a submission. docs/decisions/0030-exactly-once-submission.md has the states and the reasons;
every change between them is a method of `Proposal`.
"""

from __future__ import annotations

from datetime import timedelta
from functools import partial

import structlog
from django.db import connection
from django.utils import timezone

from authorizations import evidence
from authorizations.models import Evidence
from foundation.errors import ApiError, InvalidInput, NotFound
from proposals import dataset
from proposals.calls import adapter, call_bank
from proposals.killpoints import die_at
from proposals.models import BankCall, Cause, Proposal
from proposals.tries import TIMEOUTS_PER_TRY
from providers.errors import BankFailure, OfferExpired, ProviderRejected
from providers.operation import BankClient
from providers.types import BankProposal

Operation = BankCall.Operation


def run(proposal_id: str) -> None:
    """Take the current try of the proposal and bring it to an outcome. A task that comes twice, or too late,
    finds nothing to take."""
    proposal = Proposal.take(proposal_id)
    if proposal is None:
        return
    structlog.contextvars.bind_contextvars(request_id=proposal.request_id)
    try:
        if proposal.sent_until is None or _may_send_again(proposal):
            send(proposal)
    finally:
        connection.close()


def _may_send_again(proposal: Proposal) -> bool:
    """Ask the bank what it has of the earlier tries. True where it has nothing, so that one more may be sent. What it
    has is adopted. Where it can't tell yet, the outcome stays unknown."""
    is_final = is_not_found_final(proposal)
    try:
        found = find(proposal)
    except ApiError:
        proposal.return_to_unknown()
        return False
    if found is not None:
        proposal.adopt(found, Cause.RECONCILE)
        return False
    if is_final or adapter(proposal.provider).deduplicates:
        return proposal.prepare_resend(is_first_gone=is_final)
    proposal.return_to_unknown()
    return False


def send(proposal: Proposal) -> None:
    """Send the try that was taken, and record what came of it."""
    die_at("after_commit")
    # What is sent has arrived, or never will, when the lease ends: others count on it.
    left = (proposal.lease_until - timezone.now()).total_seconds() if proposal.lease_until else 0.0
    seconds = max(0.0, min((TIMEOUTS_PER_TRY - 1) * proposal.bank_timeout_s(), left))
    body = dataset.to_bank(proposal.dataset, proposal.offer, reference=proposal.reference)

    def submit(bank: BankClient) -> BankProposal:
        return bank.submit(body, about_to_send=partial(_record_evidence_use, proposal))

    try:
        accepted = call_bank(proposal, Operation.SUBMIT, submit, seconds=seconds)
    except BankFailure as failure:
        if failure.sent:
            proposal.mark_unknown()
        else:
            proposal.mark_not_sent(failure)
    except InvalidInput as error:
        proposal.mark_not_sent(error)
    except (OfferExpired, NotFound):
        # The bank knows the offer no longer. Asked again, it makes a new one.
        proposal.refuse(OfferExpired())
    except ApiError as error:
        proposal.refuse(ProviderRejected(error.message))
    else:
        die_at("after_send")
        proposal.adopt(accepted, Cause.SUBMIT)


def _record_evidence_use(proposal: Proposal) -> None:
    """Record, before anything is sent, that the bank is about to rely on the session that authorized the offer's
    query; some queries have none."""
    if authorization_id := proposal.offer.query.authorization_id:
        seen = Evidence.objects.get(session__authorization_id=authorization_id)
        evidence.record_use(seen.number, [proposal.provider], call="submit", reference=str(proposal.pk))
    connection.close()


def find(proposal: Proposal) -> BankProposal | None:
    """What the bank has under the proposal's reference, None where it has nothing. Raises what `call_bank` raises."""
    return call_bank(proposal, Operation.FIND, lambda bank: bank.find(proposal.reference))


def is_not_found_final(proposal: Proposal) -> bool:
    """True where a "not found" to a question asked from now on counts: all that was sent has long arrived, and the
    bank has had its longest time. A question already asked may have been answered too early."""
    if proposal.sent_until is None:
        return True
    longest = timedelta(seconds=adapter(proposal.provider).processing_time_s)
    return timezone.now() >= proposal.sent_until + longest
