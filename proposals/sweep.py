"""Submissions without an outcome and open proposals whose check at their bank is due.

Several workers can share the work, because each claims its rows before it asks a bank.
"""

from __future__ import annotations

from foundation import later
from proposals import actions, reconciling
from proposals.models import Proposal

#: The task that checks due proposals.
CHECK = "proposals.tasks.check_due"


def run() -> None:
    """Check the due submissions of unknown outcome and the due open proposals, each in a greenlet of its own."""
    later.silence(CHECK)
    later.each(CHECK, [*reconciling.claim_unsettled(), *actions.claim_due()], _check)


def _check(proposal: Proposal) -> None:
    is_open = proposal.submission == Proposal.Submission.ACCEPTED
    (actions.refresh if is_open else reconciling.reconcile)(proposal)
