"""Due rows, leases and the bell, on the rows of external steps."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.utils import timezone

from consultas import pending
from consultas.models import Step
from foundation import later
from foundation.redis import redis, to_broker
from tests.factories import PartnerFactory
from tests.proposals.rows import a_step, an_offer

LEASE = timedelta(seconds=30)
QUEUE = "sweeps"


@pytest.fixture
def step(db: None) -> Step:
    return a_step(an_offer(PartnerFactory(), "peroba"))


def claimed(step: Step) -> Step:
    assert Step.claim(Step.due(), 1, LEASE) == [step.pk]
    return Step.objects.get(pk=step.pk)


def test_a_claimed_row_is_neither_due_nor_claimed_again(step: Step) -> None:
    claimed(step)
    assert not Step.due().exists()
    assert Step.claim(Step.due(), 1, LEASE) == []
    assert later.tasks_due() == []
    Step.objects.update(lease_until=timezone.now())
    assert later.tasks_due() == [pending.CHECK], "the lease is over"


def test_a_claim_takes_no_more_than_there_is_room_for_however_the_statement_is_planned(step: Step) -> None:
    """Before the fix, PostgreSQL chose rows anew for each row that it compared, in a plan that small tables get."""
    for number in range(9):
        a_step(an_offer(step.partner, "peroba", cpf=f"holder-{number}"))
    with connection.cursor() as cursor:
        for method in ("hashjoin", "mergejoin", "hashagg", "sort", "material"):
            cursor.execute(f"SET LOCAL enable_{method} = off")
    assert len(Step.claim(Step.due(), 1, LEASE)) == 1


def test_a_row_that_is_given_back_is_due_at_its_time(step: Step) -> None:
    again = timezone.now() + LEASE
    assert claimed(step).release(again)
    row = Step.objects.get()
    assert (row.due_at, row.lease_until, row.worker) == (again, None, "")


def test_a_row_that_was_made_due_while_it_was_held_stays_due(step: Step) -> None:
    """Its holder may have looked before that."""
    held = claimed(step)
    Step.hasten(Step.objects.all())
    assert not Step.due().exists(), "nobody takes it from its holder"
    assert held.release(timezone.now() + LEASE)
    assert Step.due().get() == step


def test_whoever_lost_the_lease_changes_nothing(step: Step) -> None:
    late = claimed(step)
    Step.objects.update(lease_until=timezone.now())
    claimed(step)
    before = Step.objects.values().get()
    assert not late.release(None)
    assert Step.objects.values().get() == before


@pytest.fixture
def messages(transactional_db: None) -> Iterator[Callable[[], Any]]:
    redis().delete(QUEUE, f"rung:{pending.CHECK}")
    yield lambda: to_broker().send(("LLEN", QUEUE))[0]  # what was posted before is sent before
    redis().delete(QUEUE, f"rung:{pending.CHECK}")


def test_the_bell_rings_once_until_the_last_look(messages: Callable[[], Any]) -> None:
    for _ in range(3):
        later.ring(pending.CHECK)
    assert messages() == 1
    looks: list[int] = []

    def take() -> int:
        looks.append(bool(redis().exists(f"rung:{pending.CHECK}")))
        return 0

    later.drain(pending.CHECK, take)
    assert looks == [True, False], "what is committed after the last look rings again"
    later.ring(pending.CHECK)
    assert messages() == 2


def test_nobody_rings_before_the_commit(messages: Callable[[], Any]) -> None:
    with transaction.atomic():
        later.ring(pending.CHECK)
        assert messages() == 0
    assert messages() == 1
    with transaction.atomic():
        later.ring(pending.CHECK)
        transaction.set_rollback(True)
    assert messages() == 1
