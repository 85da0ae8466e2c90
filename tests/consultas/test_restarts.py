"""Web processes, Redis and PostgreSQL that fail while a query runs."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager

import pytest
import requests

from consultas.models import Query
from tests.client import Client, query_body
from tests.processes import LiveService, Simulator, answers, wait_until
from webhooks.models import Event

Cut = Callable[[], AbstractContextManager[None]]
#: PostgreSQL's words for a database that takes no connections.
REFUSED = "not currently accepting connections"


def test_a_repeat_soon_takes_over_from_a_web_process_that_was_killed(
    client: Client, simulator: Simulator, live_service: LiveService
) -> None:
    """Before the fix, the repeat (a partner's retry, for example) waited for the dead process until its own
    deadline."""
    simulator.bank("ipe", latency_ms=4000, operation="query")
    with ThreadPoolExecutor() as pool:
        cut_off = pool.submit(client.post, "/consultas", query_body(providers=["ipe"]))
        wait_until(lambda: simulator.calls("ipe", "query"), 10, "the bank was asked", live_service.logs)
        live_service.kill_web_workers()
        with pytest.raises(requests.ConnectionError):
            cut_off.result(60)
    simulator.bank("ipe")
    wait_until(lambda: answers(f"{live_service.url}/health/live"), 20, "another process serves", live_service.logs)
    began = time.monotonic()
    assert len(client.query(providers=["ipe"])["proposals"]) == 2
    assert time.monotonic() - began < 15


@pytest.mark.parametrize("route", ["/consultas", "/providers/ipe/consultas"])
def test_a_database_that_is_away_when_the_banks_have_answered_loses_no_answer(
    client: Client, simulator: Simulator, live_service: LiveService, cut_database: Cut, route: str
) -> None:
    """Before the fix, the partner got 500 and the answers of all banks were lost."""
    simulator.bank("ipe", latency_ms=1500, operation="query")
    with ThreadPoolExecutor() as pool:
        result = pool.submit(client.post, route, query_body(providers=["ipe"]))
        wait_until(lambda: simulator.calls("ipe", "query"), 10, "the bank was asked", live_service.logs)
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
    client: Client, simulator: Simulator, live_service: LiveService, cut_database: Cut
) -> None:
    """Before the fix, the stream was cut off without its last event, after all answers had been sent."""
    simulator.bank("ipe", latency_ms=1500, operation="query")
    stream = client.post("/consultas/stream", query_body(providers=["ipe"]), stream=True)
    wait_until(lambda: simulator.calls("ipe", "query"), 10, "the bank was asked", live_service.logs)
    events = []
    with cut_database():
        for line in stream.iter_lines(chunk_size=1):
            events += [line] if line.startswith(b"data: ") else []
            if b'"complete"' in line:
                break
    assert b"provider_result" in events[-2]
    wait_until(lambda: Query.objects.get().finished_at, 20, "the answers are stored once the database is back")
    stream.close()
