"""Holders who take out a loan at a partner's: query, submission, signature. Each has a CPF of its own."""

from __future__ import annotations

import itertools
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

import requests

from bench.proof.backend import Backend, Diary, Reply, Sale, dataset, query_body

AT_ONCE = 96
#: How long a submission may be without an outcome once nothing is killed any more. A lost one is final after 80 s.
PATIENCE_S = 240
#: The shares of holders who go on to the next step.
SUBMIT, REPEAT, OTHER_DATA, OTHER_PARTNER, FORMALIZE, CANCEL = 0.7, 0.3, 0.2, 0.1, 0.8, 0.4
VERBS = ("approve", "approve", "approve", "refuse", None)  # None: the holder leaves


class Shoppers:
    """`rate` new holders a second, until `over` is set. The seed decides what each holder does."""

    def __init__(
        self, seed: int, partners: list[Backend], simulator: str, banks: list[str], over: threading.Event
    ) -> None:
        self._seed, self._partners, self._simulator, self._banks, self._over = seed, partners, simulator, banks, over
        self._gives_up_at = 0.0
        self._diary: Diary = partners[0].diary

    def run(self, rate: float) -> None:
        """Returns when all holders are done."""
        pace = Random(f"{self._seed}-pace")
        with ThreadPoolExecutor(AT_ONCE) as pool:
            tasks = []
            for number in itertools.count():
                tasks.append(pool.submit(self._shop, number))
                if self._over.wait(pace.expovariate(rate)):
                    break
            self._gives_up_at = time.monotonic() + PATIENCE_S
            for task in tasks:
                task.result()

    def _shop(self, number: int) -> None:
        random = Random(f"{self._seed}-holder-{number}")
        partner, cpf = random.choice(self._partners), self._diary.holder()
        requests.put(f"{self._simulator}/lab/holders/{cpf}", json={"scenario": "full_flow"}, timeout=30)
        banks = sorted(random.sample(self._banks, random.randint(2, len(self._banks))))
        wish = {} if random.random() < 0.3 else {"loan_value": 1000 + number % 6000, "prazo": 24}
        reply = partner.call("POST", "/consultas", query_body(cpf, providers=banks, **wish))
        if not reply.is_good:
            return
        self._diary.queries[reply.body["queryId"]] = (partner, banks)
        if reply.body["simulationGroupId"]:
            self._diary.groups.add(reply.body["simulationGroupId"])
        if reply.body["proposals"] and random.random() < SUBMIT:
            self._buy(random, partner, cpf, random.choice(reply.body["proposals"]))

    def _buy(self, random: Random, partner: Backend, cpf: str, offer: dict[str, Any]) -> None:
        sale = Sale(partner.id, offer["provider"], offer["offerId"], cpf)
        self._diary.sales.append(sale)
        self._submit(random, partner, sale, offer)
        if sale.proposal_id is None:
            return
        self._press(random, partner, sale, offer)
        path = f"/proposals/{sale.proposal_id}"
        if random.random() < FORMALIZE and partner.insist("POST", f"{path}/formalize", {}, self._over, random).is_good:
            self._sign(random.choice(VERBS), sale)
        partner.call("GET", path)
        if random.random() < CANCEL:
            self._expect(
                partner.call("POST", f"{path}/cancel", {"motivo": "desistiu"}), (200, 409, 501), "cancellations"
            )

    def _submit(self, random: Random, partner: Backend, sale: Sale, offer: dict[str, Any]) -> None:
        """Submit until the outcome is known, as the contract allows: every third holder by the Python client."""
        if random.random() < 0.3:
            self._submit_by_client(partner, sale, offer)
            return
        while not self._gives_up_at or time.monotonic() < self._gives_up_at:
            sale.tries += 1
            reply = partner.call("POST", "/proposals", dataset(sale.cpf, offer))
            if reply.is_good:
                sale.proposal_id = reply.body["proposal_id"]
                return
            if reply.is_final:
                sale.refusal = reply.body["code"]
                return
            time.sleep(random.uniform(0.5, 2))

    def _submit_by_client(self, partner: Backend, sale: Sale, offer: dict[str, Any]) -> None:
        try:
            sale.proposal_id = partner.client.submit(dataset(sale.cpf, offer))["proposal_id"]
        except Exception as fault:
            if not hasattr(fault, "proposal_id"):
                raise
            sale.refusal = getattr(fault, "code", "") or None  # without a code, the outcome is unknown

    def _press(self, random: Random, partner: Backend, sale: Sale, offer: dict[str, Any]) -> None:
        """Submit again: the same data, other data, and by another partner."""
        if random.random() < REPEAT:
            reply = partner.call("POST", "/proposals", dataset(sale.cpf, offer))
            if reply.is_good and reply.body["proposal_id"] != sale.proposal_id:
                self._diary.broken.append(f"a repeat of {sale.proposal_id} is {reply.body['proposal_id']}")
        if random.random() < OTHER_DATA:
            changed = partner.call("POST", "/proposals", dataset(sale.cpf, offer, account="8840217"))
            self._expect(changed, (409,), "repeats with other data")
        if random.random() < OTHER_PARTNER:
            other = next(each for each in self._partners if each is not partner)
            seen = other.call("GET", f"/proposals/{sale.proposal_id}")
            self._expect(seen, (404,), "looks at another partner's proposal")
            taken = other.call("POST", "/proposals", dataset(sale.cpf, offer))
            self._expect(taken, (404, 409, 422), "submissions of another partner's offer")

    def _expect(self, reply: Reply, statuses: tuple[int, ...], what: str) -> None:
        """While things die, a call may also fail for a time."""
        self._diary.done[what] += reply.status in statuses
        if reply.status not in (*statuses, None, 429, 500, 502, 503):
            self._diary.broken.append(f"{what}: HTTP {reply.status} {reply.body.get('code', '')}")

    def _sign(self, verb: str | None, sale: Sale) -> None:
        if verb:
            url = f"{self._simulator}/lab/holders/{sale.cpf}/steps/{verb}"
            requests.post(url, json={"provider": sale.bank, "step": "signature"}, timeout=30)
