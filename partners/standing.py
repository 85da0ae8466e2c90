"""Ends long responses to a partner that was suspended meanwhile."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator

from django.db import DatabaseError

from foundation import statements
from foundation.database import give_back_connection
from partners.models import Partner

#: How long a process relies on its last read of a partner, in seconds, however many streams the partner has.
LOOK_EVERY_S = 1.0
_SQL = "SELECT status FROM partners_partner WHERE id = %s"


def while_active(partner: Partner, events: Iterator[bytes]) -> Iterator[bytes]:
    """Pass on `events`, the stream's events, until the first one after the partner's suspension."""
    for event in events:
        if not _is_active(partner.pk):
            return
        yield event


def _is_active(partner: uuid.UUID) -> bool:
    """False for a suspended partner. While the database is unavailable, the last read counts."""
    looked_at, active = _looks.get(partner, (float("-inf"), True))
    if time.monotonic() - looked_at < LOOK_EVERY_S:
        return active
    try:
        row = statements.fetch_one(_SQL, [partner])
        active = row is not None and row[0] == Partner.Status.ACTIVE
    except DatabaseError:
        pass
    finally:
        give_back_connection()
    _looks[partner] = (time.monotonic(), active)
    return active


_looks: dict[uuid.UUID, tuple[float, bool]] = {}
