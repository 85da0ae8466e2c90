"""A partner's limit of queries in flight, through the running service with its two web processes."""

from __future__ import annotations

import requests

from partners.models import Partner
from tests.client import Client, error_body, query_body
from tests.factories import PartnerFactory, issue_key
from tests.processes import LiveService, Simulator, wait_until

LIMIT = 2
ROUTES = ("/consultas", "/consultas/stream", "/providers/ipe/consultas")


def limited(live_service: LiveService, **limits: int) -> tuple[Partner, Client]:
    partner = PartnerFactory(providers=["ipe"], **limits)
    return partner, Client(live_service.url, issue_key(partner)[1])


def test_one_key_holds_no_more_than_its_share_of_streams_and_leaves_the_others_alone(
    live_service: LiveService, simulator: Simulator, client: Client
) -> None:
    """Before the fix, one key held 559 of 560 streams."""
    _, greedy = limited(live_service, in_flight_limit=LIMIT)
    simulator.bank("ipe", latency_ms=8000, operation="query")
    streams: list[requests.Response] = []
    for left in reversed(range(LIMIT)):
        streams.append(greedy.post("/consultas/stream", query_body(), stream=True))
        assert streams[-1].status_code == 200
        assert streams[-1].headers["RateLimit-Policy"] == f'"in-flight";q={LIMIT};qu="concurrent-requests"'
        assert streams[-1].headers["RateLimit"] == f'"in-flight";r={left}'
    for path in ROUTES:
        refused = greedy.post(path, query_body())
        assert refused.status_code == 429
        assert refused.json() == error_body(
            "rate_limited", "O limite de consultas simultâneas foi atingido: espere que uma termine.", retryable=True
        )
        assert (refused.headers["Retry-After"], refused.headers["RateLimit"]) == ("1", '"in-flight";r=0')
    assert greedy.get("/banks").status_code == 200, "other calls are not queries"
    assert client.post("/consultas", query_body(providers=["cedro"])).status_code == 200
    simulator.bank("ipe")
    for stream in streams:
        stream.close()
    wait_until(
        lambda: greedy.post("/providers/ipe/consultas", query_body()).status_code == 200,
        10,
        "the places of clients that left are free",
    )


def test_more_cpfs_than_a_day_has_are_refused_and_those_of_today_are_not(live_service: LiveService) -> None:
    _, client = limited(live_service, daily_cpf_limit=1)
    first, second = query_body(), query_body("90000000337")
    assert client.post("/consultas", first).status_code == 200
    refused = client.post("/providers/ipe/consultas", second)
    assert (refused.status_code, refused.json()["code"]) == (429, "rate_limited")
    assert 0 < int(refused.headers["Retry-After"]) <= 24 * 3600
    assert '"cpfs-per-day";r=0;t=' in refused.headers["RateLimit"]
    assert client.post("/consultas", {**second, "cpf": "1"}).status_code == 422, "a faulty body is told first"
    again = client.post("/consultas", first)
    assert again.status_code == 200
    assert again.headers["RateLimit-Policy"] == (
        '"in-flight";q=128;qu="concurrent-requests", "cpfs-per-day";q=1;w=86400'
    )
