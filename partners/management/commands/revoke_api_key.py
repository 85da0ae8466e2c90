from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from partners.management.base import JSONCommand, get_row
from partners.models import ApiKey


class Command(JSONCommand):
    help = "Revoga uma chave de API; vale já na próxima chamada."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("key_id", metavar="KEY_ID")

    def act(self, *, key_id: str, **options: Any) -> dict[str, Any]:
        """Returns `{key_id, revoked_at}`. For a key that is already revoked, the time of the first revocation."""
        key = get_row(ApiKey, key_id)
        key.revoke()
        return {"key_id": key.pk, "revoked_at": key.revoked_at}
