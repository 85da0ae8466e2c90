"""Plain SQL: which statements something executes, and how PostgreSQL would run them."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection, models
from django.test.utils import CaptureQueriesContext


def execute(statement: str, parameters: Any = None) -> list[Any]:
    """The rows that a statement gives, if it gives any."""
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return cursor.fetchall() if cursor.description else []


@contextmanager
def executed() -> Iterator[list[str]]:
    """A list that contains, after the block, every statement that was executed during the block."""
    statements: list[str] = []
    with CaptureQueriesContext(connection) as captured:
        yield statements
    statements += [each["sql"] for each in captured]


def assert_indexed(statements: Iterable[str]) -> None:
    """Fail if PostgreSQL can only run the statement by reading a whole table.

    Sequential scans are switched off: the planner then uses one only if there is no other way.
    """
    execute("SET LOCAL enable_seqscan = off")
    for sql in statements:
        plan = plan_of(sql)
        assert "Seq Scan" not in plan, f"{sql}\n{plan}"


def plan_of(statement: str) -> str:
    return "\n".join(line for (line,) in execute(f"EXPLAIN {statement}"))


def assert_read_by(index: str, statement: str) -> None:
    """Fail unless PostgreSQL chooses `index` for the statement, with the rows that are there."""
    plan = plan_of(statement)
    assert f" {index} " in plan, plan


def copy_rows(row: models.Model, count: int, **changed: str) -> None:
    """Copy `row` so many times, with the SQL expressions in `changed` as the columns of copy `n`. Then let the planner
    count the rows."""
    table, columns = row._meta.db_table, [field.column for field in row._meta.concrete_fields]
    values = ", ".join(changed.get(column, column) for column in columns)
    execute(
        f"INSERT INTO {table} ({', '.join(columns)}) SELECT {values} FROM {table}, generate_series(1, {count}) n"
        f" WHERE {table}.{row._meta.pk.column} = '{row.pk}'"
    )
    execute(f"ANALYZE {table}")


def assert_found_by(index: str, words: str, find: Callable[[], Any]) -> None:
    """Fail unless `find` finds something by one statement with these `words`, for which PostgreSQL chooses `index`."""
    with executed() as statements:
        assert find()
    [statement] = [sql for sql in statements if words in sql]
    assert_read_by(index, statement)
