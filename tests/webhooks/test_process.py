"""The real worker of the queue `webhooks`: killed, stopped, and without Redis."""

import signal
from collections.abc import Iterator

import pytest

from tests.conftest import halt_sweeps
from tests.plans import execute
from tests.processes import START_TIMEOUT_S, Outage, Programs, wait_until
from tests.receiver import Receiver, Reply
from tests.webhooks.deliveries import end_leases, new_partner, send
from webhooks.models import Event

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _no_other_deliverer() -> None:
    """Unlike in the other tests of this folder, the webhooks worker delivers."""


@pytest.fixture(scope="module")
def worker(programs: Programs) -> Iterator[None]:
    """The webhooks worker is started at most once for tests that do not end it."""
    programs.kill("webhooks")
    yield
    programs.kill("webhooks")


@pytest.fixture
def delivering(programs: Programs, worker: None, transactional_db: None) -> Iterator[Programs]:
    """The programs: a webhooks worker, beat, and the worker that takes its ticks."""
    programs.ensure("sweeps", "beat", "webhooks")
    yield programs
    halt_sweeps(programs)


def _state(event: Event) -> str:
    event.refresh_from_db(fields=["state"])
    return event.state


def test_what_is_committed_without_redis_is_delivered_when_it_is_back(
    delivering: Programs, receiver: Receiver, freeze_redis: Outage
) -> None:
    """The worker has just begun: one that is at work looks without being rung."""
    with freeze_redis():
        sent = send(new_partner(receiver.url), 5)
        assert receiver.received == []

    receiver.wait_for(5, timeout=START_TIMEOUT_S)
    assert sorted(receiver.ids) == sorted(event.pk for event in sent)


def test_outlives_the_loss_of_its_database_connection(delivering: Programs, receiver: Receiver) -> None:
    """As after a restart of PostgreSQL, even during an attempt, whose outcome is stored."""
    receiver.reply = Reply(hang=30)
    [event] = send(new_partner(receiver.url))
    receiver.wait_for(1, timeout=START_TIMEOUT_S)
    execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    receiver.release()

    wait_until(lambda: _state(event) == "delivered", START_TIMEOUT_S, "it is delivered")
    assert receiver.ids == [event.pk]
    assert delivering.is_running("webhooks")


def test_killed_in_the_middle_of_attempts_it_delivers_them_again_under_the_same_ids(
    delivering: Programs, receiver: Receiver
) -> None:
    receiver.reply = Reply(hang=30)
    sent = {event.pk for event in send(new_partner(receiver.url), 5)}
    receiver.wait_for(5, timeout=START_TIMEOUT_S)
    delivering.kill("webhooks", signal.SIGKILL)
    receiver.reply = Reply()
    end_leases()
    delivering.restart("webhooks")

    wait_until(lambda: Event.objects.filter(state="delivered").count() == 5, START_TIMEOUT_S, "all five are delivered")
    assert sorted(receiver.ids) == sorted([*sent, *sent])


def test_told_to_stop_it_finishes_what_is_in_flight_and_begins_nothing(
    delivering: Programs, receiver: Receiver
) -> None:
    receiver.reply = Reply(hang=30)
    partner = new_partner(receiver.url)
    [event] = send(partner)
    receiver.wait_for(1, timeout=START_TIMEOUT_S)
    delivering.kill("webhooks", signal.SIGTERM)
    [later] = send(partner)
    receiver.release()

    wait_until(lambda: not delivering.is_running("webhooks"), START_TIMEOUT_S, "the process ended")
    assert _state(event) == "delivered"
    assert _state(later) == "due"
    assert receiver.ids == [event.pk]
