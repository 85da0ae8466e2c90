"""Asks banks for submissions without an outcome. This module never sends a submission.

The schedule and the reasons are in docs/decisions/0030-exactly-once-submission.md.
"""

from __future__ import annotations

from uuid import UUID

import structlog
from django.db.models import Q, QuerySet
from django.utils import timezone

from foundation.errors import ApiError
from proposals.models import Cause, Proposal
from proposals.sending import find, is_not_found_final

Phase = Proposal.Submission


def reconcile(proposal: Proposal) -> None:
    """Ask the bank about a submission of unknown outcome. If the bank has it, adopt it. If the bank's "not found" is
    final, settle it as not arrived. Otherwise check again later.

    Nothing is sent from here, because only a repeated request shows that the partner still wants the proposal.
    """
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


def bring_forward(proposals: QuerySet[Proposal]) -> list[UUID]:
    """Have those of `proposals` whose outcome is unknown checked by the next sweep, and soon again. Returns their ids.
    An attempt that a worker is working on is left alone."""
    now = timezone.now()
    unsettled = Q(submission=Phase.UNKNOWN) | Q(submission=Phase.SENDING, lease_until__lte=now)
    ids = list(proposals.filter(unsettled).values_list("pk", flat=True))
    # The condition again, because a row may have been settled since.
    Proposal.hasten(Proposal.objects.filter(unsettled, pk__in=ids), reconciles=0)
    return ids
