"""Ends of a session without an acceptance: declined by the holder, revoked, expired. Each is sent to the partner as an
event."""

from __future__ import annotations

from datetime import datetime

import structlog
from django.db import transaction
from django.utils import timezone

from authorizations.models import Session
from foundation import leases
from foundation.encryption import WrongKey
from foundation.formats import iso_utc
from partners.models import WebhookEvent
from webhooks import outbox

log = structlog.get_logger(__name__)

#: The number of sessions that one transaction of the sweep expires.
BATCH = 100


def decline(session: Session) -> None:
    """End a locked pending session because the holder declined. Inside a transaction."""
    session.decline()
    _send_event(session, WebhookEvent.AUTHORIZATION_DECLINED, declined_at=session.declined_at)


def revoke(session: Session, by: str, reason: str) -> None:
    """Revoke a locked session, inside a transaction. Does nothing if it is already revoked.

    Raises ValidationError for a session that is neither pending nor authorized, and without `by` or `reason`.
    """
    if session.revoke(by, reason):
        _send_event(session, WebhookEvent.AUTHORIZATION_REVOKED, revoked_at=session.revoked_at)


def expire(session: Session) -> None:
    """End a locked pending session whose time has passed. Inside a transaction."""
    session.expire()
    _send_event(session, WebhookEvent.AUTHORIZATION_EXPIRED, expired_at=session.expires_at)


def expire_due() -> int:
    """End every pending session whose time has passed. Returns their number. May run twice at the same time."""
    expired, last = 0, 0
    while True:
        with transaction.atomic():
            due = Session.objects.filter(status=Session.Status.PENDING, expires_at__lte=timezone.now())
            rows = leases.lock_free(due.filter(pk__gt=last).order_by("pk"))
            keys = list(rows.values_list("pk", flat=True)[:BATCH])
            expired += sum(_expire_one(pk) for pk in keys)
        if len(keys) < BATCH:
            break
        last = keys[-1]
    if expired:
        log.info("sessions_expired", sessions=expired)
    return expired


def _expire_one(pk: int) -> bool:
    """End the locked session `pk`. An unreadable session is logged and skipped."""
    try:
        with transaction.atomic():
            expire(Session.objects.select_related("partner").get(pk=pk))
    except WrongKey:
        log.exception("session_unreadable", session=pk)
        return False
    return True


def _send_event(session: Session, event: WebhookEvent, **ended_at: datetime | None) -> None:
    payload = {
        "authorization_id": session.authorization_id,
        "cpf": session.cpf,
        "status": session.status_at(timezone.now()),
        "partner_reference": session.partner_reference or None,
        **{name: iso_utc(moment) for name, moment in ended_at.items() if moment is not None},
    }
    outbox.send(session.partner, event, session.authorization_id, payload)
