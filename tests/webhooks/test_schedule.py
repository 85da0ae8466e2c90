from django.utils import timezone

from partners.models import Partner
from tests.receiver import Receiver, Reply
from tests.webhooks.deliveries import deliver_due, leave_one_attempt, make_due, send
from webhooks.models import Event


def _wait_after(event: Event) -> float:
    event.refresh_from_db()
    assert event.due_at is not None
    return (event.due_at - timezone.now()).total_seconds()


def test_410_is_tried_again_and_says_why(partner: Partner, receiver: Receiver) -> None:
    """Before the fix, an event had failed with its first 410, which a proxy may send while it is rebuilt."""
    receiver.reply = Reply(410, b"unsubscribed", headers={"Retry-After": "15"})
    [event] = send(partner)
    deliver_due()

    assert 13 < _wait_after(event) <= 15
    event.refresh_from_db()
    assert (event.state, event.attempts, event.fault) == ("due", 1, "gone")
    receiver.reply = Reply(200)
    make_due(event)
    deliver_due()
    event.refresh_from_db()
    assert (event.state, event.attempts, event.fault, event.due_at) == ("delivered", 2, "", None)
    assert event.delivered_at is not None
    attempts = [(each.number, each.status, each.fault, each.excerpt) for each in event.attempt_set.all()]
    assert attempts == [(1, 410, "gone", "unsubscribed"), (2, 200, "", None)]


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
