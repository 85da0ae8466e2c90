from argparse import ArgumentTypeError
from typing import Any

from partners import registration
from partners.management.base import RowCommand
from partners.models import Partner
from partners.registration import LIMITS

#: The largest value of the limits' columns.
MOST = 2**31 - 1


def _limit(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text[:12]) <= MOST):
        raise ArgumentTypeError("informe um número inteiro; 0: sem limite")
    return int(text)


class Command(RowCommand):
    help = "Define os limites de um parceiro, que valem a partir da próxima chamada. Os que não são dados ficam."
    arguments = {
        f"--{option.replace('_', '-')}": {
            "type": _limit,
            "metavar": "N",
            "help": f"{getattr(Partner, name).field.verbose_name}; 0: sem limite",
        }
        for name, option in LIMITS.items()
    }

    def act_on(self, partner: Partner, **options: Any) -> dict[str, Any]:
        """Returns `{partner_id, per_minute, in_flight, cpfs_per_day}`. Null means no limit."""
        given = {name: options[option] for name, option in LIMITS.items() if options[option] is not None}
        registration.change(partner, {name: limit or None for name, limit in given.items()})
        return {"partner_id": partner.pk, **{option: getattr(partner, name) for name, option in LIMITS.items()}}
