"""Shared steps of the tests of deliveries."""

import json
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone

from partners.models import Partner
from tests.factories import PartnerFactory
from tests.processes import wait_until
from tests.receiver import Receiver, Reply
from webhooks import outbox
from webhooks.delivery import Deliveries
from webhooks.models import RETRY_AFTER_S, Attempt, Event


def new_partner(url: str) -> Partner:
    """A partner that asks for every event at `url`."""
    events = ["lead", "authorization_result", "authorization.completed", "proposal"]
    partner = PartnerFactory(webhook_url=url, webhook_events=events)
    partner.rotate_webhook_secret()
    return partner


def send(partner: Partner, count: int = 1, **fields: object) -> list[Event]:
    """`count` events of `partner`, committed unless the test itself runs in a transaction."""
    with transaction.atomic():
        sent = [outbox.send(partner, "lead", f"group-{n}", {"number": n, **fields}) for n in range(count)]
    return [event for event in sent if event is not None]


def an_event(partner: Partner, *attempts: tuple[float, str, int], **columns: Any) -> Event:
    """An event of `partner` with these columns, after these attempts: how many minutes ago the first of them was, their
    fault, and how many there were."""
    [event] = send(partner)
    for minutes_ago, fault, count in attempts:
        leave_attempts(event, count, fault, minutes_ago=minutes_ago)
    ended = {"due_at": None} if columns.get("state", "due") != "due" else {}
    Event.objects.filter(pk=event.pk).update(**ended, **columns)
    event.refresh_from_db()
    return event


def told(name: str, **filters: object) -> list[dict[str, Any]]:
    """The bodies of the stored events `name`, oldest first."""
    return [json.loads(event.body or "") for event in Event.objects.filter(name=name, **filters).order_by("created_at")]


def deliver_due(timeout: float = 20.0) -> None:
    """Attempt every claimable event once, and store the outcomes."""
    deliveries = Deliveries()
    deliveries.turn()
    finish(deliveries, timeout)


def tried(partner: Partner, receiver: Receiver, reply: Reply, **fields: object) -> Event:
    """An event of `partner` after its first attempt, which the receiver answered with `reply`."""
    receiver.reply = reply
    [event] = send(partner, **fields)
    return again(event)


def again(event: Event) -> Event:
    """The event after another attempt, now."""
    make_due(event)
    deliver_due()
    event.refresh_from_db()
    return event


def finish(deliveries: Deliveries, timeout: float = 20.0) -> None:
    """Store the outcomes of the attempts in flight as they come."""

    def is_finished() -> bool:
        deliveries.turn(claiming=False)
        return not deliveries.in_flight

    wait_until(is_finished, timeout, "no attempt is in flight")


def make_due(event: Event) -> None:
    """Let the time until the event's next attempt pass."""
    Event.objects.filter(pk=event.pk, state="due").update(due_at=timezone.now())


def leave_one_attempt(*events: Event) -> None:
    """Let the whole schedule of `events` pass but its last attempt."""
    Event.objects.filter(pk__in=[event.pk for event in events]).update(failures=len(RETRY_AFTER_S))


def leave_attempts(event: Event, count: int, fault: str = "", minutes_ago: float = 0, duration_ms: int = 1) -> None:
    """Let `event` have had `count` more attempts, a second apart, the first one so many minutes ago."""
    begin, url = timezone.now() - timedelta(minutes=minutes_ago), event.partner.webhook_url
    event.refresh_from_db(fields=["attempts"])
    same = {"event": event, "partner": event.partner, "url": url, "fault": fault, "duration_ms": duration_ms}
    Attempt.objects.bulk_create(
        Attempt(number=event.attempts + n, at=begin + timedelta(seconds=n), **same) for n in range(1, count + 1)
    )
    Event.objects.filter(pk=event.pk).update(attempts=event.attempts + count)


def end_leases() -> None:
    """Let the time pass after which a claim of a dead process no longer counts."""
    Event.objects.exclude(lease_until=None).update(lease_until=timezone.now())
