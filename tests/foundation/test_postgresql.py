"""PostgreSQL: the check of a pooled connection, the wait for answers, times; and the role of the service's programs."""

import os
import select
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.db import DataError, connection

from config.local.servers import APPLICATION_ROLE
from foundation.postgresql import base
from foundation.postgresql.base import DatabaseWrapper, PatientConnection, check_if_readable
from tests.plans import execute
from tests.processes import Programs


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


def pool_of(size: int, name: str, **changes: Any) -> DatabaseWrapper:
    """A database with a pool of this size, which belongs to the name."""
    pool = {"min_size": size, "max_size": size, "timeout": 10}
    return DatabaseWrapper({**connection.settings_dict, **changes, "OPTIONS": {"pool": pool}}, name)


def end(found: psycopg.Connection[Any]) -> None:
    """Have the server end this connection."""
    execute("SELECT pg_terminate_backend(%s, 5000)", [found.info.backend_pid])


def test_the_pool_replaces_a_connection_that_was_not_given_back(db: None) -> None:
    """Before the fix, a greenlet that ended with one made the pool smaller for ever: after eight of them every request
    was answered with 500."""
    owner = pool_of(1, "lost", CONN_MAX_AGE=0)  # the pool refers to it
    owner.ensure_connection()
    owner.close()
    pool_of(1, "lost", CONN_MAX_AGE=0).ensure_connection()
    owner.ensure_connection()
    owner.close()
    owner.close_pool()


def test_a_connection_that_the_server_ended_is_found_and_a_quiet_one_costs_no_statement(pooled: Counting) -> None:
    check_if_readable(pooled)
    assert pooled.executed == 0
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
    own = pool_of(idle, "pooled", CONN_HEALTH_CHECKS=True)
    assert own.pool is not None
    try:
        own.pool.open(wait=True)
        end = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE pid = ANY(%s)"
        assert execute(end, [[each.info.backend_pid for each in own.pool._pool]]) == [(True,)] * idle
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
    found = [each for (each,) in execute("SELECT unnest(%s::timestamptz[])", [list(moments)])]
    assert found == list(moments.values())
    assert {each.tzinfo for each in found} == {UTC}
    for unfit in ("infinity", "10000-01-01 00:00:00+00"):
        with pytest.raises(DataError):
            execute("SELECT %s::timestamptz", [unfit])


# --- The role that reads and writes rows, and can change nothing else -----------------------------------------------

ROLE, PASSWORD = "application_of_this_test", "a-password-of-this-test"


@pytest.fixture
def application(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[psycopg.Connection]:
    """A connection with the application's role."""
    monkeypatch.setenv("APPLICATION_DATABASE_PASSWORD", PASSWORD)
    call_command("grant_application_role", ROLE, verbosity=0)
    call_command("grant_application_role", ROLE, verbosity=0)
    server = urlsplit(os.environ["DATABASE_URL"])
    address = server._replace(
        netloc=f"{ROLE}:{PASSWORD}@{server.hostname}:{server.port}", path=f"/{connection.settings_dict['NAME']}"
    )
    try:
        with psycopg.connect(address.geturl(), autocommit=True) as made:
            yield made
    finally:
        execute(f"DROP OWNED BY {ROLE}")
        execute(f"DROP ROLE {ROLE}")


def test_it_reads_and_writes_rows(application: psycopg.Connection) -> None:
    application.execute("INSERT INTO auth_group (name) VALUES ('desk')")
    application.execute("UPDATE auth_group SET name = 'back' WHERE name = 'desk'")
    found = application.execute("SELECT name FROM auth_group WHERE name IN ('desk', 'back') FOR UPDATE").fetchall()
    assert found == [("back",)]
    assert application.execute("DELETE FROM auth_group WHERE name = 'back'").rowcount == 1


STATEMENTS = [
    "ALTER TABLE authorizations_evidence DISABLE TRIGGER USER",
    "TRUNCATE authorizations_evidence CASCADE",
    "DROP TABLE authorizations_evidence CASCADE",
    "CREATE TABLE mine (id int)",
    "CREATE TRIGGER mine BEFORE UPDATE ON auth_group FOR EACH ROW"
    " EXECUTE FUNCTION suppress_redundant_updates_trigger()",
    "SET session_replication_role = replica",
    "ALTER TABLE auth_group ADD COLUMN mine int",
    "DELETE FROM django_migrations",
    "CREATE ROLE mine",
    "COPY auth_group FROM PROGRAM 'true'",
    "ALTER SYSTEM SET log_statement = 'all'",
]


@pytest.mark.control("V13")
def test_it_changes_nothing_else(application: psycopg.Connection) -> None:
    """Before the fix, the service had a superuser's rights and could delete evidence with its triggers off."""
    for statement in STATEMENTS:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            application.execute(statement)


def test_tables_of_later_migrations_are_granted_too(application: psycopg.Connection) -> None:
    execute("CREATE TABLE later (id bigserial PRIMARY KEY)")
    try:
        application.execute("INSERT INTO later DEFAULT VALUES")
    finally:
        execute("DROP TABLE later")


def test_a_role_without_a_password_is_not_made(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("APPLICATION_DATABASE_PASSWORD", raising=False)
    with pytest.raises(CommandError, match="APPLICATION_DATABASE_PASSWORD"):
        call_command("grant_application_role", "nobody_yet")


def test_the_programs_of_these_tests_have_such_a_role(programs: Programs) -> None:
    """Before the fix, they had the owner's role, so an action that production's role may not do passed every test."""
    users = {urlsplit(process.environment["DATABASE_URL"]).username for process in programs.all}
    assert users == {APPLICATION_ROLE}
