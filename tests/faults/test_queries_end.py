"""Whichever process or server dies during a query, each bank gets one final status, and its answers are stored."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.utils import timezone

from consultas.models import LATE, Offer, Query
from consultas.query.end import kept_answers
from foundation.redis import redis
from providers.errors import BankTimedOut
from tests.client import Client, query_body, streamed
from tests.processes import LiveService, Outage, Simulator, answers, wait_until
from webhooks.models import Event

BANKS = ["ipe", "jatoba"]
#: PostgreSQL's words for a database that takes no connections.
REFUSED = "not currently accepting connections"
#: The pool's pauses doubled without limit: it tried after 15 to 16.5 s, and then after another 12 s.
OUTAGE_S = 17
FOUND_S = 10
#: Enough connections to reach every web process.
CALLS = 16


@pytest.fixture
def under_way(client: Client, simulator: Simulator) -> Iterator[Query]:
    """A running query: one bank has answered, and the other is slow."""
    simulator.bank("jatoba", latency_ms=2500, operation="query")
    with ThreadPoolExecutor() as pool:
        pool.submit(client.post, "/consultas", query_body(providers=BANKS))
        query = wait_until(lambda: Query.objects.first(), 10, "the query began")
        wait_until(lambda: kept_answers(query).keys() == {"ipe"}, 10, "one bank has answered")
        yield query


def statuses(query: Query, within_s: float) -> dict[str, str]:
    """Each bank's final status once the query has ended. Fails if anything was not stored exactly once."""
    ended = Query.objects.filter(pk=query.pk, finished_at__isnull=False)
    found = wait_until(ended.first, within_s, "the query has ended")
    stored = found.stored_answers()
    assert Offer.objects.filter(query=found).count() == sum(len(answer.offers) for answer in stored) > 0
    told = list(Event.objects.filter(name__in=["lead", "query.completed"]).order_by("name"))
    assert [event.name for event in told if event.external_reference == str(found.pk)] == ["lead", "query.completed"]
    assert {event.external_reference for event in told} <= set(map(str, Query.objects.values_list("pk", flat=True)))
    return {answer.provider: answer.error or answer.status.value for answer in stored}


def test_the_worker_stores_what_banks_answer_to_a_web_process_that_died_and_a_repeat_takes_over(
    under_way: Query, live_service: LiveService, client: Client
) -> None:
    """Before the fixes, the web process stored the answers, so offers and lead were lost with it; and a partner's retry
    waited for the dead process until its own deadline."""
    live_service.kill_web_workers()
    wait_until(lambda: answers(f"{live_service.url}/health/live"), 20, "another process serves")
    began = time.monotonic()
    assert len(client.query(providers=BANKS)["proposals"]) == 4
    assert time.monotonic() - began < 15
    assert statuses(under_way, 15) == {"ipe": "ok", "jatoba": "ok"}
    reply = client.get(f"/consultas/{under_way.pk}").json()
    assert (reply["complete"], len(reply["proposals"])) == (True, 4)


def test_the_sweep_ends_a_query_whose_processes_died_and_a_task_that_nobody_took_waits_for_a_worker(
    under_way: Query, client: Client, live_service: LiveService
) -> None:
    live_service.programs.kill("banks")
    with ThreadPoolExecutor() as pool:
        pool.submit(client.post, "/consultas", query_body(providers=BANKS, prazo=24))
        wait_until(lambda: b"ask.run" in b"".join(redis().lrange("banks", 0, -1)), 10, "the task was published")
        live_service.kill_web_workers()
    deadline = timezone.now() + timedelta(seconds=1)
    over = deadline + LATE
    Query.objects.filter(pk=under_way.pk).update(deadline_at=deadline, lease_until=over, due_at=over)
    assert statuses(under_way, 15) == {"ipe": "ok", "jatoba": BankTimedOut().message}
    ended = Query.objects.get(pk=under_way.pk).finished_at
    assert ended - deadline < timedelta(seconds=5)
    live_service.programs.restart("banks")
    assert statuses(Query.objects.exclude(pk=under_way.pk).get(), 25) == {"ipe": "ok", "jatoba": "ok"}


def test_the_worker_stores_what_banks_answered_before_redis_lost_everything(under_way: Query) -> None:
    redis().flushdb()
    assert statuses(under_way, 15) == {"ipe": "ok", "jatoba": "ok"}


def test_the_worker_stores_what_banks_answer_while_redis_is_away(under_way: Query, freeze_redis: Outage) -> None:
    with freeze_redis():
        assert statuses(under_way, 15) == {"ipe": "ok", "jatoba": "ok"}


# --- while a client waits


@pytest.mark.parametrize("route", ["/consultas", "/providers/ipe/consultas"])
def test_a_database_that_is_away_when_the_banks_have_answered_loses_no_answer(
    client: Client, simulator: Simulator, live_service: LiveService, cut_database: Outage, route: str
) -> None:
    """Before the fix, the partner got 500 and the answers of all banks were lost."""
    simulator.bank("ipe", latency_ms=1500, operation="query")
    with ThreadPoolExecutor() as pool:
        result = pool.submit(client.post, route, query_body(providers=["ipe"]))
        wait_until(lambda: simulator.calls("ipe", "query"), 10, "the bank was asked")
        earlier = len(live_service.programs.logs("banks"))
        with cut_database():
            wait_until(lambda: REFUSED in live_service.programs.logs("banks")[earlier:], 8, "the worker tries to store")
        reply = result.result(60)
    assert reply.status_code == 200
    told = reply.json()
    assert len(told["proposals"] if route == "/consultas" else told["offers"]) == 2
    assert Event.objects.filter(name="lead").count() == (route == "/consultas")
    assert Query.objects.get().finished_at is not None


def test_a_stream_whose_answers_can_not_be_kept_is_complete_all_the_same(
    client: Client, simulator: Simulator, cut_database: Outage
) -> None:
    """Before the fix, the stream was cut off without its last event, after all answers had been sent."""
    simulator.bank("ipe", latency_ms=1500, operation="query")
    stream = client.post("/consultas/stream", query_body(providers=["ipe"]), stream=True)
    wait_until(lambda: simulator.calls("ipe", "query"), 10, "the bank was asked")
    with cut_database():
        told = [event["event"] for _, event in streamed(stream)]
    assert told[-2:] == ["provider_result", "complete"]
    wait_until(lambda: Query.objects.get().finished_at, 20, "the answers are stored once the database is back")
    stream.close()


def test_a_database_that_was_long_away_is_found_again_soon_after_it_is_back(
    client: Client, cut_database: Outage
) -> None:
    def listed(_: int) -> tuple[int, float]:
        began = time.monotonic()
        return client.get("/proposals").status_code, time.monotonic() - began

    with ThreadPoolExecutor(2 * CALLS) as pool:
        assert {status for status, _ in pool.map(listed, range(CALLS))} == {200}
        with cut_database():
            began = time.monotonic()
            for number in range(CALLS):
                pool.submit(listed, number)
            wait_until(lambda: time.monotonic() - began > OUTAGE_S, OUTAGE_S + 5, "the waits have grown")
        replies = list(pool.map(listed, range(CALLS)))
        assert {status for status, _ in replies} == {200}
        assert max(took for _, took in replies) < FOUND_S, replies
