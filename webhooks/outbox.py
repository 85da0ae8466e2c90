"""Writes events to the outbox. A message to a partner is one row, written in the transaction that causes it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

import msgspec
from django.db import connection
from django.db.transaction import TransactionManagementError
from django.utils import timezone
from msgspec import structs

from foundation import database, later
from foundation.formats import iso_utc
from foundation.shapes import Shape
from partners.models import Partner
from webhooks.models import Event, reference_index

#: An event's own fields: its shape, or by name.
Payload = Shape | Mapping[str, Any]
#: The parameters of `send`.
Message = tuple[Partner, str, str, Payload]
_ENCODER = msgspec.json.Encoder(decimal_format="number")


def send(partner: Partner, event: str, external_reference: str, payload: Payload) -> Event | None:
    """Store an event for `partner`. It is delivered if the surrounding transaction commits, and as soon as the
    registration has a URL. `payload` holds the event's own fields (Decimals become JSON numbers); `partner_id`,
    `external_reference`, `event` and `timestamp` are added. Every attempt and resend sends the same bytes.

    Returns None and stores nothing if the registration does not ask for this event. Raises TransactionManagementError
    outside a transaction, where an event could be lost.
    """
    return next(iter(send_all([(partner, event, external_reference, payload)])), None)


def send_all(messages: Iterable[Message]) -> list[Event]:
    """Like `send`, for several messages in one statement. Returns the stored events."""
    return _store([message for message in messages if message[0].wants_event(message[1])])


def store(partner: Partner, event: str, external_reference: str, payload: Payload) -> Event:
    """Like `send`, but regardless of the events that the registration asks for."""
    [stored] = _store([(partner, event, external_reference, payload)])
    return stored


def _store(messages: Sequence[Message]) -> list[Event]:
    if not connection.in_atomic_block:
        raise TransactionManagementError("an event belongs into the transaction that causes it")
    events = [_event(*message) for message in messages]
    database.insert(*events)
    if events:
        later.ring(Event, {news_for(event.partner_id) for event in events})
    return events


def news_for(partner_id: UUID) -> str:
    """What a reader of the partner's events listens to in `foundation.workers`."""
    return f"events:{partner_id}"


def _event(partner: Partner, event: str, external_reference: str, payload: Payload) -> Event:
    now = timezone.now()
    fields = structs.asdict(payload) if isinstance(payload, Shape) else payload
    common = {
        "partner_id": str(partner.pk),
        "external_reference": external_reference,
        "event": event,
        "timestamp": iso_utc(now),
    }
    return Event(
        partner=partner,
        name=event,
        external_reference=external_reference,
        reference_index=reference_index(external_reference),
        partner_reference=fields.get("partner_reference") or "",
        body=_ENCODER.encode({**common, **fields, **common}).decode(),
        created_at=now,
        due_at=now,
    )
