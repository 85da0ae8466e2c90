"""The model `Pending` is named for what it is: a step that the holder owes a bank.

Its table keeps its name, so that processes of the release before go on working. Whoever may see or change steps by the
permissions of the old name may do so by those of the new one; the old permissions stay until a later release deletes
them (`auth_permission` with a codename that ends in `_pending`).
"""

from django.db import migrations

ACTIONS = ("add", "change", "delete", "view")


def carry_permissions_over(apps, schema_editor):
    permission = apps.get_model("auth", "Permission")
    for action in ACTIONS:
        old = permission.objects.filter(content_type__app_label="consultas", codename=f"{action}_pending").first()
        if old is None:
            continue
        name = f"Can {action} autorização externa"
        new, _ = permission.objects.get_or_create(
            content_type=old.content_type, codename=f"{action}_step", defaults={"name": name}
        )
        for group in old.group_set.all():
            group.permissions.add(new)
        for user in old.user_set.all():
            user.user_permissions.add(new)


class Migration(migrations.Migration):
    dependencies = [
        ("consultas", "0005_auction_lookups_unused"),
        ("auth", "0012_alter_user_first_name_max_length"),
        ("contenttypes", "0002_remove_content_type_name"),
    ]

    operations = [
        migrations.AlterModelTable(name="pending", table="consultas_pending"),
        migrations.RenameModel(old_name="Pending", new_name="Step"),
        migrations.RunPython(carry_permissions_over, migrations.RunPython.noop),
    ]
