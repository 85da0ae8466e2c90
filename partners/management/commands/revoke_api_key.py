from typing import Any

from partners.management.base import RowCommand
from partners.models import ApiKey


class Command(RowCommand):
    help = "Revoga uma chave de API; vale já na próxima chamada."
    model, named_by = ApiKey, "key_id"

    def act_on(self, key: ApiKey, **options: Any) -> dict[str, Any]:
        """Returns `{key_id, revoked_at}`. For a key that is already revoked, the time of the first revocation."""
        key.revoke()
        return {"key_id": key.pk, "revoked_at": key.revoked_at}
