"""A partner's places for calls that wait for a bank worker. Over several processes: tests/partners/test_limits.py."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from partners import limits
from partners.models import Partner
from proposals.models import BankCall, Proposal
from tests.client import Client, error_body, query_body
from tests.factories import PartnerFactory, issue_key
from tests.processes import LiveService, Simulator, wait_until
from tests.proposals.datasets import dataset
from tests.proposals.test_actions import look_again, submitted

LIMIT = 2
AUCTION = "/auction-proposals/lk_7Qm2vXo4Tn8sZr1KpW5eYdHc3JbUfGa9"
QUERIES = ("/consultas", "/consultas/stream", "/providers/ipe/consultas")
FULL = error_body(
    "rate_limited", "O limite de consultas simultâneas foi atingido: espere que uma termine.", retryable=True
)


@pytest.fixture
def partner(live_service: LiveService) -> Partner:
    return PartnerFactory(providers=["ipe", "jatoba"])


@pytest.fixture
def client(live_service: LiveService, partner: Partner) -> Client:
    return Client(live_service.url, issue_key(partner)[1])


def leave_places(partner: Partner, count: int) -> None:
    """Set the partner's limit, once its earlier calls are not counted any more."""
    wait_until(lambda: limits.today(partner).in_flight == 0, 10, "earlier calls have ended")
    Partner.objects.filter(pk=partner.pk).update(in_flight_limit=count)


def test_without_a_place_each_call_that_needs_a_worker_is_refused_before_anything_is_stored(
    partner: Partner, client: Client, stranger: Client, simulator: Simulator
) -> None:
    """Before the fix, one key held 559 of 560 streams."""
    offer, proposal_id = client.offer("jatoba"), submitted(client, "ipe")
    look_again(proposal_id)
    calls = BankCall.objects.count()
    leave_places(partner, LIMIT)
    simulator.bank("ipe", latency_ms=20_000, operation="query")
    streams = []
    for left in reversed(range(LIMIT)):
        streams.append(client.post("/consultas/stream", query_body(providers=["ipe"]), stream=True))
        assert streams[-1].status_code == 200
        assert streams[-1].headers["RateLimit-Policy"] == f'"in-flight";q={LIMIT};qu="concurrent-requests"'
        assert streams[-1].headers["RateLimit"] == f'"in-flight";r={left}'
    known = {"proposal_id": proposal_id}
    for path, body, more in (
        *((path, query_body(), {}) for path in QUERIES),
        ("/proposals", dataset(offer), {}),
        *((f"/proposals/{proposal_id}/{call}", None, known) for call in ("formalize", "cancel")),
    ):
        refused = client.post(path, body)
        assert (refused.status_code, refused.json()) == (429, {**FULL, **more}), path
        assert (refused.headers["Retry-After"], refused.headers["RateLimit"]) == ("1", '"in-flight";r=0')
    assert client.get(AUCTION).json() == FULL
    assert client.post("/proposals", {}).status_code == 422, "a faulty body is told first"
    shown = client.get(f"/proposals/{proposal_id}")
    assert (shown.status_code, shown.json()["status"]) == (200, "created"), "a status is told without a place"
    assert shown.json()["error"]["code"] == "provider_unavailable"
    assert (Proposal.objects.count(), BankCall.objects.count()) == (1, calls), "a refused call leaves no row"
    for path in ("/banks", "/proposals"):
        assert client.get(path).status_code == 200, "what needs no worker needs no place"
    assert stranger.post("/consultas", query_body(providers=["jatoba"])).status_code == 200
    for stream in streams:
        stream.close()
    wait_until(lambda: client.post("/proposals", dataset(offer)).status_code == 201, 10, "the places are free again")


def test_an_auction_look_up_holds_a_place(partner: Partner, client: Client, simulator: Simulator) -> None:
    """Before the fix, 1,300 look-ups at a slow bank held back another partner's query for 14 s."""
    leave_places(partner, 1)
    simulator.bank("ipe", latency_ms=3_000, operation="auction")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.get, AUCTION)
        wait_until(lambda: simulator.calls("ipe", "auction"), 20, "the bank is asked")
        assert client.post("/consultas", query_body()).json() == FULL
        assert waiting.result().status_code == 200
    simulator.bank("ipe")
    wait_until(lambda: client.get(AUCTION).status_code == 200, 10, "the place is free again")
