"""The list of a partner's proposals, in pages that stay consistent while proposals are added."""

from typing import Any

from foundation.encryption import blind_index
from foundation.listing import PAGE, newest_first
from partners.models import Partner
from proposals import statuses
from proposals.models import Proposal


def page(partner: Partner, filters: dict[str, Any]) -> tuple[list[Proposal], str | None]:
    """A page of the partner's proposals, newest first, and the cursor of the next page. `filters` are those of
    `SearchRequest`; `limit` is the size of a page.

    Raises InvalidInput on `cursor` for a cursor that this list did not issue.
    """
    lookups = {name: value for name, value in filters.items() if value is not None}
    cursor, limit = lookups.pop("cursor", None), lookups.pop("limit", PAGE)
    cpf, shown_status = lookups.pop("cpf", None), lookups.pop("status", None)
    rows = Proposal.of(partner).filter(**lookups)
    match shown_status:
        case None:
            pass
        case statuses.UNKNOWN:
            rows = rows.filter(Proposal.is_unknown())
        case status:
            rows = rows.filter(~Proposal.is_unknown(), status=status)
    if "partner_reference" in lookups:
        rows = rows.filter(partner_reference__gt="")  # the condition of the partial index
    if cpf:
        rows = rows.filter(cpf_index=blind_index("cpf", cpf))
    return newest_first(rows, cursor, limit)
