"""How PostgreSQL would run a statement."""

from collections.abc import Callable, Iterable
from typing import Any

from django.db import connection, models
from django.test.utils import CaptureQueriesContext


def assert_indexed(statements: Iterable[str]) -> None:
    """Fail if PostgreSQL can only run the statement by reading a whole table.

    Sequential scans are switched off: the planner then uses one only if there is no other way.
    """
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        for sql in statements:
            cursor.execute(f"EXPLAIN {sql}")
            plan = "\n".join(line for (line,) in cursor.fetchall())
            assert "Seq Scan" not in plan, f"{sql}\n{plan}"


def assert_read_by(index: str, statement: str) -> None:
    """Fail unless PostgreSQL chooses `index` for the statement, with the rows that are there."""
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN {statement}")
        plan = "\n".join(line for (line,) in cursor.fetchall())
    assert f" {index} " in plan, plan


def copy_rows(row: models.Model, count: int, **changed: str) -> None:
    """Copy `row` so many times, with the SQL expressions in `changed` as the columns of copy `n`. Then let the planner
    count the rows."""
    table, columns = row._meta.db_table, [field.column for field in row._meta.concrete_fields]
    values = ", ".join(changed.get(column, column) for column in columns)
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {table} ({', '.join(columns)}) SELECT {values} FROM {table}, generate_series(1, {count}) n"
            f" WHERE {table}.{row._meta.pk.column} = '{row.pk}'"
        )
        cursor.execute(f"ANALYZE {table}")


def assert_found_by(index: str, words: str, find: Callable[[], Any]) -> None:
    """Fail unless `find` finds something by one statement with these `words`, for which PostgreSQL chooses `index`."""
    with CaptureQueriesContext(connection) as captured:
        assert find()
    [statement] = [each["sql"] for each in captured if words in each["sql"]]
    assert_read_by(index, statement)
