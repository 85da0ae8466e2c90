from typing import Any

from partners import registration
from partners.management.base import RowCommand
from partners.models import Partner
from partners.registration import WEBHOOK
from partners.validators import split_names

_ROTATE = "emite um segredo novo; o anterior vale por mais 24 h"


class Command(RowCommand):
    help = "Define a URL do webhook de um parceiro (vazia: nenhum envio) e, a pedido, troca o segredo."
    arguments = {
        "--url": {"metavar": "URL"},
        "--events": {"type": split_names, "metavar": "a,b", "help": "eventos"},
        "--rotate-secret": {"action": "store_true", "help": _ROTATE},
    }

    def act_on(self, partner: Partner, *, rotate_secret: bool, **options: Any) -> dict[str, Any]:
        """Returns `{webhook_url, webhook_events, webhook_secret}`. The secret is null unless it was rotated."""
        given = {name: options[option] for name, option in WEBHOOK.items() if options[option] is not None}
        registration.change(partner, given)
        told = {name: getattr(partner, name) for name in WEBHOOK}
        return {**told, "webhook_secret": partner.rotate_webhook_secret() if rotate_secret else None}
