"""Lists in pages, newest first: the filters of a query string, and cursors.

A cursor holds the time and the key of a page's last row, so pages stay consistent while rows are added.
"""

import base64
import binascii
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeVar
from uuid import UUID

from django.db.models import Model, Q, QuerySet

from foundation.errors import InvalidInput
from foundation.fields import Block, ChoiceField, IntegerField

Row = TypeVar("Row", bound=Model)

#: The largest page.
PAGE = 100
_NUMBER = re.compile(r"-?\d{1,30}", re.ASCII)


class Filters(Block):
    """Filters from a query string. An empty filter is ignored. `source` is the look-up of a filter that compares a
    column under another name. `since` and `until` are called `from` and `to` there: `from` is a keyword of Python."""

    def get_fields(self) -> dict[str, Any]:
        named = {"since": "from", "until": "to"}
        fields = super().get_fields()
        for field in fields.values():
            field.allow_null = False
            if isinstance(field, ChoiceField):
                field.allow_blank = True
        return {named.get(name, name): field for name, field in fields.items()}

    def to_internal_value(self, data: dict[str, str]) -> dict[str, Any]:
        filters: dict[str, Any] = {name: text for name, text in data.items() if text}
        for name, text in filters.items():
            if isinstance(self.fields.get(name), IntegerField) and _NUMBER.fullmatch(text):
                filters[name] = int(text)
        values: dict[str, Any] = super().to_internal_value(filters)
        return values


def newest_first(
    rows: QuerySet[Row], cursor: str | None, size: int, *, at: str = "created_at", key: Callable[[str], Any] = UUID
) -> tuple[list[Row], str | None]:
    """A page of at most `size` of `rows`, and the cursor of the next page.

    `at` names the rows' time. `key` reads a row's primary key from its text and raises ValueError on other text.
    Raises InvalidInput on `cursor` for a cursor that this list did not issue.
    """
    if cursor:
        when, text = decode(cursor)
        try:
            pk = key(text)
        except ValueError:
            raise invalid_cursor() from None
        if str(pk) != text:
            raise invalid_cursor()
        rows = rows.filter(Q(**{f"{at}__lt": when}) | Q(**{at: when, "pk__lt": pk}))
    found = list(rows.order_by(f"-{at}", "-pk")[: size + 1])
    last = found[size - 1] if len(found) > size else None
    return found[:size], encode(getattr(last, at), str(last.pk)) if last else None


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
    return InvalidInput("Cursor inválido.", field="cursor")
