"""Cursors for lists read in pages, newest first. A cursor holds the time and the key of the page's last row."""

from __future__ import annotations

import base64
import binascii
from datetime import UTC, datetime

from foundation.errors import InvalidInput


def encode(at: datetime, key: str) -> str:
    """The cursor for the rows after this one. `at` is aware; `key` is text without blanks."""
    return base64.urlsafe_b64encode(f"{at.isoformat()} {key}".encode()).decode()


def decode(cursor: str) -> tuple[datetime, str]:
    """The time (UTC) and the key in `cursor`.

    Raises InvalidInput on the field `cursor` for any text that `encode` did not write, also for an unusual notation of
    the same time: PostgreSQL refuses an offset of 23:59:59.999999.
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
    """The error for a cursor that this list did not issue."""
    return InvalidInput("Cursor inválido.", field="cursor")
