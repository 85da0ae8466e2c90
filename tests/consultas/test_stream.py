"""POST /partners/v1/consultas/stream; GET /partners/v1/consultas/{queryId} and its stream, and `max_wait_ms`."""

import json
import time
from typing import Any

import requests

from consultas.models import Offer, Query
from partners.models import Partner
from providers import registry
from tests.client import Client, query_body, streamed
from tests.processes import LiveService, Simulator, wait_until
from tests.proposals.datasets import dataset
from webhooks.models import Event


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
    message = "Banco indisponível no momento. Tente novamente em instantes."
    assert error == {
        "event": "provider_error",
        "queryId": error["queryId"],
        "provider": "sucupira",
        "error": message,
        "reasons": [{"code": "unavailable", "source": "bank", "message": message, "retryable": True}],
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


# --- A query, and its stream again ----------------------------------------------------------------------------------


def without_time(reply: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in reply.items() if name != "timestamp"}


def test_it_is_the_reply_again(client: Client) -> None:
    """`max_wait_ms` changes nothing where the banks are quick."""
    reply = client.query(providers=["ipe", "jatoba"], partner_reference="pedido-7", max_wait_ms=30000)
    assert (reply["partnerReference"], reply["complete"]) == ("pedido-7", True)
    assert without_time(client.read(f"/consultas/{reply['queryId']}")) == without_time(reply)


def test_streamed_and_individual_queries_are_there_without_offer_ids(client: Client) -> None:
    client.post("/consultas/stream", query_body(providers=["ipe"], partner_reference="fluxo-1"))
    envelope = client.query_one("ipe", partner_reference="um-1")
    assert envelope["partner_reference"] == "um-1"
    row = Query.objects.get(kind=Query.Kind.STREAM)
    for query_id, reference in ((str(row.pk), "fluxo-1"), (envelope["query_id"], "um-1")):
        reply = client.read(f"/consultas/{query_id}")
        assert (reply["complete"], reply["partnerReference"]) == (True, reference)
        assert [offer["offerId"] for offer in reply["proposals"]] == [None, None]
        assert reply["simulationGroupId"] is None
    assert not Offer.objects.exists()
    assert [event.name for event in Event.objects.all()] == ["query.completed"] * 2


def test_a_reply_after_max_wait_has_what_landed_and_the_query_goes_on(client: Client, simulator: Simulator) -> None:
    simulator.bank("jatoba", latency_ms=2500, operation="query")
    began = time.monotonic()
    reply = client.query(providers=["ipe", "jatoba"], max_wait_ms=900)
    assert 0.9 <= time.monotonic() - began < 2.4
    assert reply["complete"] is False
    late = reply["providerResults"]["jatoba"]
    assert (late["status"], late["success"], late["proposals"]) == ("processing", True, [])
    assert {offer["provider"] for offer in reply["proposals"]} == {"ipe"}
    client.submit(dataset(reply["proposals"][0]))
    rest = streamed(client.get(f"/consultas/{reply['queryId']}/stream"))
    landed = ["start", *["provider_start"] * 2, *["provider_result"] * 2, "complete"]
    assert [event["event"] for _, event in rest] == landed
    whole = client.read(f"/consultas/{reply['queryId']}")
    assert whole["complete"] is True
    assert {offer["provider"] for offer in whole["proposals"]} == {"ipe", "jatoba"}
    assert [each for each in whole["proposals"] if each["provider"] == "ipe"] == reply["proposals"]
    assert whole["simulationGroupId"] == reply["simulationGroupId"]
    assert sorted(event.name for event in Event.objects.exclude(name__startswith="proposal")) == [
        "lead",
        "query.completed",
    ]


def test_a_stream_goes_on_after_the_last_event_that_came(client: Client, simulator: Simulator) -> None:
    simulator.bank("jatoba", latency_ms=1500, operation="query")
    cut = client.post("/consultas/stream", query_body(providers=["ipe", "jatoba"]), stream=True)
    last, event = next(each for each in streamed(cut) if each[1]["event"] == "provider_result")
    cut.close()

    def after(event_id: str | None) -> requests.Response:
        headers = {"Last-Event-ID": event_id} if event_id else {}
        return client.get(f"/consultas/{event['queryId']}/stream", headers=headers)

    assert [(each["event"], each.get("provider")) for _, each in streamed(after(last))] == [
        ("provider_result", "jatoba"),
        ("complete", None),
    ]
    numbers, told = zip(*streamed(after(None)), strict=True)
    assert numbers == ("o0", "o1", "o2", "b1", "b3", "c")
    assert [each.get("provider") for each in told] == [None, "ipe", "jatoba", "ipe", "jatoba", None]
    assert after("c").status_code == 204


def test_a_contract_without_banks_has_ended_at_once(client: Client, partner: Partner) -> None:
    partner.allow_only([])
    began = time.monotonic()
    assert client.query()["complete"] is True
    stream = client.post("/consultas/stream", query_body())
    assert [event["event"] for _, event in streamed(stream)] == ["start", "complete"]
    assert time.monotonic() - began < 5
    assert not Query.objects.filter(finished_at=None).exists()
