import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from authorizations import chain, seal


class Command(BaseCommand):
    """Prints `{valid, checked, head, problems, public_key}`. Exits with 1 if anything is wrong."""

    help = "Confere toda a cadeia de evidências: registros, elos, assinaturas e sessões."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--head", action="append", default=[], help="um fim da cadeia guardado antes; repetível")
        parser.add_argument("--uses", type=int, default=0, help="o número de usos guardado antes")

    def handle(self, *args: Any, **options: Any) -> None:
        result = chain.verify(seal.trusted_keys())
        result["problems"] += [
            f"o fim guardado {head} não está na cadeia" for head in options["head"] if not chain.has_link(head)
        ]
        if result["uses"] < options["uses"]:
            result["problems"].append(f"havia {options['uses']} usos")
        result["valid"] = not result["problems"]
        self.stdout.write(json.dumps({**result, "public_key": seal.public_key()}, ensure_ascii=False))
        if not result["valid"]:
            raise CommandError("A cadeia de evidências não confere.")
