from __future__ import annotations

from datetime import timedelta

from django.utils import timezone

from partners.models import Partner
from tests.receiver import Receiver, Reply
from tests.webhooks.deliveries import deliver_due, end_leases, new_partner, send
from webhooks import delivery, models
from webhooks.models import Attempt, Event
from webhooks.tasks import purge

AGE = timedelta(days=31)


def _age() -> None:
    Event.objects.update(created_at=timezone.now() - AGE)


def test_content_is_erased_when_its_time_is_over(partner: Partner, receiver: Receiver) -> None:
    receiver.reply = Reply(200, b"thanks, Maria")
    [old] = send(partner)
    deliver_due()
    _age()
    [young] = send(partner)
    deliver_due()
    purge()

    old.refresh_from_db()
    assert (old.body, old.external_reference, old.reference_index) == (None, None, "")
    assert old.purged_at is not None
    assert (old.state, old.attempts) == ("delivered", 1)
    assert Attempt.objects.get(event=old).excerpt is None
    young.refresh_from_db()
    assert (young.external_reference, young.purged_at) == ("group-0", None)
    assert Attempt.objects.get(event=young).excerpt == "thanks, Maria"


def test_what_is_still_tried_keeps_its_content(partner: Partner, receiver: Receiver) -> None:
    receiver.reply = Reply(500)
    [event] = send(partner)
    deliver_due()
    _age()
    purge()

    event.refresh_from_db()
    assert (event.state, event.purged_at) == ("due", None)
    assert event.body


def test_what_waited_all_that_time_for_an_address_fails(db: None) -> None:
    [event] = send(new_partner(""))
    _age()
    purge()

    event.refresh_from_db()
    assert (event.state, event.next_attempt_at, event.body) == ("failed", None, None)


def test_an_attempt_in_flight_is_left_alone(partner: Partner) -> None:
    [event] = send(partner)
    delivery.claim(1)
    partner.webhook_url = ""
    partner.save()
    _age()
    assert models.purge(timezone.now()) == 0

    end_leases()
    assert models.purge(timezone.now()) == 1
    event.refresh_from_db()
    assert event.state == "failed"


def test_many_go_in_batches(partner: Partner) -> None:
    send(partner, 3)
    Event.objects.update(state="delivered", next_attempt_at=None)
    event = Event.objects.first()
    Event.objects.bulk_create(
        Event(partner=partner, name="lead", body="{}", state="delivered", next_attempt_at=None) for _ in range(1_100)
    )

    assert event is not None
    assert models.purge(timezone.now()) == 1_103
    assert not Event.objects.filter(purged_at=None).exists()
