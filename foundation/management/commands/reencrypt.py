import json
from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandError

from foundation import rotation
from foundation.commands import AuditedCommand
from foundation.rotation import Column, Count


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
        done = rotation.reencrypt(self._progress)
        sealed = {column: count for column, count in done.items() if not column.changes}
        result = {
            "columns": {str(column): asdict(count) for column, count in done.items()},
            "kept": [str(column) for column in sealed],
            "old_keys_needed": any(count.older or count.unreadable for count in done.values()),
        }
        self.stdout.write(json.dumps(result))
        for column, count in sealed.items():
            if count.older:
                self.stderr.write(
                    f"{column}: {count.older} registros não podem ser regravados, o banco de dados não permite. "
                    "Mantenha as chaves antigas em FIELD_ENCRYPTION_KEYS enquanto eles existirem."
                )
        if any(count.unreadable for count in done.values()):
            raise CommandError("Há valores que nenhuma chave de FIELD_ENCRYPTION_KEYS abre.")

    def _progress(self, column: Column, count: Count) -> None:
        self.stderr.write(f"{column}: {count.rewritten} regravados")
