from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from partners.management.base import JSONCommand, get_row
from partners.models import Partner

_ON = {"on": True, "off": False}


class Command(JSONCommand):
    help = "Define o que a página do titular diz do parceiro e de onde vale o aceite; vale já no próximo aceite."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("partner_id", metavar="PARTNER_ID")
        parser.add_argument("--json", choices=_ON, help="o aceite em JSON vale também em produção")
        parser.add_argument("--sms-code", choices=_ON, help="o titular só autoriza com um código enviado por SMS")
        parser.add_argument("--dossier", choices=_ON, help="o parceiro exporta dossiês pela API")
        parser.add_argument("--cnpj", help="CNPJ, sem máscara")
        parser.add_argument("--privacy-contact", metavar="TEXT", help="a quem o titular escreve sobre os seus dados")

    def act(self, *, partner_id: str, **options: Any) -> dict[str, Any]:
        """Returns `{partner_id, json_acceptance, sms_code, dossier_by_api, cnpj, privacy_contact}`. Options that are
        not given stay unchanged."""
        partner = get_row(Partner, partner_id)
        switches = {"json_acceptance": "json", "sms_code": "sms_code", "dossier_by_api": "dossier"}
        chosen = {name: _ON.get(options[option] or "") for name, option in switches.items()}
        chosen |= {name: options[name] for name in ("cnpj", "privacy_contact")}
        for name, value in chosen.items():
            if value is not None:
                setattr(partner, name, value)
        partner.full_clean()
        partner.save(update_fields=[*chosen])
        return {"partner_id": partner.pk, **{name: getattr(partner, name) for name in chosen}}
