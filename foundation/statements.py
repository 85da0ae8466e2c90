"""Statements written by hand for the hot path, where the ORM takes longer to build its SQL than PostgreSQL to run it.

PostgreSQL keeps them prepared on each pooled connection (`DATABASE_PREPARE`, docs/operations.md). The columns come from
the models, so that a new field takes part without a change here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Generic, TypeVar

from django.db import connection, models
from django.db.backends.postgresql.base import ServerBindingCursor
from django.db.backends.utils import CursorWrapper
from django.db.models.expressions import DatabaseDefault

M = TypeVar("M", bound=models.Model)
Params = Sequence[Any] | Mapping[str, Any]


@contextmanager
def cursor() -> Iterator[CursorWrapper]:
    """A cursor whose parameters travel beside the statement, which PostgreSQL can therefore keep prepared. Each
    parameter's type has to be clear to PostgreSQL, by a cast where need be."""
    connection.ensure_connection()
    with connection.wrap_database_errors:
        raw = ServerBindingCursor(connection.connection)  # type: ignore[call-arg]  # the stubs know psycopg 2's
    with connection._prepare_cursor(raw) as prepared:  # type: ignore[attr-defined]  # Django's own way to wrap one
        yield prepared


def fetch_one(sql: str, params: Params) -> tuple[Any, ...] | None:
    """The first row of the statement `sql`, None where there is none."""
    with cursor() as prepared:
        prepared.execute(sql, params)
        row: tuple[Any, ...] | None = prepared.fetchone()
        return row


def execute(sql: str, params: Params) -> int:
    """Run the statement `sql`; returns the number of rows that it touched."""
    with cursor() as prepared:
        prepared.execute(sql, params)
        return prepared.rowcount


class Columns(Generic[M]):
    """The columns of `model` but for the fields `without`, for a SELECT under the table's alias `alias`."""

    def __init__(self, model: type[M], alias: str, without: Sequence[str] = ()) -> None:
        self._model = model
        fields = [field for field in model._meta.concrete_fields if field.name not in without]
        self._names = [field.attname for field in fields]
        self._converters: list[tuple[int, Callable[..., Any]]] = [
            (index, field.from_db_value) for index, field in enumerate(fields) if hasattr(field, "from_db_value")
        ]
        #: To stand between SELECT and FROM.
        self.sql = ", ".join(f'{alias}."{field.column}"' for field in fields)

    def __len__(self) -> int:
        return len(self._names)

    def row(self, values: Sequence[Any]) -> M:
        """The row whose columns have these `values`, as the ORM loads it; fields left out are read when asked for."""
        found = list(values)
        for index, convert in self._converters:
            found[index] = convert(found[index], None, connection)
        return self._model.from_db(connection.alias, self._names, found)


def insert(row: models.Model) -> None:
    """Store the new `row` of a model without parents, as `save(force_insert=True)` does, without its signals."""
    meta = row._meta
    values: list[Any] = []
    left_out: list[str] = []
    for field in meta.concrete_fields:
        value = field.pre_save(row, add=True)
        if isinstance(value, DatabaseDefault):
            left_out.append(field.attname)
        else:
            values.append(field.get_db_prep_save(value, connection))
    execute(_insertion(type(row), tuple(left_out)), values)
    row._state.adding, row._state.db = False, connection.alias


@lru_cache(maxsize=64)
def _insertion(model: type[models.Model], left_out: tuple[str, ...]) -> str:
    columns = [f'"{field.column}"' for field in model._meta.concrete_fields if field.attname not in left_out]
    places = ", ".join(["%s"] * len(columns))
    return f'INSERT INTO "{model._meta.db_table}" ({", ".join(columns)}) VALUES ({places})'  # noqa: S608 - names of ours
