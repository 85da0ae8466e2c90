from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from partners.management.base import JSONCommand, get_row
from partners.models import Partner

_ON = {"on": True, "off": False}


class Command(JSONCommand):
    help = "Define de onde vale o aceite do titular nas sessões de um parceiro; vale já no próximo aceite."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("partner_id", metavar="PARTNER_ID")
        parser.add_argument("--json", choices=_ON, help="o aceite em JSON vale também em produção")
        parser.add_argument("--sms-code", choices=_ON, help="o titular só autoriza com um código enviado por SMS")

    def act(self, *, partner_id: str, json: str | None, sms_code: str | None, **options: Any) -> dict[str, Any]:
        """Returns `{partner_id, json_acceptance, sms_code}`. Options that are not given stay unchanged."""
        partner = get_row(Partner, partner_id)
        if json is not None:
            partner.json_acceptance = _ON[json]
        if sms_code is not None:
            partner.sms_code = _ON[sms_code]
        partner.full_clean()
        partner.save(update_fields=["json_acceptance", "sms_code"])
        return {
            "partner_id": partner.pk,
            "json_acceptance": partner.json_acceptance,
            "sms_code": partner.sms_code,
        }
