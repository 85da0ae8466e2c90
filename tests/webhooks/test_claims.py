"""Which process may deliver which event when several compete."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection

from foundation import later
from partners.models import Partner
from tests.leases import dead_worker
from tests.plans import execute
from tests.processes import wait_until
from tests.receiver import Receiver, Reply
from tests.transactions import at_once
from tests.webhooks.deliveries import end_leases, finish, leave_attempts, new_partner, send
from webhooks import delivery
from webhooks.models import UNREACHABLE, Event

NOBODY = "http://127.0.0.1:1/"


def test_what_a_dead_process_was_delivering_is_free_for_the_next(partner: Partner) -> None:
    """Before the fix, such an event waited for 30 s."""
    [event] = send(partner)
    assert len(delivery.claim(10)) == 1
    assert Event.objects.get().worker == later.worker_id()
    later.end_dead_leases()
    assert delivery.claim(10) == [], "it lives"
    Event.objects.update(worker=dead_worker())
    later.end_dead_leases()
    assert [claimed.pk for claimed in delivery.claim(10)] == [event.pk]


def test_only_what_is_due_the_oldest_first(partner: Partner) -> None:
    past, later, future, delivered, failed = (event for _ in range(5) for event in send(partner))
    next_year = future.created_at.replace(year=future.created_at.year + 1)
    Event.objects.filter(pk=future.pk).update(due_at=next_year)
    Event.objects.filter(pk__in=[delivered.pk, failed.pk]).update(state="delivered", due_at=None)
    Event.objects.filter(pk=failed.pk).update(state="failed")

    assert [claimed.pk for _ in range(3) for claimed in delivery.claim(1)] == [past.pk, later.pk]


def test_held_deliveries_wait_for_the_partner_to_be_resumed(partner: Partner) -> None:
    """Before the fix, a suspended partner still got its events."""
    [event] = send(partner)
    partner.suspend()
    assert [claimed.pk for claimed in delivery.claim(10)] == [event.pk], "suspended alone: delivered"
    end_leases()
    partner.suspend(hold_deliveries=True)
    assert later.tasks_due() == [], "for the tick as for the claim"
    assert delivery.claim(10) == []
    assert Event.objects.filter(UNREACHABLE).count() == 1, "told as waiting, not as late"
    partner.resume()
    assert later.tasks_due() == [Event.task]
    assert [claimed.pk for claimed in delivery.claim(10)] == [event.pk]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("limit", [1_000, 5])
def test_concurrent_claimers_never_get_the_same_event_and_respect_the_limit_of_a_partner_together(
    settings: Any, limit: int
) -> None:
    settings.WEBHOOK_PARTNER_LIMIT = limit
    sent = {event.pk for _ in range(3) for event in send(new_partner(NOBODY), 60)}

    def claim_all() -> list[str]:
        return [claimed.pk for claims in iter(lambda: delivery.claim(7), []) for claimed in claims]

    taken = [pk for each in at_once(*[claim_all] * 6) for pk in each]
    assert len(taken) == len(set(taken)) == min(len(sent), 3 * limit)
    assert set(taken) <= sent


def test_a_partner_gets_no_more_than_its_places(db: None, settings: Any) -> None:
    settings.WEBHOOK_PARTNER_LIMIT = 3
    busy, other = new_partner(NOBODY), new_partner(NOBODY)
    send(busy, 10)
    send(other, 2)

    first = delivery.claim(100)
    assert sorted(claimed.partner_id for claimed in first) == sorted([busy.pk] * 3 + [other.pk] * 2)
    assert delivery.claim(100) == []
    end_leases()
    assert len(delivery.claim(100)) == 5


def test_places_left_over_are_shared_partner_by_partner(db: None) -> None:
    """A partner with a thousand due events does not go before a partner with a single, later event."""
    crowd, single = new_partner(NOBODY), new_partner(NOBODY)
    send(crowd, 15)
    [alone] = send(single)

    claims = delivery.claim(2)
    assert {claimed.partner_id for claimed in claims} == {crowd.pk, single.pk}
    assert alone.pk in {claimed.pk for claimed in claims}


def test_a_slow_partner_gets_few_places(db: None) -> None:
    slow, quick = new_partner(NOBODY), new_partner(NOBODY)
    send(slow, 10)
    send(quick, 10)

    [attempted] = send(slow)
    leave_attempts(attempted, 1, minutes_ago=5)
    leave_attempts(attempted, 1, duration_ms=delivery.SLOW_MS)

    claims = delivery.claim(100)
    assert sum(claimed.partner_id == slow.pk for claimed in claims) == delivery.SLOW_LIMIT
    assert sum(claimed.partner_id == quick.pk for claimed in claims) == 10
    end_leases()
    leave_attempts(attempted, 1)
    assert len(delivery.claim(100)) == 21, "its last attempt was quick"


def run(deliveries: delivery.Deliveries) -> None:
    try:
        deliveries.run()
    finally:
        connection.close()


@pytest.mark.django_db(transaction=True)
def test_a_hanging_receiver_holds_up_nobody_else(receiver: Receiver, settings: Any) -> None:
    """The process has places for ten deliveries, and the partner has events for a hundred times as many."""
    settings.WEBHOOK_CONCURRENCY = 10
    settings.WEBHOOK_PARTNER_LIMIT = 4
    with Receiver(Reply(hang=60)) as tarpit:
        hanging, healthy = new_partner(tarpit.url), new_partner(receiver.url)
        send(hanging, 200)
        healthy_ids = {event.pk for event in send(healthy, 40)}
        deliveries = delivery.Deliveries()
        settings.WEBHOOK_TIMEOUT_S = 30
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(run, deliveries)
            try:
                wait_until(lambda: set(receiver.ids) == healthy_ids, 20, "the others are delivered")
                assert len(tarpit.received) == 4
            finally:
                tarpit.reply = Reply()
                tarpit.release()
                deliveries.stop()
            running.result(30)
    assert Event.objects.filter(partner=healthy, state="delivered").count() == 40
    assert Event.objects.filter(partner=healthy, attempts=1).count() == 40


@pytest.mark.django_db(transaction=True)
def test_a_ring_is_heard_while_attempts_hang(receiver: Receiver) -> None:
    """The task that waits for the attempts looks again; the message itself is done at once."""
    with Receiver(Reply(hang=60)) as tarpit, ThreadPoolExecutor(1) as pool:
        send(new_partner(tarpit.url))
        deliveries = delivery.Deliveries()
        waiting = pool.submit(run, deliveries)
        tarpit.wait_for(1)
        [event] = send(new_partner(receiver.url))
        wait_until(lambda: deliveries.run() or receiver.ids == [event.pk], 20, "the other partner's event arrives")
        assert not waiting.done()
        tarpit.release()
        waiting.result(30)
    assert Event.objects.filter(state="delivered").count() == 2


@pytest.mark.django_db(transaction=True)
def test_attempts_hold_no_database_connection(settings: Any) -> None:
    settings.WEBHOOK_PARTNER_LIMIT = 20
    with Receiver(Reply(hang=60)) as tarpit:
        send(new_partner(tarpit.url), 20)
        before = _connections()
        deliveries = delivery.Deliveries()
        assert deliveries.turn() == 20
        tarpit.wait_for(20)
        assert _connections() == before
        tarpit.release()
        finish(deliveries)


def _connections() -> list[Any]:
    return execute(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'"
    )
