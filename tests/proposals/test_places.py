"""Every call that waits for a bank worker takes a place of its partner's, as a query does."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from partners import limits
from partners.models import Partner
from proposals.models import BankCall, Proposal
from tests.client import Client, error_body, query_body
from tests.factories import PartnerFactory, issue_key
from tests.processes import LiveService, Simulator, wait_until
from tests.proposals.datasets import dataset
from tests.proposals.test_actions import look_again, submitted

AUCTION = "/auction-proposals/lk_7Qm2vXo4Tn8sZr1KpW5eYdHc3JbUfGa9"
REFUSED = error_body(
    "rate_limited", "O limite de consultas simultâneas foi atingido: espere que uma termine.", retryable=True
)


@pytest.fixture
def partner(live_service: LiveService) -> Partner:
    return PartnerFactory(providers=["ipe", "jatoba"])


@pytest.fixture
def client(live_service: LiveService, partner: Partner) -> Client:
    return Client(live_service.url, issue_key(partner)[1])


def leave_one_place(partner: Partner) -> None:
    """Set the partner's limit to 1, once its earlier calls are not counted any more."""
    wait_until(lambda: limits.today(partner).in_flight == 0, 10, "earlier calls have ended")
    Partner.objects.filter(pk=partner.pk).update(in_flight_limit=1)


@contextmanager
def no_place_left(partner: Partner, client: Client, simulator: Simulator) -> Iterator[None]:
    """An open stream has the partner's only place."""
    leave_one_place(partner)
    simulator.bank("ipe", latency_ms=20_000, operation="query")
    stream = client.post("/consultas/stream", query_body(providers=["ipe"]), stream=True)
    assert stream.status_code == 200
    yield
    stream.close()


def test_an_auction_look_up_holds_a_place_and_needs_one(
    partner: Partner, client: Client, stranger: Client, simulator: Simulator
) -> None:
    """Before the fix, 1,300 look-ups at a slow bank held back another partner's query for 14 s."""
    leave_one_place(partner)
    simulator.bank("ipe", latency_ms=10_000, operation="auction")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.get, AUCTION)
        wait_until(lambda: simulator.calls("ipe", "auction"), 20, "the bank is asked")
        for refused in (client.get(AUCTION), client.post("/consultas", query_body())):
            assert (refused.status_code, refused.json()) == (429, REFUSED)
            assert (refused.headers["Retry-After"], refused.headers["RateLimit"]) == ("1", '"in-flight";r=0')
        assert client.get("/proposals").status_code == 200, "what needs no worker needs no place"
        assert stranger.post("/consultas", query_body()).status_code == 200
        assert waiting.result().status_code == 200
    simulator.bank("ipe")
    wait_until(lambda: client.get(AUCTION).status_code == 200, 10, "the place is free again")


def test_a_submission_without_a_place_is_refused_before_anything_is_stored(
    partner: Partner, client: Client, simulator: Simulator
) -> None:
    offer = client.offer("jatoba")
    with no_place_left(partner, client, simulator):
        refused = client.post("/proposals", dataset(offer))
        assert (refused.status_code, refused.json()) == (429, REFUSED)
        assert client.post("/proposals", {}).status_code == 422, "a faulty body is told first"
        assert not Proposal.objects.exists()
    wait_until(lambda: client.post("/proposals", dataset(offer)).status_code == 201, 10, "it may be sent again")


def test_a_proposals_other_calls_need_a_place_and_its_status_is_told_without_one(
    partner: Partner, client: Client, simulator: Simulator
) -> None:
    proposal_id = submitted(client, "ipe")
    look_again(proposal_id)
    calls = BankCall.objects.count()
    with no_place_left(partner, client, simulator):
        for call in ("formalize", "cancel"):
            refused = client.post(f"/proposals/{proposal_id}/{call}")
            assert (refused.status_code, refused.json()) == (429, {**REFUSED, "proposal_id": proposal_id})
        shown = client.get(f"/proposals/{proposal_id}")
        assert (shown.status_code, shown.json()["status"]) == (200, "created")
        assert shown.json()["error"]["code"] == "provider_unavailable"
        assert BankCall.objects.count() == calls, "a refused call leaves no row"

    def is_told_by_the_bank() -> bool:
        look_again(proposal_id)
        return client.get(f"/proposals/{proposal_id}").json()["error"] is None

    wait_until(is_told_by_the_bank, 10, "the place is free again")
