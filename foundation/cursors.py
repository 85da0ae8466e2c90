"""Cursors of lists that are read in pages, newest first: they name the last row of a page by its time and its key."""

from __future__ import annotations

import base64
import binascii
from datetime import UTC, datetime

from foundation.errors import InvalidInput


def encode(at: datetime, key: str) -> str:
    """The cursor behind the row with this time (aware) and this key (text without blanks)."""
    return base64.urlsafe_b64encode(f"{at.isoformat()} {key}".encode()).decode()


def decode(cursor: str) -> tuple[datetime, str]:
    """The time (UTC) and the key that `encode` wrote into `cursor`.

    Raises InvalidInput on `cursor` for anything else, also for what merely reads the same: PostgreSQL knows no
    offset of 23:59:59.999999.
    """
    try:
        moment, key = base64.b64decode(cursor, altchars=b"-_", validate=True).decode().split(" ")
        at = datetime.fromisoformat(moment)
    except (binascii.Error, ValueError):
        raise invalid_cursor() from None
    if at.tzinfo != UTC or encode(at, key) != cursor:
        raise invalid_cursor()
    return at, key


def invalid_cursor() -> InvalidInput:
    """The error for a cursor that no page of this list gave."""
    return InvalidInput("Cursor inválido.", field="cursor")
