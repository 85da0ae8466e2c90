"""Whichever process dies during a query, each bank gets one final status, and its answers are stored.

Cases in which a client still waits for the answer are in `tests/consultas/test_restarts.py` and `test_faults.py`.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from datetime import timedelta

import pytest
from django.utils import timezone

from consultas.models import LATE, Offer, Query
from consultas.query.end import landed
from foundation.redis import redis
from providers.errors import BankTimedOut
from tests.client import Client, query_body
from tests.processes import LiveService, Simulator, answers, wait_until
from webhooks.models import Event

BANKS = ["ipe", "jatoba"]


@pytest.fixture
def under_way(client: Client, simulator: Simulator, live_service: LiveService) -> Iterator[Query]:
    """A running query: one bank has answered, and the other is slow."""
    simulator.bank("jatoba", latency_ms=2500, operation="query")
    with ThreadPoolExecutor() as pool:
        pool.submit(client.post, "/consultas", query_body(providers=BANKS))
        query = wait_until(lambda: Query.objects.first(), 10, "the query began", live_service.logs)
        wait_until(lambda: landed(query).keys() == {"ipe"}, 10, "one bank has answered", live_service.logs)
        yield query


def statuses(query: Query, within_s: float) -> dict[str, str]:
    """Each bank's final status once the query has ended. Fails if anything was not stored exactly once."""
    ended = Query.objects.filter(pk=query.pk, finished_at__isnull=False)
    found = wait_until(ended.first, within_s, "the query has ended")
    stored = found.stored_answers()
    assert Offer.objects.filter(query=found).count() == sum(len(answer.offers) for answer in stored) > 0
    told = list(Event.objects.filter(name__in=["lead", "query.completed"]).order_by("name"))
    assert [(event.name, event.external_reference) for event in told] == [
        (name, str(found.pk)) for name in ("lead", "query.completed")
    ]
    return {answer.provider: answer.error or answer.status.value for answer in stored}


def test_the_worker_stores_what_banks_answer_to_a_web_process_that_died(
    under_way: Query, live_service: LiveService, client: Client
) -> None:
    """Before the fix, the web process stored the answers, so offers and lead were lost with it."""
    live_service.kill_web_workers()
    assert statuses(under_way, 15) == {"ipe": "ok", "jatoba": "ok"}
    wait_until(lambda: answers(f"{live_service.url}/health/live"), 20, "another process serves", live_service.logs)
    reply = client.get(f"/consultas/{under_way.pk}").json()
    assert (reply["complete"], len(reply["proposals"])) == (True, 4)


def test_the_sweep_ends_a_query_whose_worker_and_web_process_died(under_way: Query, live_service: LiveService) -> None:
    live_service.kill_web_workers()
    live_service.programs.kill("banks")
    deadline = timezone.now() + timedelta(seconds=1)
    over = deadline + LATE
    Query.objects.update(deadline_at=deadline, lease_until=over, due_at=over)
    assert statuses(under_way, 15) == {"ipe": "ok", "jatoba": BankTimedOut().message}
    ended = Query.objects.get().finished_at
    assert ended is not None
    assert ended - deadline < timedelta(seconds=5)


def test_a_task_that_nobody_had_taken_when_its_web_process_died_waits_for_a_worker(
    client: Client, live_service: LiveService
) -> None:
    live_service.programs.kill("banks")
    with ThreadPoolExecutor() as pool:
        pool.submit(client.post, "/consultas", query_body(providers=BANKS))
        wait_until(lambda: b"run_query" in b"".join(redis().lrange("banks", 0, -1)), 10, "the task was published")
        live_service.kill_web_workers()
    live_service.programs.restart("banks")
    assert statuses(Query.objects.get(), 25) == {"ipe": "ok", "jatoba": "ok"}


def test_the_worker_stores_what_banks_answered_before_redis_lost_everything(under_way: Query) -> None:
    redis().flushdb()
    assert statuses(under_way, 15) == {"ipe": "ok", "jatoba": "ok"}


def test_the_worker_stores_what_banks_answer_while_redis_is_away(
    under_way: Query, freeze_redis: Callable[[], AbstractContextManager[None]]
) -> None:
    with freeze_redis():
        assert statuses(under_way, 15) == {"ipe": "ok", "jatoba": "ok"}
