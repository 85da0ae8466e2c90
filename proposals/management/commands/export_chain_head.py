from typing import Any

import msgspec
from django.core.management.base import BaseCommand

from proposals import retention


class Command(BaseCommand):
    """Prints `{at, evidences, head, uses, erasures}`, for `replay_erasures`."""

    help = "Mostra o fim da cadeia de evidências e as exclusões feitas, para serem guardados em outro lugar."

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write(msgspec.json.encode(retention.export()).decode())
