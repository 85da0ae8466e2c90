"""From the query to the disbursement, at every bank, over real HTTP."""

import itertools
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import requests

from proposals.models import Move, Proposal
from providers import registry
from tests.client import FULL_FLOW, Client
from tests.processes import Simulator, wait_until
from tests.proposals.datasets import dataset

WAIT_S = 30


def to_the_money(client: Client, simulator: Simulator, bank: str) -> str:
    """Query, submit, formalize, sign, and wait for the money; the proposal's id."""
    offer = client.offer(bank)
    submitted = client.submit(dataset(offer))
    assert submitted["offer"] == offer
    proposal_id: str = submitted["proposal_id"]

    def formalized() -> dict[str, Any] | None:
        response = client.post(f"/proposals/{proposal_id}/formalize")
        assert response.status_code in (200, 409), response.text  # 409 until the desk has approved
        return response.json() if response.status_code == 200 else None

    contract = wait_until(formalized, WAIT_S, "the contract is issued")
    assert contract["status"] == "awaiting_signature"
    assert contract["action"]["type"] == "signature"
    assert contract["action"]["url"].startswith(simulator.url)
    assert contract["action"]["delivery"] == {"channel": "link", "destination": None}
    signed = requests.get(contract["action"]["url"], timeout=10)
    assert signed.status_code == 200, "the holder's page opens"
    simulator.complete(FULL_FLOW, bank, "signature")

    paid = wait_until(
        lambda: (found := client.read(f"/proposals/{proposal_id}"))["status"] == "disbursed" and found,
        WAIT_S,
        "the contract is disbursed",
    )
    assert (paid["action"], paid["error"]) == (None, None)
    return proposal_id


def test_from_query_to_disbursement_at_every_bank(client: Client, simulator: Simulator) -> None:
    """All banks at once, because each takes real seconds for desk, signature and payment."""
    banks = registry.names()
    with ThreadPoolExecutor(len(banks)) as pool:
        flows = {bank: pool.submit(to_the_money, client, simulator, bank) for bank in banks}
    for bank, flow in flows.items():
        row = Proposal.objects.get(pk=flow.result())
        [entry] = simulator.contracts(bank)
        assert (entry["contract"], entry["reference"], entry["status"]) == (row.native_id, row.reference, "disbursed")
        moves = list(Move.objects.filter(proposal=row).values_list("from_status", "to_status"))
        assert moves[0] == ("", "created")
        assert all(before[1] == after[0] for before, after in itertools.pairwise(moves))
        assert moves[-1][1] == "disbursed"
        assert ("created", "awaiting_signature") in moves or ("in_analysis", "awaiting_signature") in moves
