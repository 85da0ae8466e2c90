"""Partners that submit offers while everything dies, and the banks' own ledgers as the oracle afterwards."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import requests

from tests.client import Client
from tests.processes import Simulator
from tests.proposals.datasets import dataset

#: A bank answers a submission so late that a process which is killed has some of them under way.
BANK_LATENCY_MS = 300
#: What a bank gets at the most, so that the try of a killed worker ends soon.
BANK_TIMEOUT_S = 3
PAUSE_S = 0.5
AT_ONCE = 64
#: Far from those of the other queries, so that nobody else is given the same offer.
FIRST_AMOUNT = 10_000
LONG_AGO = timedelta(minutes=30)


@dataclass
class Sale:
    """One offer on its way to its bank. Open until it has a `proposal_id` or a `refusal`, an error's code."""

    partner_id: str
    bank: str
    offer_id: str
    tries: int = 0
    proposal_id: str | None = None
    refusal: str | None = None


class Sales:
    """Submissions that are repeated, as the contract allows, until the service says how they ended.

    `partners` are backends by the partner's id. From `over` on nothing is killed any more: what a bank does not know
    by then may become known as such, which takes minutes else; a sale without an end after `patience_s` seconds more
    is given up.
    """

    def __init__(
        self, simulator: Simulator, partners: dict[str, Client], over: threading.Event, patience_s: float
    ) -> None:
        self.sales: list[Sale] = []
        self._simulator = simulator
        self._partners = partners
        self._over = over
        self._patience_s = patience_s
        self._stock: list[tuple[str, dict[str, Any]]] = []

    def stock(self, count: int) -> None:
        """Have `count` offers to sell, of each bank in turn. From then on banks are slow, and the service does not
        wait for them for long."""
        from providers.models import Provider

        Provider.objects.update(timeout_s=BANK_TIMEOUT_S)
        found: dict[str, list[tuple[str, dict[str, Any]]]] = {}
        partners = itertools.cycle(self._partners)
        for amount in itertools.count(FIRST_AMOUNT):
            if sum(map(len, found.values())) >= count:
                break
            partner_id = next(partners)
            for offer in self._partners[partner_id].query(loan_value=amount, prazo=24)["proposals"]:
                found.setdefault(offer["provider"], []).append((partner_id, offer))
        in_turn = itertools.chain.from_iterable(itertools.zip_longest(*found.values()))
        self._stock = [each for each in in_turn if each is not None]
        for bank in found:
            self._simulator.bank(bank, latency_ms=BANK_LATENCY_MS, operation="submit")

    def sell(self, rate: float) -> None:
        """Submit `rate` offers a second, while there are any, and return when all are settled."""
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for partner_id, offer in self._stock:
                self.sales.append(Sale(partner_id, offer["provider"], offer["offerId"]))
                pool.submit(self._settle, self.sales[-1], offer)
                if self._over.wait(1 / rate):
                    return

    def _settle(self, sale: Sale, offer: dict[str, Any]) -> None:
        give_up = None
        while give_up is None or time.monotonic() < give_up:
            sale.tries += 1
            status, body = _post(self._partners[sale.partner_id], offer)
            if status in (200, 201):
                sale.proposal_id = body["proposal_id"]
                return
            if status is not None and not body["retryable"]:
                sale.refusal = body["code"]
                return
            if self._over.is_set():
                give_up = give_up or time.monotonic() + self._patience_s
                _pass_time(sale)
            time.sleep(PAUSE_S)

    def report(self) -> dict[str, int]:
        """How the sales went."""
        return {
            "offers": len(self.sales),
            "acknowledged": sum(sale.proposal_id is not None for sale in self.sales),
            "repeated": sum(sale.tries > 1 for sale in self.sales),
        }

    def broken(self) -> dict[str, int]:
        """Promises, and how often each was not kept, with the ledgers as the truth."""
        from proposals.models import Proposal
        from providers import registry

        rows = {row.reference: row for row in Proposal.objects.filter(submission=Proposal.Submission.ACCEPTED)}
        ledger = [(bank, contract) for bank in registry.names() for contract in self._simulator.contracts(bank)]
        references = Counter(contract["reference"] for _, contract in ledger)
        agreed = {
            contract["reference"]
            for bank, contract in ledger
            if (row := rows.get(contract["reference"]))
            and (row.provider, row.native_id) == (bank, contract["contract"])
        }
        contracts = Counter(
            (str(rows[each].partner_id), str(rows[each].offer_id)) for each in references if each in rows
        )
        kept = {(str(row.pk), str(row.partner_id), str(row.offer_id)) for row in rows.values()}
        done = [sale for sale in self.sales if sale.proposal_id]
        return {
            "submissions have more than one contract": references.total() - len(references),
            "contracts are not as a proposal says": len(references.keys() - agreed),
            "proposals have no contract": len(rows.keys() - references.keys()),
            "acknowledged proposals are missing": sum(
                (sale.proposal_id, sale.partner_id, sale.offer_id) not in kept for sale in done
            ),
            "acknowledged offers have not one contract": sum(
                contracts[sale.partner_id, sale.offer_id] != 1 for sale in done
            ),
            "offers were refused": sum(sale.refusal is not None for sale in self.sales),
            "submissions have no end": sum(not (sale.proposal_id or sale.refusal) for sale in self.sales),
            "banks never had a submission": len({*registry.names()} - {sale.bank for sale in done}),
        }


def _post(client: Client, offer: dict[str, Any]) -> tuple[int | None, dict[str, Any]]:
    """Status and body; the status is None where the connection was refused or cut."""
    try:
        response = client.post("/proposals", dataset(offer))
        return response.status_code, response.json()
    except requests.RequestException:
        return None, {}


def _pass_time(sale: Sale) -> None:
    """As if what was sent of it had been sent long ago, where nobody is at it: the next look is final."""
    from django.db import connection
    from django.utils import timezone

    from proposals.models import Proposal

    past = timezone.now() - LONG_AGO
    unknown = Proposal.objects.filter(
        partner=sale.partner_id, offer=sale.offer_id, submission=Proposal.Submission.UNKNOWN
    )
    unknown.update(sent_until=past, next_reconcile_at=past)
    connection.close()
