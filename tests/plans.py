"""How PostgreSQL would run a statement."""

from __future__ import annotations

from collections.abc import Iterable

from django.db import connection


def assert_indexed(statements: Iterable[str]) -> None:
    """Fail where a statement can only be served by reading a whole table.

    Without sequential scans, which the planner then only takes where nothing else would do.
    """
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        for sql in statements:
            cursor.execute(f"EXPLAIN {sql}")
            plan = "\n".join(line for (line,) in cursor.fetchall())
            assert "Seq Scan" not in plan, f"{sql}\n{plan}"
