"""How long sessions stay. Evidence stays, and with it its session."""

from __future__ import annotations

from datetime import timedelta

import structlog
from django.conf import settings
from django.db.models import Exists, OuterRef
from django.db.models.expressions import Combinable
from django.utils import timezone

from authorizations.models import Evidence, Session
from providers import batches

log = structlog.get_logger(__name__)


def purge() -> int:
    """Delete the sessions that nobody accepted and that expired `SESSION_RETENTION_DAYS` ago; returns how many."""
    before = timezone.now() - timedelta(days=settings.SESSION_RETENTION_DAYS)
    old = Session.objects.exclude(status=Session.Status.AUTHORIZED).filter(expires_at__lt=before)
    gone = batches.delete_oldest(old, "expires_at", batches.end_of_run(), _unproven())
    log.info("sessions_purged", sessions=gone)
    return gone


def _unproven() -> Combinable:
    return ~Exists(Evidence.objects.filter(session=OuterRef("pk")))
