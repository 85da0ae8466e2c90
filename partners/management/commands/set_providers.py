from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from partners.management.base import JSONCommand, bank_names, get_row
from partners.models import Partner


class Command(JSONCommand):
    help = "Substitui os bancos do contrato de um parceiro; vale já na próxima chamada."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("partner_id", metavar="PARTNER_ID")
        parser.add_argument("--providers", required=True, metavar="a,b", help="bancos do contrato")

    def act(self, *, partner_id: str, providers: str, **options: Any) -> dict[str, Any]:
        """`{partner_id, providers}`, the banks sorted by name."""
        partner = get_row(Partner, partner_id)
        partner.allow_only(bank_names(providers))
        return {"partner_id": partner.pk, "providers": [bank.name for bank in partner.allowed_banks()]}
