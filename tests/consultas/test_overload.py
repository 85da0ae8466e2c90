"""A web process refuses queries beyond its limit before anything happens, and finishes those that it accepted."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from consultas.models import Query
from tests.client import Client, error_body, query_body
from tests.processes import Simulator

LIMIT = 4


@pytest.fixture
def web_environment() -> dict[str, str]:
    """The web process takes `LIMIT` queries at once."""
    return {"QUERIES_IN_FLIGHT": str(LIMIT)}


@pytest.mark.control("API4")
def test_beyond_the_limit_a_query_is_refused_before_it_begins(client: Client, simulator: Simulator) -> None:
    for bank in ("ipe", "cedro"):
        simulator.bank(bank, latency_ms=2000, operation="query")
    with ThreadPoolExecutor(LIMIT * 2) as pool:
        replies = list(pool.map(lambda _: client.post("/consultas", query_body(prazo=24)), range(LIMIT * 2)))
    accepted = [reply for reply in replies if reply.status_code == 200]
    refused = [reply for reply in replies if reply.status_code == 429]
    assert (len(accepted), len(refused)) == (LIMIT, LIMIT)
    for reply in refused:
        assert reply.json() == error_body(
            "rate_limited", "O serviço está no limite da sua capacidade. Tente novamente em instantes.", retryable=True
        )
        assert reply.headers["Retry-After"] == "1"
        assert reply.elapsed.total_seconds() < 1.5
    assert Query.objects.count() == LIMIT, "a refused query has no row"
    for reply in accepted:
        statuses = {result["status"] for result in reply.json()["providerResults"].values()}
        assert statuses <= {"ok", "no_offers", "requires_action", "pending"}, "an accepted query lost a bank"
    simulator.bank("ipe")
    simulator.bank("cedro")
    assert client.post("/consultas", query_body(prazo=24)).status_code == 200, "places are free again"
