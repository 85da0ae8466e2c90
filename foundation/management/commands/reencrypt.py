"""Re-encryption after a new key was put first in FIELD_ENCRYPTION_KEYS or BANK_CREDENTIALS_KEYS: values under older
keys are encrypted again.

The columns are found through the models' encrypted fields, so that no table can be forgotten. A model whose rows the
database protects from changes has `written_once = True`: its values are only counted and still need the older keys.
"""

import json
from collections import Counter
from typing import Any

from django.apps import apps
from django.core.management.base import CommandError
from django.db.models import F, QuerySet, TextField
from django.db.models.functions import Cast

from foundation.audit import AuditedCommand
from foundation.batches import pages
from foundation.encryption import EncryptedTextField, Sealed, WrongKey

BATCH = 200


def encrypted_fields() -> list[EncryptedTextField]:
    """Every encrypted field of the installed apps, sorted by its name, such as `consultas.Query.answers`."""
    models = [model for model in apps.get_models() if model._meta.managed and not model._meta.proxy]
    fields = (field for model in models for field in model._meta.local_concrete_fields)
    return sorted((field for field in fields if isinstance(field, EncryptedTextField)), key=str)


def may_change(field: EncryptedTextField) -> bool:
    """False if the database refuses any change of the field's rows."""
    return not getattr(field.model, "written_once", False)


def rows_of(field: EncryptedTextField) -> QuerySet[Any]:
    """The rows with a value in `field`, each with its stored `token`."""
    rows = field.model._base_manager.filter(**{f"{field.name}__isnull": False})
    identity = getattr(field.model, "sealed_by", ("pk",))
    return rows.only("pk", *identity).annotate(token=Cast(F(field.name), TextField()))


def reencrypt(field: EncryptedTextField) -> dict[str, int]:
    """Rewrite every value of `field` that is under an older key. Returns the number of values that were `current`
    already, were `rewritten`, are left under an `older` key, and are `unreadable` by any key.

    Each value is a transaction of its own, which changes nothing if the value changed meanwhile: then it is gone, or
    under the newest key. May be stopped and restarted at any time: values that are already rewritten are skipped.
    """
    counts = Counter(current=0, rewritten=0, older=0, unreadable=0)
    for page in pages(rows_of(field), "pk", BATCH):
        counts.update(_renew(field, row) for row in page)
    return counts


def _renew(field: EncryptedTextField, row: Any) -> str:
    """Rewrite the value of `row` if it is under an older key and the database permits it. Returns what it counts as."""
    try:
        token = field.renewed(row.token, row)
    except WrongKey:
        return "unreadable"
    if token is None:
        return "current"
    if not may_change(field):
        return "older"
    unchanged = field.model._base_manager.filter(**{"pk": row.pk, field.name: Sealed(row.token)})
    return "rewritten" if unchanged.update(**{field.name: Sealed(token)}) else "current"


class Command(AuditedCommand):
    """Prints `{columns: {name: {current, rewritten, older, unreadable}}, kept: [name], old_keys_needed}`: the number of
    values by column. `kept` names the columns that cannot be rewritten. Exits with 1 if no key opens some value.

    BLIND_INDEX_KEY plays no part: keyed hashes are not encrypted and stay the same.
    """

    help = (
        "Regrava com a primeira chave de FIELD_ENCRYPTION_KEYS o que as outras cifraram. Pode ser interrompido e "
        "repetido. BLIND_INDEX_KEY não é afetada."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        self.note(options)
        columns, kept = {}, []
        for field in encrypted_fields():
            name, count = str(field), reencrypt(field)
            self.stderr.write(f"{name}: {count['rewritten']} regravados")
            columns[name] = count
            if not may_change(field):
                kept.append(name)
        needed = any(count["older"] or count["unreadable"] for count in columns.values())
        self.stdout.write(json.dumps({"columns": columns, "kept": kept, "old_keys_needed": needed}))
        for name in kept:
            if older := columns[name]["older"]:
                self.stderr.write(
                    f"{name}: {older} registros não podem ser regravados, o banco de dados não permite. "
                    "Mantenha as chaves antigas em FIELD_ENCRYPTION_KEYS enquanto eles existirem."
                )
        if any(count["unreadable"] for count in columns.values()):
            raise CommandError("Há valores que nenhuma chave de FIELD_ENCRYPTION_KEYS abre.")
