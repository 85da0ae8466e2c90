"""The list of a partner's proposals, in pages that stay consistent while proposals are added."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Q

from foundation import cursors
from foundation.encryption import blind_index
from partners.models import Partner
from proposals import statuses
from proposals.models import Proposal
from proposals.serializers import PAGE

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
    size = filters.get("limit") or PAGE
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
    if cursor := filters.get("cursor"):
        at, pk = _read(cursor)
        rows = rows.filter(Q(created_at__lt=at) | Q(created_at=at, pk__lt=pk))
    proposals = list(rows.order_by("-created_at", "-pk")[: size + 1])
    last = proposals[size - 1] if len(proposals) > size else None
    return proposals[:size], cursors.encode(last.created_at, str(last.pk)) if last else None


def _read(cursor: str) -> tuple[datetime, UUID]:
    """The time and the id of the previous page's last proposal. Raises InvalidInput on `cursor`."""
    at, key = cursors.decode(cursor)
    try:
        pk = UUID(key)
    except ValueError:
        raise cursors.invalid_cursor() from None
    if str(pk) != key:
        raise cursors.invalid_cursor()
    return at, pk
