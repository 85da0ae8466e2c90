from typing import Any

from partners import registration
from partners.management.base import SettingsCommand
from partners.models import Partner


class Command(SettingsCommand):
    help = "Define os limites de um parceiro, que valem a partir da próxima chamada. Os que não são dados ficam."
    group = registration.LIMITS

    def act_on(self, partner: Partner, **options: Any) -> dict[str, Any]:
        """Returns `{partner_id, per_minute, in_flight, cpfs_per_day}`. Null means no limit."""
        limits = super().act_on(partner, **options)
        return {"partner_id": partner.pk, **{self.group[name]: limit for name, limit in limits.items()}}
