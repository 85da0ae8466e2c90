from typing import Any

from partners.management.base import RowCommand
from partners.models import Partner


class Command(RowCommand):
    help = "Reativa um parceiro; as chamadas voltam a ser aceitas."

    def act_on(self, partner: Partner, **options: Any) -> dict[str, Any]:
        """`{partner_id, status}`."""
        partner.resume()
        return {"partner_id": partner.pk, "status": partner.status}
