"""Submissions without an outcome are looked for at their banks. Nothing is sent from here.

docs/decisions/0030-exactly-once-submission.md has the schedule and the reasons.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

import structlog
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from foundation.errors import ApiError
from foundation.heartbeats import worker_id
from proposals.models import Cause, Proposal
from proposals.sending import find, is_not_found_final

Phase = Proposal.Submission
#: Submissions looked for in one sweep, and how long one may take before another sweep may look.
BATCH = 50
LOOK_LEASE = timedelta(seconds=60)


def is_any_due() -> bool:
    """True if any submission is due to be looked for."""
    return Proposal.objects.filter(_due(timezone.now())).exists()


def _due(now: datetime) -> Q:
    return Q(next_reconcile_at__lte=now, submission__in=(Phase.SENDING, Phase.UNKNOWN))


def held() -> QuerySet[Proposal]:
    """The submissions that a worker is at: it sends them, or looks for them."""
    return Proposal.objects.filter(next_reconcile_at__isnull=False).exclude(worker="")


def claim_unsettled() -> list[Proposal]:
    """Claim the submissions that are due, so that no other worker looks for them meanwhile. A try whose lease ended
    becomes UNKNOWN first, or NOT_SENT where no worker ever took it."""
    worker, now = worker_id(), timezone.now()
    with transaction.atomic():
        rows = Proposal.objects.select_for_update(skip_locked=True, of=("self",)).order_by("next_reconcile_at")
        due = rows.filter(_due(now))
        ids = [proposal.pk for proposal in due.only("pk")[:BATCH]]
        Proposal.end_lapsed_tries(ids, now)
        unknown = Proposal.objects.filter(pk__in=ids, submission=Phase.UNKNOWN)
        unknown.update(next_reconcile_at=now + LOOK_LEASE, worker=worker)
    return list(Proposal.objects.filter(pk__in=ids, submission=Phase.UNKNOWN))


def reconcile(proposal: Proposal) -> None:
    """Ask the bank about a submission whose outcome is unknown. The bank has it: adopt it. The bank's "not found" is
    final: settle it as not arrived. Anything else: look again later.

    Nothing is sent from here. Only a partner who asks again still wants the proposal.
    """
    structlog.contextvars.bind_contextvars(request_id=proposal.request_id)
    is_final = is_not_found_final(proposal)
    try:
        found = find(proposal)
    except ApiError:
        found, is_final = None, False
    if found is not None:
        proposal.adopt(found, Cause.RECONCILE)
    elif is_final:
        proposal.settle_as_not_arrived()
    else:
        proposal.look_again_later()


def bring_forward(proposals: QuerySet[Proposal]) -> list[UUID]:
    """Have those of `proposals` whose outcome is unknown looked for at the next sweep, and soon again after it. Returns
    their ids. A try that a worker is at is left alone."""
    now = timezone.now()
    lapsed = Q(submission=Phase.UNKNOWN) | Q(submission=Phase.SENDING, lease_until__lte=now)
    ids = list(proposals.filter(lapsed).values_list("pk", flat=True))
    Proposal.objects.filter(lapsed, pk__in=ids).update(next_reconcile_at=now, reconciles=0)
    return ids
