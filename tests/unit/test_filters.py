"""Which filters and cursors the lists of proposals and of events refuse, and by which name."""

import base64
import uuid
from typing import Any

import pytest
from django.utils import timezone

from foundation import listing
from foundation.errors import InvalidInput
from foundation.validation import validated
from partners.models import Partner
from proposals.models import Proposal
from proposals.serializers import ListRequest, SearchRequest
from webhooks import events
from webhooks.serializers import EventListRequest

ID = "1f0c9f0e-7f0a-4c0e-9a53-0a4f3a3f9b11"


def cursor(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode()


@pytest.mark.parametrize("block", [ListRequest, SearchRequest])
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("status", "paid"),
        ("cpf", "123"),
        ("partner_reference", "order 7"),
        ("created_from", "2026-03-02"),
        ("created_to", "2026-03-02T12:00:00"),
        ("updated_from", "yesterday"),
        ("updated_to", "2026-02-30T12:00:00Z"),
        ("limit", "0"),
        ("limit", "101"),
        ("limit", "ten"),
        ("limit", "1.0"),
        ("limit", "9" * 5000),
        ("limit", "-1"),
        ("cursor", "x"),
        ("cursor", "é"),
        ("cursor", cursor("2026-11-21 not-an-id")),
        ("cursor", cursor(f"yesterday {ID}")),
        ("cursor", cursor(f"2026-11-21 {ID}")),
        ("cursor", cursor(f"2026-11-21T12:00:00 {ID}")),
        ("cursor", cursor(f"2026-11-21T12:00:00Z {ID}")),
        ("cursor", cursor(f"2026-11-21T12:00:00-03:00 {ID}")),
        ("cursor", cursor(f"2026-11-21T12:00:00+00:00 {{{ID}}}")),
        # PostgreSQL has no such offset, and no such moment in UTC.
        ("cursor", cursor(f"2026-01-01T00:00:00.000001+23:59:59.999999 {ID}")),
        ("cursor", cursor(f"0001-01-01T00:00:00+23:59 {ID}")),
    ],
)
def test_a_wrong_filter_of_proposals_is_named(block: type[SearchRequest], field: str, value: str) -> None:
    rows = Proposal.objects.all()  # of no partner: the database is not asked before the cursor is read
    with pytest.raises(InvalidInput) as refusal:
        listing.newest_first(rows, validated(block, {field: value}).get("cursor"), listing.PAGE)
    assert refusal.value.field == field


@pytest.mark.parametrize(
    ("filters", "fields"),
    [
        ({"state": "lost"}, ["state"]),
        ({"from": "2026-03-02"}, ["from"]),
        ({"to": "2026-02-30T00:00:00Z"}, ["to"]),
        ({"to": "0001-01-01T00:00:00+23:59"}, ["to"]),
        ({"from": "ontem", "to": "2026-03-02T00:00:00"}, ["from", "to"]),
        ({"event": "x" * 61}, ["event"]),
        ({"event": "a\0b"}, ["event"]),
        ({"event": "desconhecido"}, ["event"]),
        ({"limit": "0", "order": "asc"}, ["limit"]),
        ({"limit": "101"}, ["limit"]),
        ({"order": "up"}, ["order"]),
        ({"order": "asc", "wait_s": "26"}, ["wait_s"]),
        ({"order": "asc", "wait_s": "x"}, ["wait_s"]),
        ({"wait_s": "1"}, ["wait_s"]),
        ({"include": "attempts"}, ["include"]),
        ({"partner_reference": "52998224725"}, ["partner_reference"]),
        ({"cursor": "???"}, ["cursor"]),
        ({"cursor": listing.encode(timezone.now(), "evt_\0")}, ["cursor"]),
        ({"cursor": listing.encode(timezone.now(), str(uuid.uuid4()))}, ["cursor"]),
        ({"order": "asc", "cursor": "x"}, ["cursor"]),
        ({"order": "asc", "cursor": listing.encode(timezone.now(), f"evt_{'0' * 32}")}, ["cursor"]),
    ],
)
def test_a_wrong_filter_of_events_is_named(filters: dict[str, Any], fields: list[str]) -> None:
    page = events.page_in_order if filters.get("order") == "asc" else events.page
    with pytest.raises(InvalidInput) as refusal:
        page(Partner(), validated(EventListRequest, filters))
    assert [detail.field for detail in refusal.value.details] == fields
