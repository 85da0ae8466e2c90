"""After a new key came in front of FIELD_ENCRYPTION_KEYS or BANK_CREDENTIALS_KEYS: what older keys encrypted, and what
an earlier release bound to no row, is encrypted anew under it.

Columns are found by asking the models for their encrypted fields, so no table can be forgotten. A model whose rows the
database lets nobody change says so by `written_once = True`: its rows are only counted, and need the older keys.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from django.apps import apps
from django.db import transaction
from django.db.models import F, Model, QuerySet, TextField, Value
from django.db.models.functions import Cast

from foundation.encryption import ENCRYPTED_FIELDS, WrongKey

BATCH = 200
#: A row that somebody holds is tried again so often, after so long.
TRIES = 20
PAUSE_S = 0.25


@dataclass(frozen=True)
class Column:
    """An encrypted field of a model. `changes` is False where the database refuses any change."""

    model: type[Model]
    field: str
    changes: bool

    def __str__(self) -> str:
        return f"{self.model._meta.label}.{self.field}"

    def rows(self) -> QuerySet[Any]:
        """The rows that have a value, each with its `token` as it is stored, by key."""
        rows = self.model._base_manager.filter(**{f"{self.field}__isnull": False}).order_by("pk")
        identity = getattr(self.model, "sealed_by", ("pk",))
        return rows.only("pk", *identity).annotate(token=Cast(F(self.field), TextField()))

    @property
    def sealing(self) -> Any:
        """The field, which seals and opens."""
        return self.model._meta.get_field(self.field)


@dataclass
class Count:
    """Values of a column: under the newest key already; rewritten to it; under an older key and left so; under
    no key of the settings."""

    current: int = 0
    rewritten: int = 0
    older: int = 0
    unreadable: int = 0


def columns() -> list[Column]:
    """Every encrypted column of the installed apps, sorted by name."""
    found = [
        Column(model, field.name, not getattr(model, "written_once", False))
        for model in apps.get_models()
        if model._meta.managed and not model._meta.proxy
        for field in model._meta.local_concrete_fields
        if isinstance(field, ENCRYPTED_FIELDS)
    ]
    return sorted(found, key=str)


def reencrypt(told: Callable[[Column, Count], None]) -> dict[Column, Count]:
    """Rewrite every value that an older key encrypted; `told` hears of each column as it is done.

    It works in small batches, each in a transaction that waits for no lock. It may be stopped at any moment and started
    again: values that are rewritten already are skipped. A value that changes meanwhile is read again. A value
    whose row stays locked to the end counts as `older`.
    """
    done = {}
    for column in columns():
        done[column] = _rewrite(column) if column.changes else _look_at(column)
        told(column, done[column])
    return done


def _rewrite(column: Column) -> Count:
    count = Count()
    held = [pk for page in _pages(column) for pk in _renew(column, page, count)]
    for _ in range(TRIES):
        if not held:
            break
        time.sleep(PAUSE_S)
        held = _renew(column, list(column.rows().filter(pk__in=held)), count)
    count.older = len(held)
    return count


def _look_at(column: Column) -> Count:
    count = Count()
    count.older = sum(len(_stale(column, page, count)) for page in _pages(column))
    return count


def _pages(column: Column) -> Iterator[list[Any]]:
    page = list(column.rows()[:BATCH])
    while page:
        yield page
        page = list(column.rows().filter(pk__gt=page[-1].pk)[:BATCH])


def _stale(column: Column, page: list[Any], count: Count) -> dict[Any, tuple[str, str]]:
    """Of the rows under an older key, by their own key, the token as it is and as it has to be."""
    stale = {}
    for row in page:
        if column.sealing.is_current(row.token, row):
            count.current += 1
            continue
        try:
            stale[row.pk] = (row.token, column.sealing.renewed(row.token, row))
        except WrongKey:
            count.unreadable += 1
    return stale


def _renew(column: Column, page: list[Any], count: Count) -> list[Any]:
    """Rewrite what is under an older key; returns the keys of the rows that were locked or had changed."""
    stale = _stale(column, page, count)
    with transaction.atomic():
        free = column.rows().filter(pk__in=stale).select_for_update(skip_locked=True, of=("self",))
        unchanged = [row.pk for row in free if row.token == stale[row.pk][0]]
        for pk in unchanged:
            token = Value(stale[pk][1], output_field=TextField())  # the field itself would encrypt it again
            column.model._base_manager.filter(pk=pk).update(**{column.field: token})
    count.rewritten += len(unchanged)
    return list(stale.keys() - set(unchanged))
