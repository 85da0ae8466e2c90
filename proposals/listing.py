"""The list of a partner's proposals, in pages that stay right while proposals are added."""

from __future__ import annotations

import base64
import binascii
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.db.models import Q

from foundation.encryption import blind_index
from foundation.errors import InvalidInput
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
    return found[:PAGE], _cursor(last.created_at, last.pk) if last else None


def _cursor(at: datetime, pk: UUID) -> str:
    return base64.urlsafe_b64encode(f"{at.isoformat()} {pk}".encode()).decode()


def _read(cursor: str) -> tuple[datetime, UUID]:
    """What `_cursor` wrote, and nothing that merely reads the same: PostgreSQL knows no offset of 23:59:59.999999."""
    try:
        at, pk = base64.b64decode(cursor, altchars=b"-_", validate=True).decode().split(" ")
        moment, last = datetime.fromisoformat(at), UUID(pk)
    except (binascii.Error, ValueError):
        raise InvalidInput("Cursor inválido.", field="cursor") from None
    if moment.tzinfo != UTC or _cursor(moment, last) != cursor:
        raise InvalidInput("Cursor inválido.", field="cursor")
    return moment, last
