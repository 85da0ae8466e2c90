"""The database: hand-written SQL for the hot path, where the ORM takes longer to build a statement than PostgreSQL to
run it; writes that are repeated during a restart, so that no answer of a bank is lost; and connections given back.

PostgreSQL keeps the statements prepared on each pooled connection (`DATABASE_PREPARE`, docs/operations.md). The columns
come from the models, so a new field needs no change here.
"""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Generic, ParamSpec, TypeVar

import structlog
from django.db import InterfaceError, OperationalError, connection, connections, models
from django.db.backends.postgresql.base import ServerBindingCursor
from django.db.backends.utils import CursorWrapper
from django.db.models import QuerySet
from django.db.models.expressions import DatabaseDefault
from psycopg.errors import QueryCanceled
from psycopg.sql import Literal

log = structlog.get_logger(__name__)
M = TypeVar("M", bound=models.Model)
P = ParamSpec("P")
T = TypeVar("T")
Params = Sequence[Any] | Mapping[str, Any]

PATIENCE_S = 10.0
_RETRY_S = 0.5


def outlasts_restart(work: Callable[P, T]) -> Callable[P, T]:
    """Decorator: repeat `work` for up to `PATIENCE_S` seconds while the database is away, then raise its exception.

    `work` must be idempotent, because a commit's confirmation may be lost, and must not run inside a transaction.
    """

    @functools.wraps(work)
    def patient(*args: P.args, **kwargs: P.kwargs) -> T:
        end = time.monotonic() + PATIENCE_S
        while True:
            try:
                return work(*args, **kwargs)
            except (OperationalError, InterfaceError) as fault:
                connection.close()
                if time.monotonic() >= end or timed_out(fault):
                    raise
                log.warning("database_away", work=work.__name__, fault=type(fault).__name__)
            time.sleep(_RETRY_S)

    return patient


def timed_out(fault: BaseException | None) -> bool:
    """True if PostgreSQL ended a statement that took too long (`DATABASE_STATEMENT_TIMEOUT_S`)."""
    return fault is not None and isinstance(fault.__cause__, QueryCanceled)


def give_back_connection() -> None:
    """Close the calling greenlet's database connection, if it has one without an open transaction. `connection` itself
    is not touched if there is none, because that would create one."""
    for each in connections.all(initialized_only=True):
        if not each.in_atomic_block:
            each.close()


# --- Hand-written SQL ---------------------------------------------------------------------------------------------


@contextmanager
def cursor() -> Iterator[CursorWrapper]:
    """A cursor that sends parameters separately from the statement, so that PostgreSQL can keep it prepared. PostgreSQL
    must know each parameter's type; add a cast where it does not."""
    connection.ensure_connection()
    with connection.wrap_database_errors:
        raw = ServerBindingCursor(connection.connection)  # type: ignore[call-arg]  # the stubs describe psycopg 2
    with connection._prepare_cursor(raw) as prepared:  # type: ignore[attr-defined]  # Django's own way to wrap a cursor
        yield prepared


def fetch_one(sql: str, params: Params) -> tuple[Any, ...] | None:
    with cursor() as prepared:
        prepared.execute(sql, params)
        row: tuple[Any, ...] | None = prepared.fetchone()
        return row


def fetch_all(sql: str, params: Params) -> list[tuple[Any, ...]]:
    with cursor() as prepared:
        prepared.execute(sql, params)
        return prepared.fetchall()


def execute(sql: str, params: Params) -> int:
    """Run the statement `sql`. Returns the number of affected rows."""
    with cursor() as prepared:
        prepared.execute(sql, params)
        return prepared.rowcount


def written_out(rows: QuerySet[Any, Any], **places: Any) -> str:
    """The SELECT of `rows` as text with its values in it, for statements written by hand. Each value of `places` is
    the parameter of that name instead."""
    sql, params = rows.query.sql_with_params()
    names = {value: f"%({name})s" for name, value in places.items()}
    values = iter(names[param] if param in names else Literal(param).as_string().replace("%", "%%") for param in params)
    return re.sub("%s", lambda _: next(values), sql)


class Columns(Generic[M]):
    """The columns of `model`, except the fields `without`, or `only` some, for a SELECT with the table alias
    `alias`."""

    def __init__(self, model: type[M], alias: str, without: Collection[str] = (), only: Collection[str] = ()) -> None:
        self._model = model
        every = model._meta.concrete_fields
        fields = [each for each in every if each.name not in without and (each.name in only or not only)]
        self._names = frozenset(field.attname for field in fields)
        self._converters: list[tuple[int, Callable[..., Any]]] = [
            (index, field.from_db_value) for index, field in enumerate(fields) if hasattr(field, "from_db_value")
        ]
        #: The column list, to put between SELECT and FROM.
        self.sql = ", ".join(f'{alias}."{field.column}"' for field in fields)

    def __len__(self) -> int:
        return len(self._names)

    def row(self, values: Sequence[Any]) -> M:
        """The row with these column `values`, as the ORM would load it. Omitted fields are loaded when read."""
        decoded = list(values)
        for index, convert in self._converters:
            decoded[index] = convert(decoded[index], None, connection)
        return self._model.from_db(connection.alias, self._names, decoded)


