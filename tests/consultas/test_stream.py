"""POST /partners/v1/consultas/stream."""

from __future__ import annotations

import contextlib
import http.client
import json
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from consultas.models import Query
from partners.models import SANDBOX_KEY
from providers import registry
from tests.client import Client, query_body
from tests.processes import LiveService, Simulator, wait_until


class Stream:
    """One streamed query: the reply's head, and its events with the time at which each arrived."""

    def __init__(self, live_service: LiveService, body: dict[str, Any]) -> None:
        address = urlsplit(live_service.url)
        self.connection = http.client.HTTPConnection(address.hostname, address.port, timeout=60)
        headers = {
            "X-Partner-Api-Key": SANDBOX_KEY,
            "Content-Type": "application/json",
            "Accept": "text/event-stream",
        }
        self.began = time.monotonic()
        self.connection.request("POST", "/partners/v1/consultas/stream", json.dumps(body), headers)
        self.response = self.connection.getresponse()

    def close(self) -> None:
        self.response.close()
        self.connection.close()

    def lines(self) -> Iterator[tuple[float, str]]:
        while line := self.response.readline():
            yield time.monotonic() - self.began, line.decode()

    def events(self) -> Iterator[tuple[float, dict[str, Any]]]:
        for at, line in self.lines():
            if line.startswith("data: "):
                yield at, json.loads(line[6:])


@pytest.fixture
def stream(live_service: LiveService) -> Iterator[Callable[..., Stream]]:
    """Opens streamed queries, and closes them at the end."""
    with contextlib.ExitStack() as stack:

        def open_one(**query: Any) -> Stream:
            return stack.enter_context(contextlib.closing(Stream(live_service, query_body(**query))))

        yield open_one


def test_events_in_order_and_whole(stream: Callable[..., Stream]) -> None:
    reply = stream(providers=["ipe", "jatoba"])
    assert reply.response.status == 200
    assert reply.response.headers["Content-Type"] == "text/event-stream"
    assert reply.response.headers["Cache-Control"] == "no-cache"
    assert reply.response.headers["X-Accel-Buffering"] == "no"
    assert reply.response.headers["X-Request-Id"]
    events = [event for _, event in reply.events()]
    assert events[0]["event"] == "start"
    assert events[0]["message"]
    assert [event["provider"] for event in events[1:3]] == ["ipe", "jatoba"]
    assert {event["event"] for event in events[1:3]} == {"provider_start"}
    query_id = str(Query.objects.get().pk)
    assert {event["queryId"] for event in events} == {query_id}
    assert events[-1] == {"event": "complete", "queryId": query_id}
    results = {event["provider"]: event for event in events[3:-1]}
    assert sorted(results) == ["ipe", "jatoba"]
    for result in results.values():
        assert result["event"] == "provider_result"
        assert result["success"] is True
        assert [offer["offerId"] for offer in result["proposals"]] == [None, None]
        assert {"vinculos", "error", "elapsedMs", "noProposalReasons", "requiresSignature", "signatureUrl"} <= set(
            result
        )


def test_each_result_comes_by_itself_as_it_lands(stream: Callable[..., Stream], simulator: Simulator) -> None:
    simulator.bank("jatoba", latency_ms=1500, operation="query")
    arrivals = {e.get("provider", e["event"]): at for at, e in stream(providers=["ipe", "jatoba"]).events()}
    assert arrivals["ipe"] + 0.5 < arrivals["jatoba"] <= arrivals["complete"]


def test_a_refusal_is_a_result_and_an_outage_an_error(stream: Callable[..., Stream]) -> None:
    events = [event for _, event in stream(cpf="90000001651").events()]
    (error,) = [event for event in events if event["event"] == "provider_error"]
    assert error == {
        "event": "provider_error",
        "queryId": error["queryId"],
        "provider": "sucupira",
        "error": "Banco indisponível no momento. Tente novamente em instantes.",
        "reasons": [
            {
                "code": "unavailable",
                "source": "bank",
                "message": "Banco indisponível no momento. Tente novamente em instantes.",
                "retryable": True,
            }
        ],
        "elapsedMs": error["elapsedMs"],
    }
    assert sum(event["event"] == "provider_result" for event in events) == len(registry.names()) - 1


def test_silence_is_broken_by_heartbeats(stream: Callable[..., Stream], simulator: Simulator) -> None:
    simulator.bank("ipe", latency_ms=3_000, operation="query")
    lines = [line for _, line in stream(providers=["ipe"]).lines()]
    assert ": keep-alive\n" in lines
    assert json.loads(lines[-2][6:])["event"] == "complete"


def test_a_client_that_leaves_frees_what_is_held_for_it_and_loses_no_answer(
    client: Client, live_service: LiveService, stream: Callable[..., Stream], simulator: Simulator
) -> None:
    """Before the fix, the web process stored the answers, but only those that had come before the client left."""
    written = len(live_service.programs.logs("web"))
    simulator.bank("ipe", latency_ms=5_000, operation="query")
    reply = stream(providers=["ipe"])
    next(iter(reply.events()))
    reply.close()
    wait_until(lambda: Query.objects.get().finished_at, 25, "the stream was closed", live_service.logs)
    assert "Traceback" not in live_service.programs.logs("web")[written:]
    assert len(client.get(f"/consultas/{Query.objects.get().pk}").json()["proposals"]) == 2
