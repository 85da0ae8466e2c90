"""The role of the service's processes reads and writes rows, and can change nothing else in the database."""

import os
from collections.abc import Iterator
from urllib.parse import urlsplit

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from config.local.servers import APPLICATION_ROLE
from tests.processes import Programs

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
        with connection.cursor() as cursor:
            cursor.execute(f"DROP OWNED BY {ROLE}")
            cursor.execute(f"DROP ROLE {ROLE}")


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
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE later (id bigserial PRIMARY KEY)")
        try:
            application.execute("INSERT INTO later DEFAULT VALUES")
        finally:
            cursor.execute("DROP TABLE later")


def test_a_role_without_a_password_is_not_made(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("APPLICATION_DATABASE_PASSWORD", raising=False)
    with pytest.raises(CommandError, match="APPLICATION_DATABASE_PASSWORD"):
        call_command("grant_application_role", "nobody_yet")


def test_the_programs_of_these_tests_have_such_a_role(programs: Programs) -> None:
    """Before the fix, they had the owner's role, so an action that production's role may not do passed every test."""
    users = {urlsplit(process.environment["DATABASE_URL"]).username for process in programs.all}
    assert users == {APPLICATION_ROLE}
