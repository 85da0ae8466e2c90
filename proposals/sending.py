"""A worker sends a proposal to its bank exactly once, despite any failure, as
docs/decisions/0030-exactly-once-submission.md says. Once anything may have been sent, the next step is always to ask
the bank by our reference. Sending again requires the bank's "not found" after the longest time that the bank needs to
show a submission. Every change between states is a method of `Proposal`.
"""

from datetime import timedelta
from functools import partial

import structlog
from django.db import connection
from django.utils import timezone

from authorizations import evidence
from authorizations.models import Evidence
from foundation.errors import ApiError, InvalidInput, NotFound
from proposals import dataset
from proposals.attempts import TIMEOUTS_PER_ATTEMPT
from proposals.calls import adapter, call_bank
from proposals.killpoints import die_at
from proposals.models import BankCall, Cause, Proposal
from providers.errors import BankFailure, OfferExpired, ProviderRejected, native_code
from providers.operation import BankClient
from providers.types.proposal import BankProposal

Operation = BankCall.Operation


def run(proposal_id: str) -> None:
    """Bring the proposal's current attempt to an outcome. Does nothing for a task that comes twice or late."""
    proposal = Proposal.take(proposal_id)
    if proposal is None:
        return
    structlog.contextvars.bind_contextvars(request_id=proposal.request_id)
    if proposal.sent_until is None or _settle_earlier(proposal):
        send(proposal)


def _settle_earlier(proposal: Proposal) -> bool:
    """Ask the bank for the earlier attempts. Adopts a proposal that the bank has. Returns True if the bank has none, so
    that another attempt may be sent. If the bank cannot tell yet, the outcome stays unknown."""
    is_final = is_not_found_final(proposal)
    try:
        reported = find(proposal)
    except ApiError:
        proposal.return_to_unknown()
        return False
    if reported is not None:
        proposal.adopt(reported, Cause.RECONCILE)
        return False
    if is_final or adapter(proposal.provider).deduplicates:
        return proposal.prepare_resend(is_first_gone=is_final)
    proposal.return_to_unknown()
    return False


def send(proposal: Proposal) -> None:
    """Send the attempt that was taken, and record its outcome."""
    die_at("after_commit")
    # When the lease ends, the sent request has arrived or never will. Other processes rely on that.
    body = dataset.to_bank(proposal.dataset, proposal.offer, reference=proposal.reference)
    longest_s = (TIMEOUTS_PER_ATTEMPT - 1) * proposal.bank_timeout_s()  # a statement, which may have to wait
    lease_s = (proposal.lease_until - timezone.now()).total_seconds() if proposal.lease_until else 0.0
    seconds = max(0.0, min(longest_s, lease_s))

    def submit(bank: BankClient) -> BankProposal:
        return bank.submit(body, about_to_send=partial(_record_evidence_use, proposal))

    try:
        accepted = call_bank(_row(proposal, Operation.SUBMIT), submit, seconds=seconds)
    except BankFailure as failure:
        if failure.sent:
            proposal.mark_unknown()
        else:
            proposal.mark_not_sent(failure)
    except InvalidInput as error:
        proposal.mark_not_sent(error)
    except (OfferExpired, NotFound):
        # The bank no longer knows the offer. A new query gives a new one.
        proposal.refuse(OfferExpired())
    except ApiError as error:
        proposal.refuse(ProviderRejected(error.message, code=native_code(error), field=error.field))
    else:
        die_at("after_send")
        proposal.adopt(accepted, Cause.SUBMIT)


def _record_evidence_use(proposal: Proposal) -> None:
    """Record, before anything is sent, that the bank will rely on the session, if any, of the offer's query."""
    if authorization_id := proposal.offer.query.authorization_id:
        acceptance = Evidence.objects.get(session__authorization_id=authorization_id)
        evidence.record_use(acceptance.number, [proposal.provider], call="submit", reference=str(proposal.pk))
    connection.close()


def find(proposal: Proposal) -> BankProposal | None:
    """The bank's proposal for our reference, or None. Raises the errors of `call_bank`."""
    return call_bank(_row(proposal, Operation.FIND), lambda bank: bank.find(proposal.reference))


def _row(proposal: Proposal, operation: Operation) -> BankCall:
    return BankCall(proposal=proposal, operation=operation, request_id=proposal.request_id)


def is_not_found_final(proposal: Proposal) -> bool:
    """True if the bank's "not found" to a question asked from now on is final: everything that was sent has arrived,
    and the bank has had its longest processing time. An answer to an earlier question does not count."""
    if proposal.sent_until is None:
        return True
    longest = timedelta(seconds=adapter(proposal.provider).processing_time_s)
    return timezone.now() >= proposal.sent_until + longest
