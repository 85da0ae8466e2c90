from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError

from foundation import audit
from partners.management.base import RowCommand
from partners.models import Allowance, Partner
from partners.validators import split_names


class Command(RowCommand):
    help = "Define as carteiras que um parceiro pode pedir em um banco do contrato; vale já na próxima chamada."
    arguments = {
        "provider": {"metavar": "PROVIDER", "help": "banco do contrato"},
        "--portfolios": {"required": True, "metavar": "a,b", "help": "carteiras (vazio: nenhuma)"},
    }

    def act_on(self, partner: Partner, *, provider: str, portfolios: str, **options: Any) -> dict[str, Any]:
        """Returns `{partner_id, provider, portfolio, portfolios}`. `portfolio` is the fixed one, or null."""
        allowance = Allowance.objects.filter(partner=partner, provider=provider).first()
        if allowance is None:
            raise CommandError(f"O contrato de {partner} não tem o banco {provider}.")
        audit.concerns(allowance)
        allowance.portfolios = split_names(portfolios)
        allowance.full_clean()
        allowance.save(update_fields=["portfolios"])
        told = {"portfolio": allowance.portfolio or None, "portfolios": allowance.portfolios}
        return {"partner_id": partner.pk, "provider": provider, **told}
