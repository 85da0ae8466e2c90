"""The roles that come with the service, as Django groups, and the permissions of each.

The groups are rewritten after each `migrate`; nobody edits them. A superuser gives an account its roles.
"""

from typing import Any

import structlog
from django.apps import apps as all_apps
from django.apps.registry import Apps
from django.contrib.auth.models import Group, Permission
from django.db import transaction
from django.db.models.signals import post_migrate
from django.dispatch import receiver

log = structlog.get_logger(__name__)

#: Every role may view these, with CPFs masked.
_READ = (
    "partners.view_partner",
    "partners.view_allowance",
    "partners.view_apikey",
    "partners.view_failedcall",
    "webhooks.view_event",
    "webhooks.view_attempt",
    "authorizations.view_session",
    "authorizations.view_terms",
    "consultas.view_query",
    "consultas.view_offer",
    "consultas.view_step",
    "proposals.view_proposal",
    "proposals.view_move",
    "proposals.view_bankcall",
    "proposals.view_erasure",
    "proposals.view_erasurerequest",
    "providers.view_provider",
    "figures.view_bankhour",
    "providers.view_maintenance",
)
#: The permissions of each role as `app.codename`, by group name.
ROLES: dict[str, tuple[str, ...]] = {
    "Papel: suporte": _READ,
    "Papel: operação": (
        *_READ,
        "partners.add_partner",
        "partners.change_partner",
        "partners.add_allowance",
        "partners.change_allowance",
        "partners.delete_allowance",
        "partners.add_apikey",
        "partners.change_apikey",
        "webhooks.change_event",
        "foundation.export_lists",
        "authorizations.add_terms",
        "authorizations.change_terms",
        "authorizations.revoke_authorization",
        "consultas.change_step",
        "proposals.change_proposal",
        "providers.change_provider",
        "providers.add_maintenance",
        "providers.change_maintenance",
        "providers.delete_maintenance",
    ),
    "Papel: contas de bancos": (
        *_READ,
        "providers.add_provider",
        "providers.change_provider",
        "providers.change_account",
    ),
    "Papel: auditoria": (
        *_READ,
        "authorizations.view_evidence",
        "authorizations.export_evidence",
        "authorizations.view_evidenceuse",
        "foundation.export_lists",
        "foundation.view_auditentry",
        "auth.view_user",
    ),
    "Papel: segurança": (
        *_READ,
        "partners.change_apikey",
        "authorizations.revoke_authorization",
        "proposals.erase_holder",
        "foundation.view_auditentry",
        "auth.view_user",
        "auth.add_user",
        "auth.change_user",
    ),
}


@receiver(post_migrate, sender=all_apps.get_app_config("figures"))
def _after_migrate(apps: Apps = all_apps, **_: Any) -> None:
    """Write the roles after the last app is migrated, when all permissions exist. Django sends the migrated `apps`, and
    `flush` none."""
    if "group" in apps.all_models["auth"]:
        write()


def write() -> None:
    """Set the permissions of the roles' groups.

    A permission that does not exist yet (the database is only partly migrated) is left out and logged.
    """
    needed = {name for names in ROLES.values() for name in names}
    permissions = Permission.objects.filter(codename__in={name.partition(".")[2] for name in needed})
    by_name = {
        f"{app}.{codename}": pk
        for pk, app, codename in permissions.values_list("pk", "content_type__app_label", "codename")
    }
    if missing := needed - by_name.keys():
        log.warning("role_permissions_missing", missing=sorted(missing))
    with transaction.atomic():
        for role, names in ROLES.items():
            group, _ = Group.objects.get_or_create(name=role)
            group.permissions.set([by_name[name] for name in names if name in by_name])
