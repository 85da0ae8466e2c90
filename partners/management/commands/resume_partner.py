from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from partners.management.base import JSONCommand, get_row
from partners.models import Partner


class Command(JSONCommand):
    help = "Reativa um parceiro; as chamadas voltam a ser aceitas."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("partner_id", metavar="PARTNER_ID")

    def act(self, *, partner_id: str, **options: Any) -> dict[str, Any]:
        """`{partner_id, status}`."""
        partner = get_row(Partner, partner_id)
        partner.resume()
        return {"partner_id": partner.pk, "status": partner.status}
