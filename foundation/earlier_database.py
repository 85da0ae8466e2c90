"""`migrate` refuses a database that unreleased code made. Until the first release each app has one migration, which
changes in place. This module goes with the first release."""

from pathlib import Path
from typing import Any

from django.apps import AppConfig, apps
from django.conf import settings
from django.core.management.base import CommandError
from django.db import connections
from django.db.migrations.recorder import MigrationRecorder
from django.db.models.signals import pre_migrate
from django.dispatch import receiver

COLUMNS = "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = current_schema()"


@receiver(pre_migrate, sender=apps.get_app_config("foundation"))  # once at the beginning of each `migrate`
def _refuse(sender: AppConfig, using: str, **_: Any) -> None:
    """Raise CommandError if a table of an app that counts as migrated lacks a column of its model."""
    migrated = {app for app, _ in MigrationRecorder(connections[using]).applied_migrations()}
    with connections[using].cursor() as cursor:
        cursor.execute(COLUMNS)
        found = set(cursor.fetchall())
    needed = {
        (model._meta.db_table, field.column)
        for config in apps.get_app_configs()
        if config.label in migrated and Path(config.path).parent == settings.BASE_DIR
        for model in config.get_models()
        for field in model._meta.local_concrete_fields
    }
    if missing := sorted(needed - found):
        table, column = missing[0]
        raise CommandError(
            f"This database was made by code from before the first release ({table}.{column} is missing in it), and "
            "nothing reads it. Start with an empty one: after `make run`, delete the folder var/ (or DATA_DIR); "
            "elsewhere, name a new database in DATABASE_URL."
        )
