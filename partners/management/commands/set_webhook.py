from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from partners.management.base import JSONCommand, get_row
from partners.models import Partner


class Command(JSONCommand):
    help = "Define a URL do webhook de um parceiro (vazia: nenhum envio) e, a pedido, troca o segredo."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("partner_id", metavar="PARTNER_ID")
        parser.add_argument("--url", required=True, metavar="URL")
        parser.add_argument(
            "--rotate-secret",
            action="store_true",
            help="emite um segredo novo; o anterior vale por mais 24 h",
        )

    def act(self, *, partner_id: str, url: str, rotate_secret: bool, **options: Any) -> dict[str, Any]:
        """Returns `{webhook_url, webhook_secret}`. The secret is null unless it was rotated."""
        partner = get_row(Partner, partner_id)
        partner.webhook_url = url
        partner.full_clean()
        partner.save(update_fields=["webhook_url"])
        secret = partner.rotate_webhook_secret() if rotate_secret else None
        return {"webhook_url": partner.webhook_url, "webhook_secret": secret}
