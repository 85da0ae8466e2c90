"""Submissions without an outcome and open proposals whose check at their bank is due.

Several workers can share the work, because each claims its rows before it asks a bank. This module never sends a
submission. Its schedule and the reasons are in docs/decisions/0030-exactly-once-submission.md.
"""

from datetime import timedelta
from uuid import UUID

import structlog
from django.db.models import Case, Q, QuerySet, When
from django.utils import timezone

from foundation import later
from foundation.errors import ApiError
from proposals import actions
from proposals.models import Cause, Proposal
from proposals.sending import find, is_not_found_final
from providers import registry
from providers.types.proposal import ProposalStatus

Phase = Proposal.Submission
#: How many submissions without an outcome one sweep checks, and how many accepted proposals of each bank.
UNSETTLED_AT_ONCE, ACCEPTED_AT_ONCE = 50, 20
#: How long a check may take before another sweep may make one.
LEASE = timedelta(seconds=60)


def wake_by_callback(provider: str, native_id: str) -> None:
    """Have a proposal that may still change checked at once, because its bank called back about it. The callback alone
    proves nothing. A paid one may change after the watch over it ended."""
    if "\0" in native_id:  # PostgreSQL cannot store NUL, so no proposal has such an id
        return
    may_change = Q(due_at__isnull=False) | Q(status=ProposalStatus.DISBURSED, withdrawn_at=None)
    rows = Proposal.objects.filter(may_change, provider=provider, native_id=native_id)
    if Proposal.hasten(rows.filter(submission=Phase.ACCEPTED)):
        later.ring(Proposal)


def check_due() -> None:
    """Check the due submissions of unknown outcome and the due open proposals, each in a greenlet of its own."""
    later.each(Proposal, claim_due, _check)


def claim_due() -> list[Proposal]:
    """Claim due rows, so that no other worker checks them meanwhile: submissions of unknown outcome, and of each bank
    the open proposals, then the paid ones. Attempts with an expired lease are ended first."""
    Proposal.end_expired_attempts()
    due = Proposal.due()
    accepted = due.filter(submission=Phase.ACCEPTED, provider__in=registry.names())
    order = (Case(When(status=ProposalStatus.DISBURSED, then=1), default=0), "due_at")
    claimed = Proposal.claim(due.filter(submission=Phase.UNKNOWN), UNSETTLED_AT_ONCE, LEASE)
    for bank in accepted.order_by("provider").values_list("provider", flat=True).distinct():
        claimed += Proposal.claim(accepted.filter(provider=bank), ACCEPTED_AT_ONCE, LEASE, order)
    return claimed


def _check(proposal: Proposal) -> None:
    if proposal.submission == Phase.ACCEPTED:
        actions.refresh(proposal)
    else:
        reconcile(proposal)


def reconcile(proposal: Proposal) -> None:
    """Ask the bank about a submission of unknown outcome: adopt what it has, settle a final "not found" as not arrived,
    or check again later. Nothing is sent from here: only a repeated request shows that the partner still wants it."""
    structlog.contextvars.bind_contextvars(request_id=proposal.request_id)
    is_final = is_not_found_final(proposal)
    try:
        reported = find(proposal)
    except ApiError:
        reported, is_final = None, False
    if reported is not None:
        proposal.adopt(reported, Cause.RECONCILE)
    elif is_final:
        proposal.settle_as_not_arrived()
    else:
        proposal.look_again_later()


def hasten_unknown(proposals: QuerySet[Proposal]) -> list[UUID]:
    """Have those of `proposals` whose outcome is unknown checked by the next sweep, and soon again. Returns their ids.
    An attempt that a worker is working on is left alone."""
    now = timezone.now()
    unsettled = Q(submission=Phase.UNKNOWN) | Q(submission=Phase.SENDING, lease_until__lte=now)
    ids = list(proposals.filter(unsettled).values_list("pk", flat=True))
    # The condition again, because a row may have been settled since.
    Proposal.hasten(Proposal.objects.filter(unsettled, pk__in=ids), reconciles=0)
    return ids
