"""The check of a pooled connection, which asks the server only if there is something to read; the wait for
PostgreSQL; and the times that it tells."""

import select
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from django.db import DataError, connection

from foundation.postgresql import base
from foundation.postgresql.base import PatientConnection, check_if_readable


class Counting(psycopg.Connection[Any]):
    """Counts the statements that it executes."""

    executed = 0

    def execute(self, *args: Any, **kwargs: Any) -> Any:
        self.executed += 1
        return super().execute(*args, **kwargs)


def parameters() -> dict[str, Any]:
    return {**connection.get_connection_params(), "autocommit": True}


@pytest.fixture
def pooled(db: None) -> Iterator[Counting]:
    with Counting.connect(**parameters()) as found:
        yield found


@pytest.fixture
def patient(db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[PatientConnection]:
    monkeypatch.setattr(base, "is_module_patched", lambda _: True)  # as in web processes and workers
    with PatientConnection.connect(**parameters()) as found:
        yield found


def end(found: psycopg.Connection[Any]) -> None:
    """Have the server end this connection."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s, 5000)", [found.info.backend_pid])


def test_a_quiet_connection_costs_no_statement(pooled: Counting) -> None:
    check_if_readable(pooled)
    assert pooled.executed == 0


def test_a_connection_that_the_server_ended_is_found(pooled: Counting) -> None:
    end(pooled)
    with pytest.raises(psycopg.OperationalError):
        check_if_readable(pooled)


def test_a_notice_is_read_and_the_connection_kept(pooled: Counting) -> None:
    told: list[psycopg.Notify] = []
    pooled.add_notify_handler(told.append)
    pooled.execute("LISTEN something")
    with psycopg.connect(**parameters()) as other:
        other.execute("NOTIFY something")
    # The server sends the notice some time later.
    assert select.select([pooled], [], [], 5)[0]
    check_if_readable(pooled)
    assert len(told) == 1
    assert pooled.execute("SELECT 1").fetchone() is not None


def test_one_request_outlives_the_end_of_all_idle_connections(transactional_db: None) -> None:
    """Before the fix, the pool paused longer after each dead connection, and the request waited in vain for 10 s."""
    idle = 6
    # The pool belongs to the alias.
    own = base.DatabaseWrapper(
        {
            **connection.settings_dict,
            "CONN_HEALTH_CHECKS": True,
            "OPTIONS": {"pool": {"min_size": idle, "max_size": idle, "timeout": 10}},
        },
        alias="pooled",
    )
    assert own.pool is not None
    try:
        own.pool.open(wait=True)
        with connection.cursor() as cursor:
            end = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE pid = ANY(%s)"
            cursor.execute(end, [[each.info.backend_pid for each in own.pool._pool]])
            assert cursor.fetchall() == [(True,)] * idle
        with own.cursor() as cursor:
            cursor.execute("SELECT 1")
            assert cursor.fetchone() == (1,)
    finally:
        own.close()
        own.close_pool()


def test_a_greenlet_waits_for_answers_and_errors(patient: PatientConnection) -> None:
    large = "a" * 2_000_000  # more than one read and one write can transfer
    assert patient.execute("SELECT %s::text", [large]).fetchone() == (large,)
    with pytest.raises(psycopg.errors.DivisionByZero):
        patient.execute("SELECT 1 / 0")
    with patient.transaction():
        assert patient.execute("SELECT 1").fetchone() == (1,)
    end(patient)
    with pytest.raises(psycopg.OperationalError):
        patient.execute("SELECT 1")


def test_times_are_read_in_utc(db: None) -> None:
    moments = {
        "2026-11-25 21:30:00.5-03": datetime(2026, 11, 26, 0, 30, 0, 500_000, tzinfo=UTC),
        "1900-01-01 00:00:00+00": datetime(1900, 1, 1, tzinfo=UTC),
    }
    with connection.cursor() as cursor:
        cursor.execute("SELECT unnest(%s::timestamptz[])", [list(moments)])
        found = [each for (each,) in cursor.fetchall()]
    assert found == list(moments.values())
    assert {each.tzinfo for each in found} == {UTC}
    for unfit in ("infinity", "10000-01-01 00:00:00+00"):
        with connection.cursor() as cursor:
            cursor.execute("SELECT %s::timestamptz", [unfit])
            with pytest.raises(DataError):
                cursor.fetchone()
