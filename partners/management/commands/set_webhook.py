from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from partners import registration
from partners.management.base import JSONCommand, event_names, get_row
from partners.models import Partner


class Command(JSONCommand):
    help = "Define a URL do webhook de um parceiro (vazia: nenhum envio) e, a pedido, troca o segredo."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("partner_id", metavar="PARTNER_ID")
        parser.add_argument("--url", metavar="URL")
        parser.add_argument("--events", metavar="EVENTS", help="nomes separados por vírgulas; vazio: nenhum")
        parser.add_argument(
            "--rotate-secret",
            action="store_true",
            help="emite um segredo novo; o anterior vale por mais 24 h",
        )

    def act(
        self, *, partner_id: str, url: str | None, events: str | None, rotate_secret: bool, **options: Any
    ) -> dict[str, Any]:
        """Returns `{webhook_url, webhook_events, webhook_secret}`. URL and events that are not given stay unchanged.
        The secret is null unless it was rotated."""
        partner = get_row(Partner, partner_id)
        names = None if events is None else event_names(events)
        secret = registration.set_webhook(partner, url=url, events=names, rotate_secret=rotate_secret)
        return {
            "webhook_url": partner.webhook_url,
            "webhook_events": partner.webhook_events,
            "webhook_secret": secret,
        }
