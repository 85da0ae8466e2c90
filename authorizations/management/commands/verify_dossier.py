import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from authorizations import dossier, seal


class Command(BaseCommand):
    """Prints `{valid, authorization_id, number, exported_at, exported_by, problems}`. Exits with 1 if anything is
    wrong. Works offline, without database and network."""

    help = "Confere um dossiê de evidência, sem banco de dados nem rede."
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", metavar="FILE", type=Path)
        parser.add_argument(
            "--public-key",
            action="append",
            metavar="HEX",
            help="Chave pública em que confiar (pode repetir); sem ela, as desta instalação.",
        )

    def handle(self, *args: Any, file: Path, public_key: list[str] | None, **options: Any) -> None:
        try:
            archive = file.read_bytes()
        except OSError as error:
            raise CommandError(f"Não foi possível ler o arquivo: {error.strerror}.") from None
        keys = frozenset(public_key) if public_key else seal.trusted_keys()
        problems, manifest = dossier.verify(archive, keys)
        result = {
            "valid": not problems,
            "authorization_id": manifest.get("authorization_id"),
            "number": manifest.get("link", {}).get("number"),
            "exported_at": manifest.get("exported_at"),
            "exported_by": manifest.get("exported_by"),
            "problems": problems,
        }
        self.stdout.write(json.dumps(result, ensure_ascii=False))
        if problems:
            raise CommandError("O dossiê não confere.")
