"""The list of a partner's proposals, in pages that stay right while proposals are added."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Q

from foundation import cursors
from foundation.encryption import blind_index
from partners.models import Partner
from proposals.models import Proposal

PAGE = 100


def page(partner: Partner, filters: dict[str, Any]) -> tuple[list[Proposal], str | None]:
    """Up to `PAGE` proposals, newest first, and the cursor of the next page. `filters` are `ListRequest`'s.

    Raises InvalidInput on `cursor` for one that is not ours.
    """
    rows = Proposal.of(partner)
    if status := filters.get("status"):
        rows = rows.filter(status=status)
    if provider := filters.get("provider"):
        rows = rows.filter(provider=provider)
    if cpf := filters.get("cpf"):
        rows = rows.filter(cpf_index=blind_index("cpf", cpf))
    if cursor := filters.get("cursor"):
        at, pk = _read(cursor)
        rows = rows.filter(Q(created_at__lt=at) | Q(created_at=at, pk__lt=pk))
    found = list(rows.order_by("-created_at", "-pk")[: PAGE + 1])
    more = len(found) > PAGE
    last = found[PAGE - 1] if more else None
    return found[:PAGE], cursors.encode(last.created_at, str(last.pk)) if last else None


def _read(cursor: str) -> tuple[datetime, UUID]:
    """The time and the id of the last proposal of the page before. Raises InvalidInput on `cursor`."""
    at, key = cursors.decode(cursor)
    try:
        pk = UUID(key)
    except ValueError:
        raise cursors.invalid_cursor() from None
    if str(pk) != key:
        raise cursors.invalid_cursor()
    return at, pk
