"""POST /partners/v1/consultas/stream."""

import json
import time
from typing import Any

import requests

from consultas.models import Query
from providers import registry
from tests.client import Client, query_body, streamed
from tests.processes import LiveService, Simulator, wait_until


def opened(client: Client, **query: Any) -> requests.Response:
    """A streamed query whose events are read as they come."""
    return client.post("/consultas/stream", query_body(**query), stream=True)


def test_events_in_order_and_whole_each_as_it_lands(client: Client, simulator: Simulator) -> None:
    simulator.bank("jatoba", latency_ms=1500, operation="query")
    reply = opened(client, providers=["ipe", "jatoba"])
    assert reply.status_code == 200
    assert reply.headers["Content-Type"] == "text/event-stream"
    assert reply.headers["Cache-Control"] == "no-cache"
    assert reply.headers["X-Accel-Buffering"] == "no"
    assert reply.headers["X-Request-Id"]
    arrived = [(time.monotonic(), event) for _, event in streamed(reply)]
    told = [event for _, event in arrived]
    assert told[0]["event"] == "start"
    assert told[0]["message"]
    assert [event["provider"] for event in told[1:3]] == ["ipe", "jatoba"]
    assert {event["event"] for event in told[1:3]} == {"provider_start"}
    query_id = str(Query.objects.get().pk)
    assert {event["queryId"] for event in told} == {query_id}
    assert told[-1] == {"event": "complete", "queryId": query_id}
    results, times = told[3:-1], [at for at, _ in arrived[3:]]
    assert [event["provider"] for event in results] == ["ipe", "jatoba"]
    assert times[0] + 0.5 < times[1] <= times[2]
    for result in results:
        assert result["event"] == "provider_result"
        assert result["success"] is True
        assert [offer["offerId"] for offer in result["proposals"]] == [None, None]
        assert {"vinculos", "error", "elapsedMs", "noProposalReasons", "requiresSignature", "signatureUrl"} <= set(
            result
        )


def test_a_refusal_is_a_result_and_an_outage_an_error(client: Client) -> None:
    told = [event for _, event in streamed(opened(client, cpf="90000001651"))]
    (error,) = [event for event in told if event["event"] == "provider_error"]
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
    assert sum(event["event"] == "provider_result" for event in told) == len(registry.names()) - 1


def test_silence_is_broken_by_heartbeats(client: Client, simulator: Simulator) -> None:
    simulator.bank("ipe", latency_ms=3_000, operation="query")
    lines = opened(client, providers=["ipe"]).text.splitlines()
    assert ": keep-alive" in lines
    assert json.loads(lines[-2][6:])["event"] == "complete"


def test_a_client_that_leaves_frees_what_is_held_for_it_and_loses_no_answer(
    client: Client, live_service: LiveService, simulator: Simulator
) -> None:
    """Before the fix, the web process stored the answers, but only those that had come before the client left."""
    written = len(live_service.programs.logs("web"))
    simulator.bank("ipe", latency_ms=5_000, operation="query")
    reply = opened(client, providers=["ipe"])
    next(streamed(reply))
    reply.close()
    wait_until(lambda: Query.objects.get().finished_at, 25, "the stream was closed")
    assert "Traceback" not in live_service.programs.logs("web")[written:]
    assert len(client.get(f"/consultas/{Query.objects.get().pk}").json()["proposals"]) == 2
