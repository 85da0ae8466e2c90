"""Partners that submit offers during faults. Afterwards the banks' own ledgers are the reference."""

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

#: A submission's latency at the banks, long enough for a killed process to have some in flight.
BANK_LATENCY_MS = 300
#: The banks' time-out, short enough for a killed worker's attempt to expire soon.
BANK_TIMEOUT_S = 3
PAUSE_S = 0.5
AT_ONCE = 64
#: Far from the amounts of other queries, so that no other query gets the same offer.
FIRST_AMOUNT = 10_000
LONG_AGO = timedelta(minutes=30)


@dataclass
class Sale:
    """One offer being submitted. It is open until it has a `proposal_id` or a `refusal` (an error code)."""

    partner_id: str
    bank: str
    offer_id: str
    tries: int = 0
    proposal_id: str | None = None
    refusal: str | None = None


class Sales:
    """Submissions that are repeated, as the contract allows, until the service reports their outcome.

    `partners` are backends by partner id. Once `over` is set, nothing is killed any more. From then on, the time for a
    final "not found", which otherwise takes minutes, is skipped. A sale without an outcome is given up `patience_s`
    seconds later.
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
        """Get `count` offers to submit, of each bank in turn. After that banks are slow, and the service's time-outs
        are short."""
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
        """Submit `rate` offers a second while there are any. Returns when all have an outcome."""
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
        """The number of sales by outcome."""
        return {
            "offers": len(self.sales),
            "acknowledged": sum(sale.proposal_id is not None for sale in self.sales),
            "repeated": sum(sale.tries > 1 for sale in self.sales),
        }

    def broken(self) -> dict[str, int]:
        """Each promise with the number of its violations. The banks' ledgers are the reference."""
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
    """Status and body. The status is None if the connection was refused or broke."""
    try:
        response = client.post("/proposals", dataset(offer))
        return response.status_code, response.json()
    except requests.RequestException:
        return None, {}


def _pass_time(sale: Sale) -> None:
    """Pretend that everything was sent long ago, if no process is working on it: the next check is then final."""
    from django.db import connection
    from django.utils import timezone

    from proposals.models import Proposal

    past = timezone.now() - LONG_AGO
    unknown = Proposal.objects.filter(
        partner=sale.partner_id, offer=sale.offer_id, submission=Proposal.Submission.UNKNOWN
    )
    unknown.update(sent_until=past, due_at=past)
    connection.close()
