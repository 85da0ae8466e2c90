from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from foundation import audit
from partners.management.base import JSONCommand, get_row
from partners.models import Allowance, Partner
from partners.validators import split_names


class Command(JSONCommand):
    help = "Define as carteiras que um parceiro pode pedir em um banco do contrato; vale já na próxima chamada."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("partner_id", metavar="PARTNER_ID")
        parser.add_argument("provider", metavar="PROVIDER", help="banco do contrato")
        parser.add_argument("--portfolios", required=True, metavar="a,b", help="carteiras (vazio: nenhuma)")

    def act(self, *, partner_id: str, provider: str, portfolios: str, **options: Any) -> dict[str, Any]:
        """Returns `{partner_id, provider, portfolio, portfolios}`. `portfolio` is the fixed one, or null."""
        partner = get_row(Partner, partner_id)
        allowance = Allowance.objects.filter(partner=partner, provider=provider).first()
        if allowance is None:
            raise CommandError(f"O contrato de {partner} não tem o banco {provider}.")
        audit.concerns(allowance)
        allowance.portfolios = split_names(portfolios)
        allowance.full_clean()
        allowance.save(update_fields=["portfolios"])
        return {
            "partner_id": partner.pk,
            "provider": provider,
            "portfolio": allowance.portfolio or None,
            "portfolios": allowance.portfolios,
        }
