"""How PostgreSQL would run a statement."""

from __future__ import annotations

from collections.abc import Iterable

from django.db import connection


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
