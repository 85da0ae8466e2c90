"""How long personal data stay.

Evidence and proposals that a bank accepted are the proof of a contract, a class of their own: no clock ends them.
"""

from __future__ import annotations

from datetime import timedelta

import structlog
from django.conf import settings
from django.db.models import Exists, OuterRef
from django.utils import timezone

import consultas.retention
from proposals.models import NEVER_ACCEPTED, Proposal
from providers import batches

log = structlog.get_logger(__name__)


def purge() -> dict[str, int]:
    """Delete submissions that no bank accepted after `SUBMISSION_RETENTION_DAYS`, and queries with their offers and
    steps after `QUERY_RETENTION_DAYS`, those behind a proposal excepted. Returns how many of each."""
    now, until = timezone.now(), batches.end_of_run()
    unwanted = Proposal.objects.filter(
        submission__in=NEVER_ACCEPTED, updated_at__lt=now - timedelta(days=settings.SUBMISSION_RETENTION_DAYS)
    )
    # First: a submission that goes sets its offer free.
    gone = {"proposals": batches.delete_oldest(unwanted, "updated_at", until)}
    gone |= consultas.retention.purge(now - timedelta(days=settings.QUERY_RETENTION_DAYS), _in_use(), until)
    log.info("queries_purged", **gone)
    return gone


def _in_use() -> Exists:
    """Of offers: a proposal was made of it."""
    return Exists(Proposal.objects.filter(offer=OuterRef("pk")))