def insert(*rows: models.Model) -> None:
    """Insert the new `rows` of one model in one statement, like `save(force_insert=True)`, but without signals. The
    model may not have parent models, and of several rows no field may be an array. A key that the database assigns is
    not read back."""
    if not rows:
        return
    values = [_values(row) for row in rows]
    [columns] = {tuple(each) for each in values}
    is_of_many = len(rows) > 1
    params = [[each[name] for each in values] for name in columns] if is_of_many else [*values[0].values()]
    execute(_insertion(type(rows[0]), columns, is_of_many), params)
    for row in rows:
        row._state.adding, row._state.db = False, connection.alias


def insert_and_fetch(row: models.Model, select: str, params: Sequence[Any], unless: str) -> tuple[Any, ...] | None:
    """Like `insert`, but does nothing if there is a row that equals `row` in `unless`, the columns and condition of a
    unique index. In the same statement runs the SELECT `select`, which does not see `row`, but `inserted`: its key, or
    no row if nothing was inserted. Returns the first row of `select`, or None."""
    values = _values(row)
    insertion = _insertion(type(row), tuple(values))
    inserted = f'{insertion} ON CONFLICT {unless} DO NOTHING RETURNING "{row._meta.pk.column}"'
    found = fetch_one(f"WITH inserted AS ({inserted}) {select}", [*values.values(), *params])
    row._state.adding, row._state.db = False, connection.alias
    return found


def update(rows: Sequence[models.Model], names: tuple[str, ...]) -> int:
    """Store the fields `names` of `rows`, which are of one model, in one statement. Returns the number of updated rows.
    The caller holds their locks. A field may not be an array."""
    if not rows:
        return 0
    fields = _fields(type(rows[0]), names)
    database = connections[connection.alias]
    values = [[each.get_db_prep_save(getattr(row, each.attname), database) for row in rows] for each in fields]
    return execute(_update(type(rows[0]), names), values)


@lru_cache(maxsize=64)
def _update(model: type[models.Model], names: tuple[str, ...]) -> str:
    table, fields = model._meta.db_table, _fields(model, names)
    columns = ", ".join(f'"{each.column}"' for each in fields)
    changes = ", ".join(f'"{each.column}" = new."{each.column}"' for each in fields[1:])
    return (
        f'UPDATE "{table}" SET {changes} FROM unnest({_arrays(fields)}) AS new({columns})'  # noqa: S608 - names of ours
        f' WHERE "{table}"."{fields[0].column}" = new."{fields[0].column}"'
    )


@lru_cache(maxsize=64)
def _fields(model: type[models.Model], names: tuple[str, ...]) -> list[models.Field[Any, Any]]:
    """The model's key and the fields `names`."""
    by_name = {field.name: field for field in model._meta.concrete_fields}
    return [model._meta.pk, *(by_name[name] for name in names)]


def _values(row: models.Model) -> dict[str, Any]:
    """The values of the new `row` by column, without those that the database assigns."""
    values: dict[str, Any] = {}
    database = connections[connection.alias]
    for field in row._meta.concrete_fields:
        value = field.pre_save(row, add=True)
        if not isinstance(value, DatabaseDefault) and not (value is None and field.primary_key):
            values[str(field.column)] = field.get_db_prep_save(value, database)
    return values


@lru_cache(maxsize=64)
def _insertion(model: type[models.Model], columns: tuple[str, ...], is_of_many: bool = False) -> str:
    """The statement that inserts a row, or as many as are in the arrays that are its parameters."""
    by_column = {field.column: field for field in model._meta.concrete_fields}
    if is_of_many:
        source = f"SELECT * FROM unnest({_arrays(by_column[column] for column in columns)})"  # noqa: S608 - names of ours
    else:
        source = f"VALUES ({', '.join(['%s'] * len(columns))})"
    names = ", ".join(f'"{column}"' for column in columns)
    return f'INSERT INTO "{model._meta.db_table}" ({names}) {source}'


def _arrays(fields: Iterable[models.Field[Any, Any]]) -> str:
    """A parameter for each of `fields`: an array of its type. A type's length is left out, because PostgreSQL would cut
    what is too long instead of refusing it."""
    return ", ".join(f"%s::{(each.cast_db_type(connection) or '').partition('(')[0]}[]" for each in fields)
