"""A new version's migrations run while the previous version still serves: they only add, and hold no lock for long."""

from collections.abc import Iterator

import pytest
from django.apps import apps
from django.contrib.postgres.operations import AddIndexConcurrently, RemoveIndexConcurrently
from django.core.management import CommandError, call_command
from django.db import connection, migrations
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations.base import Operation
from django.db.models import NOT_PROVIDED

APPS = ("foundation", "providers", "partners", "webhooks", "authorizations", "consultas", "proposals", "figures")
#: Operations that break the previous version's code, and indexes that lock their table.
BREAKING = (
    migrations.RemoveField,
    migrations.DeleteModel,
    migrations.RenameField,
    migrations.RenameModel,
    migrations.AlterModelTable,
    migrations.AddConstraint,
)


def faults(migration: migrations.Migration) -> Iterator[str]:
    """The operations of `migration` that break the rule, by the names of their kinds."""
    new = {op.name_lower for op in migration.operations if isinstance(op, migrations.CreateModel)}
    for op in migration.operations:
        if getattr(op, "model_name_lower", getattr(op, "name_lower", "")) not in new and _breaks(op):
            yield type(op).__name__
        if isinstance(op, AddIndexConcurrently) and migration.atomic:
            yield "atomic"


def _breaks(op: Operation) -> bool:
    if isinstance(op, AddIndexConcurrently | RemoveIndexConcurrently):
        return False
    if isinstance(op, migrations.AddField):
        # Old code names no value for the column.
        return not op.field.null and op.field.db_default is NOT_PROVIDED
    if isinstance(op, migrations.SeparateDatabaseAndState):
        return any(map(_breaks, op.database_operations))
    return isinstance(op, (*BREAKING, migrations.AddIndex, migrations.RemoveIndex))


def test_migrations_expand_and_lock_no_table() -> None:
    """Before the fix, `partners/0002` dropped columns that running code read, and indexes were built with locks."""
    loader = MigrationLoader(None)
    found = {
        key: told
        for key, migration in loader.disk_migrations.items()
        if key[0] in APPS and key[1] != "0001_initial" and (told := set(faults(migration)))
    }
    assert found == {}
    assert set(APPS) <= {app.label for app in apps.get_app_configs()}


@pytest.mark.parametrize(
    ("operation", "fault"),
    [
        (migrations.RemoveField("partner", "name"), ["RemoveField"]),
        (migrations.RenameField("partner", "name", "title"), ["RenameField"]),
        (migrations.DeleteModel("Partner"), ["DeleteModel"]),
        (migrations.RenameModel("Partner", "Client"), ["RenameModel"]),
        (migrations.AlterModelTable("partner", "clients"), ["AlterModelTable"]),
        (migrations.SeparateDatabaseAndState(state_operations=[migrations.DeleteModel("Partner")]), []),
        (migrations.SeparateDatabaseAndState([migrations.DeleteModel("Partner")]), ["SeparateDatabaseAndState"]),
    ],
)
def test_the_rule_sees(operation: Operation, fault: list[str]) -> None:
    migration = migrations.Migration("0002_x", "partners")
    migration.operations = [operation]
    assert list(faults(migration)) == fault


@pytest.mark.django_db
@pytest.mark.parametrize(
    "earlier",
    ["ALTER TABLE consultas_step RENAME TO consultas_pending", "ALTER TABLE partners_partner DROP COLUMN rate_limit"],
)
def test_a_database_of_unreleased_code_is_refused(earlier: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(earlier)
    with pytest.raises(CommandError, match=r"before the first release \((consultas_step|partners_partner\.rate_limit)"):
        call_command("migrate", verbosity=0)


@pytest.mark.django_db
def test_the_newest_database_is_taken() -> None:
    call_command("migrate", verbosity=0)
