"""A Redis that accepts connections and answers nothing. It is worse than one that is gone, because each access takes a
whole time-out."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import requests

from proposals.models import Proposal
from providers import registry
from tests.client import Client, query_body
from tests.processes import LiveService, Outage, Simulator, wait_until
from tests.proposals.datasets import dataset

#: One access and 5 s of attempts to publish, or these and one more access.
LIMIT_S = 7
#: Added for a busy machine. Without limits, a call took 20 s and more.
BUSY_S = 8
#: More than the database connections of the web process.
MANY = 40


def timed(call: Callable[[], requests.Response]) -> tuple[requests.Response, float]:
    began = time.monotonic()
    return call(), time.monotonic() - began


def test_every_call_is_answered_within_seconds_and_nothing_is_left_behind(
    client: Client, simulator: Simulator, live_service: LiveService, freeze_redis: Outage
) -> None:
    offer, other = client.query(providers=["ipe"])["proposals"]
    proposal_id = client.post("/proposals", dataset(other)).json()["proposal_id"]
    calls: dict[str, Callable[[], requests.Response]] = {
        "aggregated": lambda: client.post("/consultas", query_body()),
        "by value": lambda: client.post("/consultas", query_body(loan_value=3000)),
        "stream": lambda: client.post("/consultas/stream", query_body()),
        "individual": lambda: client.post("/providers/ipe/consultas", query_body()),
        "submit": lambda: client.post("/proposals", dataset(offer)),
        "formalize": lambda: client.post(f"/proposals/{proposal_id}/formalize"),
        "status": lambda: client.get(f"/proposals/{proposal_id}"),
    }
    with freeze_redis(), ThreadPoolExecutor(len(calls)) as pool:
        replies = dict(zip(calls, pool.map(timed, calls.values()), strict=True))
        # Later than the others, because its result may be 2 s old.
        replies["ready"] = timed(lambda: requests.get(f"{live_service.url}/health/ready", timeout=60))
    seconds = {name: took for name, (_, took) in replies.items()}
    assert max(seconds.values()) < LIMIT_S + BUSY_S, seconds
    assert seconds["ready"] < 1 + BUSY_S
    statuses = {name: reply.status_code for name, (reply, _) in replies.items()}
    down = dict.fromkeys(("aggregated", "by value", "submit", "formalize"), 502)
    assert statuses == down | {"stream": 200, "individual": 200, "status": 200, "ready": 503}
    for name in down:
        error = replies[name][0].json()
        assert (error["code"], error["retryable"]) == ("provider_unavailable", True), name
    assert replies["individual"][0].json()["status"] == "error"
    assert replies["stream"][0].text.count('"provider_error"') == len(registry.names())
    assert replies["status"][0].json()["error"]["code"] == "provider_unavailable"

    live_service.wait_ready()
    again = client.post("/proposals", dataset(offer))
    assert (again.status_code, len(simulator.contracts("ipe"))) == (201, 2)
    assert client.post(f"/proposals/{proposal_id}/formalize").json()["status"] == "awaiting_signature"
    assert len(client.query(providers=["ipe"])["proposals"]) == 2


def test_many_queries_hold_no_database_connection_meanwhile(client: Client, freeze_redis: Outage) -> None:
    """Before the fix, a query held a connection while it waited for its flight: the ninth found a pool of 8 empty."""

    def query(number: int) -> tuple[requests.Response, float]:
        return timed(lambda: client.post("/consultas", query_body(nome=f"Pessoa Numero {number}")))

    with ThreadPoolExecutor(MANY) as pool:
        with freeze_redis():
            waiting = [pool.submit(query, number) for number in range(MANY)]
            listed = [timed(lambda: client.get("/proposals")) for _ in range(20)]
            replies = [each.result() for each in waiting]
        assert {reply.status_code for reply, _ in listed} == {200}
        assert max(took for _, took in listed) < 2 * BUSY_S
        assert {reply.status_code for reply, _ in replies} == {502}
        assert max(took for _, took in replies) < LIMIT_S + 2 * BUSY_S  # so many at once also wait for each other


def test_a_query_whose_banks_answer_into_it_ends_at_its_deadline(
    client: Client, simulator: Simulator, live_service: LiveService, freeze_redis: Outage
) -> None:
    """Before the fix, the answers could not reach the web process, which was to store them, and were lost."""
    live_service.programs.restart("web", QUERY_DEADLINE_S="6")
    live_service.wait_ready()
    simulator.bank("ipe", latency_ms=1000, operation="query")
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(timed, lambda: client.post("/consultas", query_body(providers=["ipe"])))
        wait_until(lambda: simulator.calls("ipe", "query"), 10, "the bank was asked")
        with freeze_redis():
            reply, took = waiting.result()
    assert (reply.status_code, len(reply.json()["proposals"])) == (200, 2), "the worker stored what the bank answered"
    assert 5 < took < 6 + BUSY_S


def test_a_submission_that_is_under_way_is_answered_once_it_is_back(
    client: Client, simulator: Simulator, live_service: LiveService, freeze_redis: Outage
) -> None:
    """Before the fix, the worker's reply was lost with the first time-out, and the partner waited 30 s for it."""
    offer: dict[str, Any] = client.offer("ipe")
    simulator.bank("ipe", latency_ms=1000, operation="submit")
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(timed, lambda: client.post("/proposals", dataset(offer)))
        wait_until(lambda: simulator.calls("ipe", "submit"), 10, "a worker sends")
        told = len(live_service.programs.logs("banks"))
        with freeze_redis():
            away = "redis_away"
            wait_until(lambda: away in live_service.programs.logs("banks")[told:], 20, "the worker can't tell")
        reply, took = waiting.result()
    assert reply.status_code == 201, reply.text
    assert took < 15
    assert Proposal.objects.get().submission == Proposal.Submission.ACCEPTED
    assert len(simulator.contracts("ipe")) == 1


@pytest.fixture(autouse=True)
def _warm(client: Client) -> None:
    """Let every process connect first, so that open connections are frozen."""
    client.query(providers=["jatoba"])
