from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError
from typing import Any

from partners.management.base import JSONCommand, get_row
from partners.models import Partner

#: The largest value of the limits' columns.
MOST = 2**31 - 1


def _limit(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text[:12]) <= MOST):
        raise ArgumentTypeError("informe um número inteiro; 0: sem limite")
    return int(text)


class Command(JSONCommand):
    help = "Define os limites de um parceiro, que valem a partir da próxima chamada. Os que não são dados ficam."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("partner_id", metavar="PARTNER_ID")
        parser.add_argument("--per-minute", type=_limit, metavar="N", help="chamadas por minuto (0: sem limite)")
        parser.add_argument("--in-flight", type=_limit, metavar="N", help="consultas simultâneas (0: sem limite)")
        parser.add_argument("--cpfs-per-day", type=_limit, metavar="N", help="CPFs distintos por dia (0: sem limite)")

    def act(
        self,
        *,
        partner_id: str,
        per_minute: int | None,
        in_flight: int | None,
        cpfs_per_day: int | None,
        **options: Any,
    ) -> dict[str, Any]:
        """Returns `{partner_id, per_minute, in_flight, cpfs_per_day}`. Null means no limit."""
        partner = get_row(Partner, partner_id)
        limits = {"rate_limit": per_minute, "in_flight_limit": in_flight, "daily_cpf_limit": cpfs_per_day}
        changed = {field: limit or None for field, limit in limits.items() if limit is not None}
        for field, limit in changed.items():
            setattr(partner, field, limit)
        if changed:
            partner.save(update_fields=[*changed])
        return {
            "partner_id": partner.pk,
            "per_minute": partner.rate_limit,
            "in_flight": partner.in_flight_limit,
            "cpfs_per_day": partner.daily_cpf_limit,
        }
