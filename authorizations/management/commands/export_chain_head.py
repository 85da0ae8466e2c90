from __future__ import annotations

import json
from typing import Any

from django.core.management.base import BaseCommand

from authorizations import watch


class Command(BaseCommand):
    """Prints `{at, evidences, head, uses}`."""

    help = "Mostra o fim da cadeia de evidências, para ser guardado em outro lugar."

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write(json.dumps(watch.head()))
