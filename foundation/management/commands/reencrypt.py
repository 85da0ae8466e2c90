import json
from typing import Any

from django.core.management.base import CommandError

from foundation import rotation
from foundation.commands import AuditedCommand


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
        for field in rotation.encrypted_fields():
            name, count = str(field), rotation.reencrypt(field)
            self.stderr.write(f"{name}: {count['rewritten']} regravados")
            columns[name] = count
            if not rotation.may_change(field):
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
