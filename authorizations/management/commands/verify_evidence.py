from __future__ import annotations

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from authorizations import chain, seal


class Command(BaseCommand):
    """Prints `{valid, checked, head, problems, public_key}`; exits with 1 when anything is wrong."""

    help = "Confere toda a cadeia de evidências: registros, elos, assinaturas e sessões."

    def handle(self, *args: Any, **options: Any) -> None:
        result = chain.verify(seal.trusted_keys())
        self.stdout.write(json.dumps({**result, "public_key": seal.public_key()}, ensure_ascii=False))
        if not result["valid"]:
            raise CommandError("A cadeia de evidências não confere.")
