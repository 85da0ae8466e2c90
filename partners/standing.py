"""Ends long responses whose key was revoked or expired meanwhile, or whose partner was suspended."""

import time
import uuid
from collections.abc import Iterator
from datetime import datetime

from django.db import DatabaseError
from django.utils import timezone

from foundation import statements
from foundation.database import give_back_connection
from partners.models import ApiKey, Partner

#: How long a process relies on its last read of a key, in seconds, however many streams it has.
LOOK_EVERY_S = 1.0
_SQL = (
    "SELECT partner.status, key.revoked_at, key.expires_at FROM partners_apikey key"
    " JOIN partners_partner partner ON partner.id = key.partner_id WHERE key.id = %s"
)


def while_active(key: ApiKey, events: Iterator[bytes]) -> Iterator[bytes]:
    """Pass on `events`, the stream's events, until the first one after the end of the key or its partner's
    suspension."""
    for event in events:
        if not is_active(key.pk):
            return
        yield event


def is_active(key: uuid.UUID) -> bool:
    """True for a live key of an active partner. While the database is unavailable, the last read counts."""
    looked_at, active = _looks.get(key, (float("-inf"), True))
    if time.monotonic() - looked_at < LOOK_EVERY_S:
        return active
    try:
        row = statements.fetch_one(_SQL, [key])
        active = row is not None and _is_live(*row)
    except DatabaseError:
        pass
    finally:
        give_back_connection()
    _looks[key] = (time.monotonic(), active)
    return active


def _is_live(status: str, revoked_at: datetime | None, expires_at: datetime | None) -> bool:
    key = ApiKey(revoked_at=revoked_at, expires_at=expires_at)
    return status == Partner.Status.ACTIVE and key.is_live(timezone.now())


_looks: dict[uuid.UUID, tuple[float, bool]] = {}
