"""From a query to the money, at every bank, over real HTTP."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from proposals.models import Move, Proposal
from providers import registry
from tests.client import FULL_FLOW, Client
from tests.processes import Simulator, wait_until
from tests.proposals.datasets import dataset

WAIT_S = 30


def status_of(client: Client, proposal_id: str) -> dict[str, Any]:
    response = client.get(f"/proposals/{proposal_id}")
    assert response.status_code == 200, response.text
    return response.json()  # type: ignore[no-any-return]


@pytest.mark.parametrize("bank", registry.names())
def test_from_query_to_disbursement(client: Client, simulator: Simulator, bank: str) -> None:
    offer = client.query(providers=[bank])["proposals"][0]
    submitted = client.post("/proposals", dataset(offer))
    assert submitted.status_code == 201, submitted.text
    proposal_id = submitted.json()["proposal_id"]
    assert submitted.json()["offer"] == offer

    def formalized() -> dict[str, Any] | None:
        response = client.post(f"/proposals/{proposal_id}/formalize")
        assert response.status_code in (200, 409), response.text  # 409 until the desk approved
        return response.json() if response.status_code == 200 else None

    contract = wait_until(formalized, WAIT_S, "the contract is issued")
    assert contract["status"] == "awaiting_signature"
    assert contract["action"]["type"] == "signature"
    assert contract["action"]["url"].startswith(simulator.url)
    assert contract["action"]["delivery"] == {"channel": "link", "destination": None}
    simulator.complete(FULL_FLOW, bank, "signature")

    paid = wait_until(
        lambda: (found := status_of(client, proposal_id))["status"] == "disbursed" and found,
        WAIT_S,
        "the contract is disbursed",
    )
    assert (paid["action"], paid["error"]) == (None, None)
    [entry] = simulator.contracts(bank)
    row = Proposal.objects.get(pk=proposal_id)
    assert (entry["contract"], entry["reference"], entry["status"]) == (row.native_id, row.reference, "disbursed")
    moves = list(Move.objects.filter(proposal=row).values_list("from_status", "to_status"))
    assert moves[0] == ("", "created")
    assert all(before[1] == after[0] for before, after in itertools.pairwise(moves))
    assert moves[-1][1] == "disbursed"
    assert ("created", "awaiting_signature") in moves or ("in_analysis", "awaiting_signature") in moves
