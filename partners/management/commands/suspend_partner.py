from typing import Any

from partners.management.base import RowCommand
from partners.models import Partner

_HOLD = "também não entrega webhooks: os eventos esperam até resume_partner"


class Command(RowCommand):
    help = "Suspende um parceiro; as chamadas são recusadas a partir da próxima."
    arguments = {"--hold-deliveries": {"action": "store_true", "help": _HOLD}}

    def act_on(self, partner: Partner, *, hold_deliveries: bool, **options: Any) -> dict[str, Any]:
        """`{partner_id, status}`, and with `--hold-deliveries` `deliveries_held`."""
        partner.suspend(hold_deliveries=hold_deliveries)
        result = {"partner_id": partner.pk, "status": partner.status}
        return {**result, "deliveries_held": True} if partner.deliveries_held else result
