"""Ends the leases of dead workers early, so that other workers continue their submissions and webhooks.

The reasons are in docs/decisions/0033-leases-of-dead-workers.md.
"""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from django.utils import timezone

from foundation.later import dead_holders
from proposals import reconciling
from proposals.models import Proposal
from webhooks import delivery


def is_any_held() -> bool:
    """True if any row is leased by a worker. One statement."""
    return _holders().exists()


def end_leases() -> None:
    """End the leases of dead workers."""
    if dead := dead_holders(_holders()):
        Proposal.end_leases_of(dead, timezone.now())
        delivery.end_leases_of(dead)


def _holders() -> QuerySet[Any, str]:
    submissions, *others = (
        held.order_by().values_list("worker", flat=True) for held in (reconciling.held(), delivery.held())
    )
    return submissions.union(*others)
