"""Proposals that wait for a sweep, or whose submission has no known outcome."""

from datetime import datetime

from django.db.models import Q, QuerySet

from backoffice.problems.problem import OVERDUE
from proposals.models import Proposal
from providers import registry

UNKNOWN = Q(submission=Proposal.Submission.UNKNOWN)


def unchecked(now: datetime) -> Q:
    """The condition of proposals that a sweep should have checked."""
    return Proposal.is_due(now) & Q(due_at__lt=now - OVERDUE, provider__in=registry.names())


def unsettled(now: datetime) -> QuerySet[Proposal]:
    """The submissions of unknown outcome, and the proposals that a sweep should have checked. PostgreSQL finds both by
    an index."""
    return Proposal.objects.filter(UNKNOWN | unchecked(now), due_at__isnull=False)
