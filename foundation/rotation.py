"""Re-encryption after a new key was put first in FIELD_ENCRYPTION_KEYS or BANK_CREDENTIALS_KEYS: values under older
keys are encrypted again.

The columns are found through the models' encrypted fields, so that no table can be forgotten. A model whose rows the
database protects from changes has `written_once = True`: its values are only counted and still need the older keys.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.apps import apps
from django.db.models import F, Model, QuerySet, TextField
from django.db.models.functions import Cast

from foundation.batches import pages
from foundation.encryption import EncryptedTextField, Sealed, WrongKey

BATCH = 200


@dataclass(frozen=True)
class Column:
    """An encrypted field of a model. `changes` is False if the database refuses any change."""

    model: type[Model]
    field: str
    changes: bool

    def __str__(self) -> str:
        return f"{self.model._meta.label}.{self.field}"

    def rows(self) -> QuerySet[Any]:
        """The rows with a value, each with its stored `token`."""
        rows = self.model._base_manager.filter(**{f"{self.field}__isnull": False})
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

    Each value is a transaction of its own, which changes nothing if the value changed meanwhile: then it is gone, or
    under the newest key. May be stopped and restarted at any time: values that are already rewritten are skipped.
    """
    counts = {}
    for column in columns():
        count = counts[column] = Count()
        for page in pages(column.rows(), "pk", BATCH):
            for row in page:
                _renew(column, row, count)
        report(column, count)
    return counts


def _renew(column: Column, row: Any, count: Count) -> None:
    """Rewrite the value of `row` if it is under an older key and the database permits it."""
    try:
        token = column.sealing.renewed(row.token, row)
    except WrongKey:
        count.unreadable += 1
        return
    if token is None:
        count.current += 1
    elif not column.changes:
        count.older += 1
    else:
        unchanged = column.model._base_manager.filter(**{"pk": row.pk, column.field: Sealed(row.token)})
        rewritten = unchanged.update(**{column.field: Sealed(token)})
        count.rewritten += rewritten
        count.current += 1 - rewritten
