from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from foundation import audit
from partners.management.base import JSONCommand, bank_names, event_names
from partners.models import ApiKey, Partner, WebhookEvent, default_webhook_events


class Command(JSONCommand):
    help = "Cadastra um parceiro e mostra, esta única vez, a chave de API e o segredo do webhook."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", metavar="NAME", help="nome do parceiro")
        parser.add_argument("--providers", required=True, metavar="a,b", help="bancos do contrato")
        parser.add_argument("--webhook-url", default="", metavar="URL")
        parser.add_argument(
            "--events",
            default=",".join(default_webhook_events()),
            metavar="a,b",
            help=f"eventos do webhook, entre {', '.join(WebhookEvent.values)} (padrão: %(default)s)",
        )
        parser.add_argument(
            "--json-acceptance", action="store_true", help="o aceite do titular em JSON vale também em produção"
        )
        parser.add_argument(
            "--sms-code", action="store_true", help="o titular só autoriza com um código enviado por SMS"
        )

    def act(self, *, name: str, providers: str, events: str, **options: Any) -> dict[str, Any]:
        """Returns `{partner_id, key_id, api_key, webhook_secret}`. The secret is created even without a URL."""
        banks, chosen = bank_names(providers), event_names(events)
        partner = Partner(
            name=name.strip(),
            webhook_events=chosen,
            **{field: options[field] for field in ("webhook_url", "json_acceptance", "sms_code")},
        )
        partner.full_clean()
        partner.save()
        partner.allow_only(banks)
        key, secret = ApiKey.issue(partner)
        audit.concerns(partner, is_new=True)
        audit.concerns(key, is_new=True)
        return {
            "partner_id": partner.pk,
            "key_id": key.pk,
            "api_key": secret,
            "webhook_secret": partner.rotate_webhook_secret(),
        }
