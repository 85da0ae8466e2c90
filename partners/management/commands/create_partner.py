from typing import Any

from partners.management.base import CONTRACT, JSONCommand, bank_names
from partners.models import ApiKey, Partner, WebhookEvent, default_webhook_events
from partners.validators import split_names

_EVENTS = f"eventos do webhook, entre {', '.join(WebhookEvent.values)} (padrão: %(default)s)"


class Command(JSONCommand):
    help = "Cadastra um parceiro e mostra, esta única vez, a chave de API e o segredo do webhook."
    arguments = {
        "name": {"metavar": "NAME", "help": "nome do parceiro"},
        **CONTRACT,
        "--webhook-url": {"default": "", "metavar": "URL"},
        "--events": {"default": ",".join(default_webhook_events()), "metavar": "a,b", "help": _EVENTS},
    }

    def act(self, *, name: str, providers: str, webhook_url: str, events: str, **options: Any) -> dict[str, Any]:
        """Returns `{partner_id, key_id, api_key, webhook_secret}`. The secret is created even without a URL."""
        banks = bank_names(providers)
        partner = Partner(name=name.strip(), webhook_url=webhook_url, webhook_events=split_names(events))
        partner.full_clean()
        partner.save()
        partner.allow_only(banks)
        key, secret = ApiKey.issue(partner)
        self.concerns(partner, is_new=True)
        self.concerns(key, is_new=True)
        issued = {"partner_id": partner.pk, "key_id": key.pk, "api_key": secret}
        return {**issued, "webhook_secret": partner.rotate_webhook_secret()}
