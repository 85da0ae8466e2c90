from __future__ import annotations

from datetime import UTC, datetime
from email.utils import format_datetime

import pytest
from django.utils import timezone

from partners.models import Partner
from tests.receiver import Receiver, Reply
from tests.webhooks.deliveries import deliver_due, leave_one_attempt, make_due, send
from webhooks.models import RETRY_AFTER_S, AlreadyPurged, Event


def _wait_after(event: Event) -> float:
    event.refresh_from_db()
    assert event.due_at is not None
    return (event.due_at - timezone.now()).total_seconds()


def test_nine_attempts_then_failed(partner: Partner, receiver: Receiver) -> None:
    receiver.reply = Reply(500)
    [event] = send(partner)

    for step in RETRY_AFTER_S:
        deliver_due()
        assert 0.85 * step < _wait_after(event) <= 1.1 * step
        deliver_due()  # not due yet: nothing happens
        make_due(event)
    deliver_due()

    event.refresh_from_db()
    assert (event.state, event.attempts, event.due_at) == ("failed", 9, None)
    assert receiver.ids == [event.pk] * 9
    assert len({request.body for request in receiver.received}) == 1
    deliver_due()
    assert len(receiver.received) == 9


def test_a_late_confirmation_ends_the_schedule(partner: Partner, receiver: Receiver) -> None:
    receiver.reply = Reply(503)
    [event] = send(partner)
    deliver_due()
    receiver.reply = Reply(200)
    make_due(event)
    deliver_due()

    event.refresh_from_db()
    assert (event.state, event.attempts, event.fault, event.due_at) == ("delivered", 2, "", None)
    assert event.delivered_at is not None
    assert [(a.number, a.status, a.fault) for a in event.attempt_set.all()] == [
        (1, 503, "status"),
        (2, 200, ""),
    ]


@pytest.mark.parametrize(
    ("header", "low", "high"),
    [
        ("15", 14, 15),
        ("999999", 19, 20),
        ("1", 9, 10),
        ("soon", 8, 11),
        ("-5", 8, 11),
        ("Fri, 31 Dec 99999999999 23:59:59 GMT", 8, 11),
        (format_datetime(datetime(2999, 1, 1, tzinfo=UTC), usegmt=True), 19, 20),
        ("9" * 400, 19, 20),
    ],
)
def test_retry_after_header(partner: Partner, receiver: Receiver, header: str, low: float, high: float) -> None:
    receiver.reply = Reply(429, headers={"Retry-After": header})
    [event] = send(partner)
    deliver_due()

    assert low - 1 < _wait_after(event) <= high


def test_410_is_tried_again_and_says_why(partner: Partner, receiver: Receiver) -> None:
    """Before the fix, an event had failed with its first 410, which a proxy may send while it is rebuilt."""
    receiver.reply = Reply(410, b"unsubscribed")
    [event] = send(partner)
    deliver_due()

    assert 8 < _wait_after(event) <= 11
    event.refresh_from_db()
    assert (event.state, event.attempts, event.fault) == ("due", 1, "gone")
    assert event.attempt_set.get().excerpt == "unsubscribed"
    receiver.reply = Reply(200)
    make_due(event)
    deliver_due()
    event.refresh_from_db()
    assert (event.state, event.attempts, event.fault) == ("delivered", 2, "")


def test_410_at_the_end_of_the_schedule_fails(partner: Partner, receiver: Receiver) -> None:
    receiver.reply = Reply(410)
    [event] = send(partner)
    leave_one_attempt(event)
    deliver_due()

    event.refresh_from_db()
    assert (event.state, event.fault, event.due_at) == ("failed", "gone", None)


def test_resend_keeps_the_id_and_begins_a_fresh_schedule(partner: Partner, receiver: Receiver) -> None:
    receiver.reply = Reply(500)
    [event] = send(partner)
    leave_one_attempt(event)
    deliver_due()
    event.resend()
    deliver_due()

    assert 8 < _wait_after(event) <= 11
    assert (event.state, event.attempts, event.failures) == ("due", 2, 1)
    receiver.reply = Reply(204)
    make_due(event)
    deliver_due()
    event.resend()  # a delivered one may be sent again too
    deliver_due()
    assert receiver.ids == [event.pk] * 4
    assert len({request.body for request in receiver.received}) == 1


def test_resend_of_a_purged_event_is_refused(partner: Partner) -> None:
    [event] = send(partner)
    Event.objects.update(state="failed", due_at=None, body=None, purged_at=timezone.now())

    with pytest.raises(AlreadyPurged):
        event.resend()
    event.refresh_from_db()
    assert event.state == "failed"
