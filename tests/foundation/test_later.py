"""Due rows, leases and the bell, on the rows of external steps; and which workers count as dead."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone

from consultas.models import Step
from foundation import later
from foundation.later import dead_workers, key_of
from foundation.redis import redis, to_broker
from tests.factories import PartnerFactory
from tests.leases import be_sure, dead_worker, living_worker
from tests.plans import execute
from tests.processes import Outage, Programs, wait_until
from tests.proposals.rows import a_step, an_offer

LEASE = timedelta(seconds=30)
QUEUE = "sweeps"


@pytest.fixture
def step(db: None) -> Step:
    return a_step(an_offer(PartnerFactory(), "peroba"))


def claimed(step: Step) -> Step:
    [row] = Step.claim(Step.due(), 1, LEASE)
    assert row == step
    assert (row.worker, row.lease_until) == Step.objects.values_list("worker", "lease_until").get(pk=step.pk)
    return row


def test_a_claimed_row_is_neither_due_nor_claimed_again(step: Step) -> None:
    claimed(step)
    assert not Step.due().exists()
    assert Step.claim(Step.due(), 1, LEASE) == []
    assert later.tasks_due() == []
    Step.objects.update(lease_until=timezone.now())
    assert later.tasks_due() == [Step.task], "the lease is over"


def test_a_claim_takes_no_more_than_there_is_room_for_however_the_statement_is_planned(step: Step) -> None:
    """Before the fix, PostgreSQL chose rows anew for each row that it compared, in a plan that small tables get."""
    for number in range(9):
        a_step(an_offer(step.partner, "peroba", cpf=f"holder-{number}"))
    for method in ("hashjoin", "mergejoin", "hashagg", "sort", "material"):
        execute(f"SET LOCAL enable_{method} = off")
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
def messages(transactional_db: None, programs: Programs) -> Iterator[Callable[[], Any]]:
    """How many messages wait for the worker of the sweeps. Also a halted worker would be given some."""
    programs.kill("sweeps")
    redis().delete(QUEUE, f"rung:{Step.task}")
    yield lambda: to_broker().send(("LLEN", QUEUE))[0]  # what was posted before is sent before
    redis().delete(QUEUE, f"rung:{Step.task}")


def test_the_bell_rings_once_until_the_last_look(messages: Callable[[], Any]) -> None:
    for _ in range(3):
        later.ring(Step)
    assert messages() == 1
    looks: list[int] = []

    def take() -> int:
        looks.append(bool(redis().exists(f"rung:{Step.task}")))
        return 0

    later.drain(Step, take)
    assert looks == [True, False], "what is committed after the last look rings again"
    later.ring(Step)
    assert messages() == 2


def test_nobody_rings_before_the_commit(messages: Callable[[], Any]) -> None:
    with transaction.atomic():
        later.ring(Step)
        assert messages() == 0
    assert messages() == 1
    with transaction.atomic():
        later.ring(Step)
        transaction.set_rollback(True)
    assert messages() == 1


def test_a_worker_without_a_heartbeat_is_dead(redis_url: str) -> None:
    worker, living = dead_worker(), living_worker()
    assert dead_workers([worker, living, later.worker_id()]) == {worker}
    redis().delete(key_of(living))
    assert dead_workers([worker, living]) == {worker, living}
    assert dead_workers([]) == set()


def test_who_has_no_heartbeats_of_its_own_or_only_new_ones_judges_nobody(redis_url: str) -> None:
    """As after Redis was emptied: each living worker counts as silent until its next heartbeat."""
    worker, mine = dead_worker(), later.worker_id()
    redis().delete(key_of(mine))
    assert dead_workers([worker]) == set()
    later.beat_once(mine, goes_on=True)
    assert dead_workers([worker]) == set(), "they have just begun again"
    be_sure()
    later.beat_once(mine, goes_on=True)
    assert dead_workers([worker]) == {worker}
    later.beat_once(mine)
    assert dead_workers([worker]) == set(), "the one before did not reach Redis"


def test_a_redis_that_does_not_answer_ends_no_lease(db: None, freeze_redis: Outage) -> None:
    worker = dead_worker()
    with freeze_redis():
        assert dead_workers([worker]) == set()
    wait_until(lambda: dead_workers([worker]) == {worker}, 15, "this process has been heard for long enough")
