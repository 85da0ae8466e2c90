"""What the migrations of this app do to existing rows."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.contrib.contenttypes.models import ContentType
from django.core.management.sql import emit_post_migrate_signal
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

BEFORE = ("consultas", "0005_auction_lookups_unused")


@pytest.fixture
def permissions_made_anew(transactional_db: None) -> Iterator[None]:
    """Restores the permissions and roles that `migrate` makes, because emptying the tables keeps them for other
    tests."""
    yield
    ContentType.objects.all().delete()
    ContentType.objects.clear_cache()
    emit_post_migrate_signal(verbosity=0, interactive=False, db="default")


def test_permissions_of_steps_survive_their_new_name(permissions_made_anew: None) -> None:
    MigrationExecutor(connection).migrate([BEFORE])
    try:
        kind, _ = ContentType.objects.get_or_create(app_label="consultas", model="pending")
        Permission.objects.filter(codename__endswith="_step").delete()
        old = {
            action: Permission.objects.get_or_create(content_type=kind, codename=f"{action}_pending")[0]
            for action in ("view", "change")
        }
        user, group = User.objects.create(username="ana"), Group.objects.create(name="mesa")
        user.user_permissions.add(old["view"])
        group.permissions.add(old["change"])
    finally:
        executor = MigrationExecutor(connection)
        executor.migrate(executor.loader.graph.leaf_nodes())  # also the later migrations, because other tests need them
    found = User.objects.get(pk=user.pk)
    assert found.has_perm("consultas.view_step")
    assert found.has_perm("consultas.view_pending"), "processes of the release before still ask for it"
    assert not found.has_perm("consultas.change_step")
    assert group.permissions.filter(codename="change_step").exists()
    assert "consultas_pending" in connection.introspection.table_names()
