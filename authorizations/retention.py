"""Retention and erasure of sessions. Evidence is kept, together with its session."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import structlog
from django.conf import settings
from django.db.models import Exists, OuterRef
from django.db.models.expressions import Combinable
from django.utils import timezone

from authorizations import phone_limits
from authorizations.models import ERASED, Evidence, PhoneCode, Session
from foundation import batches
from foundation.encryption import sealed

log = structlog.get_logger(__name__)


def purge() -> int:
    """Delete the sessions that nobody accepted and that expired `SESSION_RETENTION_DAYS` ago. Returns their number."""
    before = timezone.now() - timedelta(days=settings.SESSION_RETENTION_DAYS)
    old = Session.objects.exclude(status=Session.Status.AUTHORIZED).filter(expires_at__lt=before)
    deleted = batches.delete_oldest(old, "expires_at", batches.end_of_run(), _unproven())
    phone_limits.purge()
    log.info("sessions_purged", sessions=deleted)
    return deleted


def _unproven() -> Combinable:
    return ~Exists(Evidence.objects.filter(session=OuterRef("pk")))


@dataclass(frozen=True)
class Erased:
    """The number of deleted sessions, and of sessions that stay with their evidence, without the holder's data.
    `authorization_ids` are those of all sessions found; partners know some of them from events."""

    sessions: int
    masked: int
    kept_evidence: int
    authorization_ids: list[str]


def erase(cpf_index: str) -> Erased:
    """Delete a holder's sessions without evidence, including pending ones, and mask the others, whose data are then
    only in the evidence. Their keyed hash stays, because the evidence must be found in a dispute. Inside a
    transaction."""
    # Locked first: a running acceptance ends before the lock is granted, and a session that has evidence by then is
    # masked.
    sessions = list(
        Session.objects.filter(cpf_index=cpf_index).order_by("pk").select_for_update().only("authorization_id")
    )
    mine = Session.objects.filter(pk__in=[session.pk for session in sessions])
    deleted, _ = mine.filter(_unproven()).only("pk").delete()
    PhoneCode.objects.filter(session__in=mine).delete()
    masked = 0
    for session in sessions:
        row = Session.objects.filter(pk=session.pk)
        row.filter(revocation_reason__isnull=False).update(
            revocation_reason=sealed(session, "revocation_reason", ERASED)
        )
        holder = {name: sealed(session, name, ERASED) for name in ("cpf", "name", "phone")}
        masked += row.filter(erased_at=None).update(
            **holder, return_link=None, return_url=None, partner_reference="", erased_at=timezone.now()
        )
    return Erased(deleted, masked, mine.count(), [session.authorization_id for session in sessions])
