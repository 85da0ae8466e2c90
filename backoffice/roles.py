"""The roles that come with the service, as Django groups, and the permissions of each.

The groups are rewritten after each `migrate`; nobody edits them. A superuser gives an account its roles.
"""

from typing import Any

from django.apps import apps as all_apps
from django.apps.registry import Apps
from django.contrib.auth.models import Group, Permission
from django.db import transaction
from django.db.models import Value
from django.db.models.functions import Concat
from django.db.models.signals import post_migrate
from django.dispatch import receiver

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
    """Set the permissions of the roles' groups. One that does not exist yet, because the database is only partly
    migrated, is left out."""
    full_name = Concat("content_type__app_label", Value("."), "codename")
    permissions = Permission.objects.annotate(full_name=full_name).order_by()
    with transaction.atomic():
        for role, names in ROLES.items():
            group, _ = Group.objects.get_or_create(name=role)
            group.permissions.set(permissions.filter(full_name__in=names))
