from typing import Any

from partners.management.base import CONTRACT, RowCommand, bank_names
from partners.models import Partner


class Command(RowCommand):
    help = "Substitui os bancos do contrato de um parceiro; vale já na próxima chamada."
    arguments = CONTRACT

    def act_on(self, partner: Partner, *, providers: str, **options: Any) -> dict[str, Any]:
        """`{partner_id, providers}`, the banks sorted by name."""
        partner.allow_only(bank_names(providers))
        return {"partner_id": partner.pk, "providers": [bank.name for bank in partner.allowed_banks()]}
