"""Submissions, events and streams of both clients while calls are lost and everything is killed.

python -m tests.clients --submissions 200 --outage 600

Each client works for a partner of its own, over a network that fails a third of the calls. Banks lose answers. Every
few seconds a partner's program, a web process or a bank worker is killed. For `--outage` seconds no call of the first
partner gets through. `listen` passes its events on to a receiver meanwhile. Prints one JSON object: the exit code is 1
unless each submission is one contract in the banks' ledgers, each event was handled once and in one order, and each
stream was handled whole.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any

from bench.proof.rig import CONTROL_TOKEN, Rig
from config.local import clients
from providers import registry
from tests.client import Client, query_body
from tests.clients.network import Network
from tests.clients.shop import LANGUAGES, Shop, break_at_random, whole_stream
from tests.processes import Simulator
from tests.proposals.datasets import dataset
from tests.receiver import Receiver

BANKS = registry.names()
COMMANDS = {"python": ("submit", "events", "stream", "listen"), "typescript": ("submit", "events", "stream")}
BANK_FAULTS = ("drop_after_accept", "http_503", "reset", "hang")
SHARE, KILL_EVERY_S, SETTLE_S = 0.33, 3.0, 600.0


class Trial:
    """One run. `shops` are the partners by language."""

    def __init__(self, rig: Rig, folder: Path, seed: int) -> None:
        self.rig, self.random = rig, Random(seed)
        self.simulator = Simulator(rig.simulator, CONTROL_TOKEN)
        self.networks = {language: Network(rig.api) for language in LANGUAGES}
        self.partners = {language: self._register(language) for language in LANGUAGES}
        self.shops = {
            language: Shop(language, clients.DEFAULT_FOLDER, network.url, self._key(language), folder / language)
            for language, network in self.networks.items()
        }
        self.kills: Counter[str] = Counter()
        self.streams: Counter[str] = Counter()
        self.broken_streams: list[Any] = []

    def _register(self, name: str) -> dict[str, str]:
        told = self.rig.manage("create_partner", name, "--providers", ",".join(BANKS), "--events", "lead,proposal")
        return json.loads(told.stdout)  # type: ignore[no-any-return]

    def _key(self, language: str) -> str:
        return self.partners[language]["api_key"]

    def stock(self, count: int) -> None:
        """Give each shop its part of `count` offers, of each bank in turn."""
        for number, (language, shop) in enumerate(self.shops.items()):
            service = Client(self.rig.api, self._key(language))
            wanted = (count + number) // len(self.shops)
            amounts = itertools.count(10_000 + 1000 * number)
            offers = (offer for amount in amounts for offer in service.query(loan_value=amount, prazo=24)["proposals"])
            for index, offer in enumerate(itertools.islice(offers, wanted)):
                shop.put(index, dataset(offer))
            shop.ask(query_body())

    def run(self, outage_s: float) -> None:
        """Return once all is submitted."""
        for seed, network in enumerate(self.networks.values()):
            break_at_random(network, seed, SHARE)
        for bank in BANKS:
            self.simulator.bank(bank, latency_ms=300, operation="submit")
        ends, network = time.monotonic() + outage_s, self.networks["python"]
        if outage_s:
            network.fault = lambda method, path: "refuse"
        while not self._is_over() or time.monotonic() < ends:
            if network.fault("", "") == "refuse" and time.monotonic() > ends:
                break_at_random(network, 0, SHARE)
            for shop in self.shops.values():
                self._revive(shop)
            bank, fault = self.random.choice(BANKS), self.random.choice(BANK_FAULTS)
            self.simulator.bank(bank, fault=fault, operation="submit", times=1)
            self._kill()
            time.sleep(KILL_EVERY_S)

    def end(self) -> None:
        """Kill the partners' programs."""
        for shop in self.shops.values():
            for command in list(shop.running):
                shop.kill(command)

    def _is_over(self) -> bool:
        return all(len(shop.done()) == len(list(shop.folder.glob("*.body"))) for shop in self.shops.values())

    def _revive(self, shop: Shop) -> None:
        """Start the shop's programs that were killed. A stream that was handled whole makes room for the next."""
        if ("complete", "-") in (streamed := shop.streamed()):
            shop.kill("stream")
            self.streams[shop.language] += 1
            if streamed != whole_stream(set(BANKS)):
                self.broken_streams.append(sorted(streamed.items()))
            (shop.folder / "stream").unlink()
        for command in COMMANDS[shop.language]:
            if command not in shop.running or shop.running[command].poll() is not None:
                shop.start(command)

    def _kill(self) -> None:
        language = self.random.choice(LANGUAGES)
        victim = self.random.choice([*COMMANDS[language], "web", "banks-0"])
        self.kills[victim] += 1
        if victim in COMMANDS[language]:
            self.shops[language].kill(victim)
        else:
            self.rig.kill(victim)
            self.rig.start(victim)

    def settle(self, received: Receiver) -> None:
        """Disturb nothing any more, and wait until every event is handled, or SETTLE_S."""
        for shop, network in zip(self.shops.values(), self.networks.values(), strict=True):
            network.fault = lambda method, path: ""
            self._revive(shop)
        deadline = time.monotonic() + SETTLE_S
        while any(self._missed().values()) or self.sent("python") - set(received.ids):
            if time.monotonic() > deadline:
                return
            time.sleep(1)

    def judge(self, received: Receiver) -> dict[str, Any]:
        """What came of it: how much was done, and what `broken` names."""
        ledger = Counter(each["reference"] for bank in BANKS for each in self.simulator.contracts(bank))
        done = Counter(told for shop in self.shops.values() for told in shop.done())
        accepted = self._ids("SELECT id FROM proposals_proposal WHERE submission = 'accepted'")
        handled = {language: shop.events() for language, shop in self.shops.items()}
        faults = Counter(call.fault for network in self.networks.values() for call in network.calls if call.fault)
        return {
            "submissions": sum(done.values()),
            "contracts": sum(ledger.values()),
            "events": {language: len(ids) for language, ids in handled.items()},
            "streams": self.streams,
            "kills": self.kills,
            "faults": faults,
            "broken": {
                "contracts of one submission, beyond the first": sum(ledger.values()) - len(ledger),
                "answers without a contract": len(set(done) - accepted),
                "contracts without an answer": len(accepted - set(done)),
                "answers given to two submissions": sum(done.values()) - len(done),
                "events missed": sum(self._missed().values()),
                "events handled twice": sum(len(ids) - len(set(ids)) for ids in handled.values()),
                "streams that lost or repeated an event": self.broken_streams,
                "events that listen missed": len(self.sent("python") - set(received.ids)),
                "events that listen reordered": int(list(dict.fromkeys(received.ids)) != handled["python"]),
            },
        }

    def sent(self, language: str) -> set[str]:
        """The ids of the partner's events in the outbox."""
        return self._ids("SELECT id FROM webhooks_event WHERE partner_id = %s", self.partners[language]["partner_id"])

    def _missed(self) -> dict[str, int]:
        return {language: len(self.sent(language) - set(shop.events())) for language, shop in self.shops.items()}

    def _ids(self, query: str, *values: str) -> set[str]:
        with self.rig.connect() as database:
            return {str(row[0]) for row in database.execute(query, values).fetchall()}


def main() -> int:
    parser = argparse.ArgumentParser(prog="clients", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--submissions", type=int, default=200)
    parser.add_argument("--outage", type=float, default=0)
    parser.add_argument("--seed", type=int, default=7)
    told = parser.parse_args()
    clients.build()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        rig = stack.enter_context(Rig(folder / "rig", copies=1, BANK_TIMEOUT_S="5").running())
        rig.set_up_django()
        trial = Trial(rig, folder, told.seed)
        received = stack.enter_context(Receiver())
        for network in trial.networks.values():
            stack.enter_context(network)
        stack.callback(trial.end)
        trial.shops["python"].forward_to = received.url
        trial.shops["python"].start("listen")  # begins with the next event
        trial.stock(told.submissions)
        trial.run(told.outage)
        trial.settle(received)
        report = trial.judge(received)
    sys.stdout.write(json.dumps(report, indent=2) + "\n")
    return int(any(report["broken"].values()))


if __name__ == "__main__":
    sys.exit(main())
