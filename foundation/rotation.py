"""Re-encryption after a new key was put first in FIELD_ENCRYPTION_KEYS or BANK_CREDENTIALS_KEYS: values under older
keys are encrypted again.

The columns are found through the models' encrypted fields, so that no table can be forgotten. A model whose rows the
database protects from changes has `written_once = True`: its values are only counted and still need the older keys.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from django.apps import apps
from django.db import transaction
from django.db.models import F, Model, QuerySet, TextField, Value
from django.db.models.functions import Cast

from foundation.encryption import EncryptedTextField, WrongKey
from foundation.later import lock_free

BATCH = 200
#: How often a locked row is tried again, and the seconds between tries.
TRIES = 20
PAUSE_S = 0.25


@dataclass(frozen=True)
class Column:
    """An encrypted field of a model. `changes` is False if the database refuses any change."""

    model: type[Model]
    field: str
    changes: bool

    def __str__(self) -> str:
        return f"{self.model._meta.label}.{self.field}"

    def rows(self) -> QuerySet[Any]:
        """The rows with a value, by key, each with its stored `token`."""
        rows = self.model._base_manager.filter(**{f"{self.field}__isnull": False}).order_by("pk")
        identity = getattr(self.model, "sealed_by", ("pk",))
        return rows.only("pk", *identity).annotate(token=Cast(F(self.field), TextField()))

    @property
    def sealing(self) -> Any:
        """The field, which encrypts and decrypts."""
        return self.model._meta.get_field(self.field)


@dataclass
class Count:
    """The number of values in a column: already under the newest key; rewritten; left under an older key; and not
    decryptable by any key."""

    current: int = 0
    rewritten: int = 0
    older: int = 0
    unreadable: int = 0


def columns() -> list[Column]:
    """Every encrypted column of the installed apps, sorted by name."""
    encrypted = [
        Column(model, field.name, not getattr(model, "written_once", False))
        for model in apps.get_models()
        if model._meta.managed and not model._meta.proxy
        for field in model._meta.local_concrete_fields
        if isinstance(field, EncryptedTextField)
    ]
    return sorted(encrypted, key=str)


def reencrypt(report: Callable[[Column, Count], None]) -> dict[Column, Count]:
    """Rewrite every value under an older key. `report` is called for each finished column.

    Works in small batches; each is a transaction that waits for no lock. May be stopped and restarted at any time:
    values that are already rewritten are skipped. A value that changes meanwhile is read again. A value whose row stays
    locked counts as `older`.
    """
    counts = {}
    for column in columns():
        counts[column] = _rewrite(column)
        report(column, counts[column])
    return counts


def _rewrite(column: Column) -> Count:
    count = Count()
    held = [pk for page in _pages(column) for pk in _renew(column, page, count)]
    for _ in range(TRIES):
        if not held:
            break
        time.sleep(PAUSE_S)
        held = _renew(column, list(column.rows().filter(pk__in=held)), count)
    count.older += len(held)
    return count


def _pages(column: Column) -> Iterator[list[Any]]:
    page = list(column.rows()[:BATCH])
    while page:
        yield page
        page = list(column.rows().filter(pk__gt=page[-1].pk)[:BATCH])


def _renew(column: Column, page: list[Any], count: Count) -> list[Any]:
    """Rewrite the values under an older key, if the database permits it. Returns the keys of the rows that were locked
    or had changed."""
    stale: dict[Any, tuple[str, str]] = {}  # by row key: the stored token and the new one
    for row in page:
        try:
            token = column.sealing.renewed(row.token, row)
        except WrongKey:
            count.unreadable += 1
            continue
        if token is None:
            count.current += 1
        else:
            stale[row.pk] = (row.token, token)
    if not column.changes:
        count.older += len(stale)
        return []
    with transaction.atomic():
        free = lock_free(column.rows().filter(pk__in=stale))
        unchanged = [row.pk for row in free if row.token == stale[row.pk][0]]
        for pk in unchanged:
            renewed = Value(stale[pk][1], output_field=TextField())  # the field itself would encrypt the token again
            column.model._base_manager.filter(pk=pk).update(**{column.field: renewed})
    count.rewritten += len(unchanged)
    return list(stale.keys() - set(unchanged))
