from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from partners.management.base import JSONCommand, get_row
from partners.models import Partner


class Command(JSONCommand):
    help = "Suspende um parceiro; as chamadas são recusadas a partir da próxima."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("partner_id", metavar="PARTNER_ID")
        parser.add_argument(
            "--hold-deliveries",
            action="store_true",
            help="também não entrega webhooks: os eventos esperam até resume_partner",
        )

    def act(self, *, partner_id: str, hold_deliveries: bool, **options: Any) -> dict[str, Any]:
        """`{partner_id, status}`, and with `--hold-deliveries` `deliveries_held`."""
        partner = get_row(Partner, partner_id)
        partner.suspend(hold_deliveries=hold_deliveries)
        result = {"partner_id": partner.pk, "status": partner.status}
        return {**result, "deliveries_held": True} if partner.deliveries_held else result
