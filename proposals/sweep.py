"""Submissions without an outcome and open proposals whose check at their bank is due.

Several workers can share the work, because each claims its rows before it asks a bank.
"""

from __future__ import annotations

from django.db.models import Q

from foundation import later
from proposals import actions, reconciling
from proposals.models import Proposal
from providers.types.proposal import ProposalStatus

#: The task that checks due proposals.
CHECK = "proposals.tasks.check_due"


def wake_by_callback(provider: str, native_id: str) -> None:
    """Have a proposal that may still change checked at once, because its bank called back about it. The callback alone
    proves nothing. A paid one may change after the watch over it ended."""
    if "\0" in native_id:  # PostgreSQL cannot store NUL, so no proposal has such an id
        return
    may_change = Q(due_at__isnull=False) | Q(status=ProposalStatus.DISBURSED, withdrawn_at=None)
    rows = Proposal.objects.filter(may_change, provider=provider, native_id=native_id)
    if Proposal.hasten(rows.filter(submission=Proposal.Submission.ACCEPTED)):
        later.ring(CHECK)


def run() -> None:
    """Check the due submissions of unknown outcome and the due open proposals, each in a greenlet of its own."""
    later.each(CHECK, lambda: [*reconciling.claim_unsettled(), *actions.claim_due()], _check)


def _check(proposal: Proposal) -> None:
    is_open = proposal.submission == Proposal.Submission.ACCEPTED
    (actions.refresh if is_open else reconciling.reconcile)(proposal)
