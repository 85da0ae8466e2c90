"""A partner's access to its own events: one event, pages of events, and a test event."""

import re
import uuid
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from foundation.errors import InvalidState, NotFound
from foundation.listing import PAGE, newest_first
from partners.models import Partner, WebhookEvent
from providers.types.proposal import ProposalStatus
from webhooks import outbox
from webhooks.models import Event

TEST = "webhook.test"
#: The largest page in order, and the largest with bodies.
SMALL_PAGE = 50
_ID = re.compile(r"evt_[0-9a-f]{32}", re.ASCII)
_SAME = {name: name for name in ("state", "partner_reference")}
_LOOKUPS = {**_SAME, "since": "created_at__gte", "until": "created_at__lt"}


def get(partner: Partner, event_id: str) -> Event:
    """The partner's event with this `webhook-id`. Raises NotFound, also for an event of another partner."""
    event = Event.objects.filter(partner=partner, pk=event_id).first() if _ID.fullmatch(event_id) else None
    if event is None:
        raise NotFound
    return event


def page(partner: Partner, filters: dict[str, Any]) -> tuple[list[Event], str | None]:
    """A page of events, newest first, and the cursor of the next page.

    `filters` are those of `EventListRequest`. Raises InvalidInput on `cursor` for a cursor that this list did not
    issue.
    """
    return newest_first(chosen(partner, filters), filters.get("cursor"), page_size(filters), key=_known)


def page_size(filters: dict[str, Any]) -> int:
    """The most events that a page may have: as many as `filters` ask for, and not too many."""
    largest = SMALL_PAGE if filters.get("include") or filters["order"] == "asc" else PAGE
    return min(filters.get("limit", largest), largest)


def chosen(partner: Partner, filters: dict[str, Any]) -> QuerySet[Event]:
    """The partner's events that the filters of `EventListRequest` choose, with their bodies only if those are asked
    for."""
    unread = ("external_reference",) if filters.get("include") else ("external_reference", "body")
    conditions = {lookup: filters[name] for name, lookup in _LOOKUPS.items() if filters.get(name)}
    rows = Event.objects.filter(partner=partner, **conditions).defer(*unread)
    if name := filters.get("event"):
        # As in the registration, `proposal` means every `proposal.<status>`.
        names = [f"{name}.{status.value}" for status in ProposalStatus] if name == WebhookEvent.PROPOSAL else [name]
        rows = rows.filter(name__in=names)
    # What the partial indexes say: the planner does not conclude it.
    if "partner_reference" in conditions:
        rows = rows.filter(partner_reference__gt="")
    if filters.get("state") == Event.State.DUE:
        rows = rows.filter(due_at__isnull=False)
    return rows


def _known(key: str) -> str:
    """`key` if it has an event's form. Raises ValueError otherwise."""
    if not _ID.fullmatch(key):
        raise ValueError(key)
    return key


def send_test(partner: Partner) -> Event:
    """Queue a `webhook.test` event, regardless of the events that the registration asks for.

    Raises InvalidState if the registration has no URL or no secret, because nothing would be sent.
    """
    if not partner.webhook_url:
        raise InvalidState("O cadastro não tem URL de webhook. Peça ao operador do serviço.")
    if not partner.webhook_secrets():
        raise InvalidState("O cadastro não tem segredo de webhook. Peça ao operador do serviço.")
    with transaction.atomic():
        return outbox.store(partner, TEST, str(uuid.uuid4()), {})
