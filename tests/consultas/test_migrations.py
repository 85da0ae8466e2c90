"""What the migrations of this app do to what is there."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.contrib.contenttypes.models import ContentType
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

BEFORE = ("consultas", "0005_auction_lookups_unused")


@pytest.mark.django_db(transaction=True)
def test_whoever_might_see_steps_by_their_old_name_may_by_the_new_one() -> None:
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
        executor.migrate(executor.loader.graph.leaf_nodes())  # the later ones too: other tests need them
    found = User.objects.get(pk=user.pk)
    assert found.has_perm("consultas.view_step")
    assert found.has_perm("consultas.view_pending"), "processes of the release before still ask for it"
    assert not found.has_perm("consultas.change_step")
    assert group.permissions.filter(codename="change_step").exists()
    assert "consultas_pending" in connection.introspection.table_names()
