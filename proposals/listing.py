"""The list of a partner's proposals, in pages that stay consistent while proposals are added."""

from __future__ import annotations

from typing import Any

from foundation.encryption import blind_index
from foundation.listing import PAGE, newest_first
from partners.models import Partner
from proposals import statuses
from proposals.models import Proposal

#: The look-ups of the filters that compare a column with a value.
_LOOKUPS = {
    "provider": "provider",
    "partner_reference": "partner_reference",
    "created_from": "created_at__gte",
    "created_to": "created_at__lt",
    "updated_from": "updated_at__gte",
    "updated_to": "updated_at__lt",
}


def page(partner: Partner, filters: dict[str, Any]) -> tuple[list[Proposal], str | None]:
    """A page of the partner's proposals, newest first, and the cursor of the next page. `filters` are those of
    `SearchRequest`; `limit` is the size of a page.

    Raises InvalidInput on `cursor` for a cursor that this list did not issue.
    """
    conditions = {lookup: filters[name] for name, lookup in _LOOKUPS.items() if filters.get(name) is not None}
    rows = Proposal.of(partner).filter(**conditions)
    match filters.get("status"):
        case None:
            pass
        case statuses.UNKNOWN:
            rows = rows.filter(Proposal.is_unknown())
        case status:
            rows = rows.filter(~Proposal.is_unknown(), status=status)
    if "partner_reference" in conditions:
        rows = rows.filter(partner_reference__gt="")  # the condition of the partial index
    if cpf := filters.get("cpf"):
        rows = rows.filter(cpf_index=blind_index("cpf", cpf))
    return newest_first(rows, filters.get("cursor"), filters.get("limit") or PAGE)
