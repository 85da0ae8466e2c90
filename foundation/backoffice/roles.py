"""The roles that come with the service, as Django groups. `backoffice/roles.py` lists the permissions of each role.

The groups are rewritten after each `migrate`, when all permissions exist, so that they always match the release. Nobody
edits them.
"""

from typing import Any

import structlog
from django.apps import AppConfig
from django.apps import apps as all_apps
from django.apps.registry import Apps
from django.conf import settings
from django.contrib.auth.models import Group, Permission
from django.db import transaction
from django.db.models.signals import post_migrate
from django.dispatch import receiver

log = structlog.get_logger(__name__)


@receiver(post_migrate)
def _after_migrate(app_config: AppConfig, apps: Apps = all_apps, **_: Any) -> None:
    """Write the roles after the last app is migrated, when all permissions exist. Django sends the signal once per app,
    with the migrated `apps`. `flush` sends the signal without `apps`."""
    is_last = app_config == list(all_apps.get_app_configs())[-1]
    if is_last and "group" in apps.all_models["auth"]:
        write()


def write() -> None:
    """Set the permissions of the roles' groups to those of `backoffice/roles.py`.

    A permission that does not exist yet (the database is only partly migrated) is left out and logged.
    """
    needed = {name for names in settings.BACKOFFICE_ROLES.values() for name in names}
    permissions = Permission.objects.filter(codename__in={name.partition(".")[2] for name in needed})
    by_name = {
        f"{app}.{codename}": pk
        for pk, app, codename in permissions.values_list("pk", "content_type__app_label", "codename")
    }
    if missing := needed - by_name.keys():
        log.warning("role_permissions_missing", missing=sorted(missing))
    with transaction.atomic():
        for role, names in settings.BACKOFFICE_ROLES.items():
            group, _ = Group.objects.get_or_create(name=role)
            group.permissions.set([by_name[name] for name in names if name in by_name])
