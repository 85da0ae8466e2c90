"""Ends of a session without an acceptance: declined by the holder, revoked, expired. Each is sent to the partner as an
event."""

import structlog
from django.db import transaction
from django.utils import timezone

from authorizations import shapes
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
    _send(session, WebhookEvent.AUTHORIZATION_DECLINED, shapes.AuthorizationDeclinedEvent.of_session(session))


def revoke(session: Session, by: str, reason: str) -> None:
    """Revoke a locked session, inside a transaction. Does nothing if it is already revoked.

    Raises ValidationError for a session that is neither pending nor authorized, and without `by` or `reason`.
    """
    if session.revoke(by, reason):
        _send(session, WebhookEvent.AUTHORIZATION_REVOKED, shapes.AuthorizationRevokedEvent.of_session(session))


def expire(session: Session) -> None:
    """End a locked pending session whose time has passed. Inside a transaction."""
    session.expire()
    ended = shapes.AuthorizationExpiredEvent.of_session(session, expired_at=iso_utc(session.expires_at))
    _send(session, WebhookEvent.AUTHORIZATION_EXPIRED, ended)


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


def _send(session: Session, name: str, payload: shapes.SessionEnd) -> None:
    outbox.send(session.partner, name, session.authorization_id, payload)
