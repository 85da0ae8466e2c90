from typing import Any

from partners import registration
from partners.management.base import SettingsCommand
from partners.models import Partner

_ROTATE = "emite um segredo novo; o anterior vale por mais 24 h"


class Command(SettingsCommand):
    help = "Define a URL do webhook de um parceiro (vazia: nenhum envio) e, a pedido, troca o segredo."
    group = registration.WEBHOOK
    arguments = {"--rotate-secret": {"action": "store_true", "help": _ROTATE}}

    def act_on(self, partner: Partner, **options: Any) -> dict[str, Any]:
        """Returns `{webhook_url, webhook_events, webhook_secret}`. The secret is null unless it was rotated."""
        told = super().act_on(partner, **options)
        return {**told, "webhook_secret": partner.rotate_webhook_secret() if options["rotate_secret"] else None}
