"""Both clients while calls are lost and everything is killed: `python -m bench.clients [SUBMISSIONS] [SEED]`.

Each client works for a partner of its own, in several shops, over a network that fails a third of the calls. Banks
lose answers. Every few seconds a partner's program, the web process or a bank worker is killed. `listen` passes the
first partner's events on. Prints one JSON object. The exit code is 1 if anything under `broken` is not zero.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any

import requests

from bench.proof.backend import dataset, query_body
from bench.proof.rig import CONTROL_TOKEN, Rig
from clients import build as clients
from providers import registry
from tests.clients.network import Network
from tests.clients.shop import LANGUAGES, Shop, break_at_random, whole_stream
from tests.processes import Simulator, wait_until
from tests.receiver import Receiver

BANKS, CPF = registry.names(), "90000000175"
COMMANDS, BANK_FAULTS = ("submit", "events", "stream"), ("drop_after_accept", "http_503", "reset", "hang")
#: The shops of a partner. The first one also follows events and streams.
SHOPS = 5
#: The share of calls that fail, seconds between two kills, and the longest that the events may take at the end.
SHARE, KILL_EVERY_S, SETTLE_S = 0.33, 3.0, 600.0


class Trial:
    """One run: a partner, its network and its shops for each language."""

    def __init__(self, rig: Rig, folder: Path, seed: int, receiver: Receiver) -> None:
        self.rig, self.folder, self.random, self.receiver = rig, folder, Random(seed), receiver
        self.simulator = Simulator(rig.simulator, CONTROL_TOKEN)
        self.partners: dict[str, str] = {}
        self.networks: dict[str, Network] = {}
        self.shops: list[Shop] = []
        self.first: dict[str, Shop] = {}
        self.kills: Counter[str] = Counter()
        self.streams: Counter[bool] = Counter()  # by: handled whole
        for name in LANGUAGES:
            told = rig.manage("create_partner", name, "--providers", ",".join(BANKS), "--events", "lead,proposal")
            made, self.networks[name] = json.loads(told.stdout), Network(rig.api)
            self.partners[name], url = made["partner_id"], self.networks[name].root
            of_partner = [
                Shop(name, clients.DEFAULT_FOLDER, url, made["api_key"], folder / f"{name}-{number}")
                for number in range(SHOPS)
            ]
            self.shops += of_partner
            self.first[name] = of_partner[0]

    def stock(self, count: int) -> None:
        """Give each shop its part of `count` offers, of each bank in turn."""
        amounts = itertools.count(1000)  # below every bank's ceiling, so that no two offers are the same
        for number, shop in enumerate(self.shops):
            offers = (offer for amount in amounts for offer in self._offers(shop.key, amount))
            for index, offer in enumerate(itertools.islice(offers, (count + number) // len(self.shops))):
                shop.put(index, dataset(CPF, offer))
            shop.ask(query_body(CPF))

    def _offers(self, key: str, amount: int) -> list[dict[str, Any]]:
        body = query_body(CPF, loan_value=amount, prazo=24)
        url, headers = f"{self.rig.api}/partners/v1/consultas", {"X-Partner-Api-Key": key}
        found: list[dict[str, Any]] = requests.post(url, json=body, headers=headers, timeout=60).json()["proposals"]
        return found

    def run(self) -> None:
        """Disturb everything until all is submitted, then nothing until all events have come."""
        for seed, network in enumerate(self.networks.values()):
            break_at_random(network, seed, SHARE)
        for bank in BANKS:
            self.simulator.bank(bank, latency_ms=300, operation="submit")
        while any(len(shop.done()) < len(list(shop.folder.glob("*.body"))) for shop in self.shops):
            self.revive()
            if self.kills.total() % 3 == 0:  # a bank that fails at each try would never end
                fault = self.random.choice(BANK_FAULTS)
                self.simulator.bank(self.random.choice(BANKS), fault=fault, operation="submit", times=1)
            self._kill()
            time.sleep(KILL_EVERY_S)
        for network in self.networks.values():
            network.fault = lambda method, path: ""
        self.revive()
        deadline = time.monotonic() + SETTLE_S
        while any(self._missed().values()) and time.monotonic() < deadline:
            time.sleep(1)

    def revive(self) -> None:
        """Start what does not run. A stream that was handled to its end makes room for the next."""
        for shop in self.shops:
            if ("complete", "-") in (streamed := shop.streamed()):
                shop.kill("stream")
                self.streams[streamed == whole_stream(set(BANKS))] += 1
                (shop.folder / "stream").unlink()
            for command in COMMANDS if shop in self.first.values() else COMMANDS[:1]:
                if command not in shop.running or shop.running[command].poll() is not None:
                    shop.start(command)
        self.listen()

    def listen(self) -> None:
        """Run `listen` for the first partner. It goes on from where it stopped."""
        shop, state = self.first["python"], self.folder / "listen.json"
        if "listen" not in shop.running or shop.running["listen"].poll() is not None:
            [wheel] = clients.DEFAULT_FOLDER.glob("*.whl")
            command = [sys.executable, "-m", "origination", "listen", "--url", shop.url, "--state", str(state)]
            environment = {**os.environ, "PYTHONPATH": str(wheel), "ORIGINATION_KEY": shop.key}
            with (self.folder / "listen.log").open("a") as log:
                shop.running["listen"] = subprocess.Popen(
                    [*command, "--forward-to", self.receiver.url], env=environment, stdout=log, stderr=log, text=True
                )
            wait_until(state.exists, 60, "the listener has its place")

    def _kill(self) -> None:
        shop = self.random.choice(self.shops)
        victim = self.random.choice([*shop.running, "web", "banks-0"])
        self.kills[victim] += 1
        if victim in shop.running:
            shop.kill(victim)
        else:
            self.rig.kill(victim)
            self.rig.start(victim)

    def end(self) -> None:
        """Kill the partners' programs."""
        for shop in self.shops:
            for command in list(shop.running):
                shop.kill(command)

    def judge(self) -> dict[str, Any]:
        """What was done, and what is `broken`."""
        ledger = Counter(each["reference"] for bank in BANKS for each in self.simulator.contracts(bank))
        done = Counter(told for shop in self.shops for told in shop.done())
        accepted = self._ids("SELECT id FROM proposals_proposal WHERE submission = 'accepted'")
        handled = {name: shop.events() for name, shop in self.first.items()}
        return {
            "submissions": done.total(),
            "contracts": ledger.total(),
            "events": {name: len(ids) for name, ids in handled.items()},
            "forwarded": len(set(self.receiver.ids)),
            "streams": self.streams[True],
            "kills": self.kills,
            "faults": Counter(call.fault for each in self.networks.values() for call in each.calls if call.fault),
            "broken": {
                "contracts doubled": ledger.total() - len(ledger),
                "answers without a contract": len(set(done) - accepted),
                "contracts without an answer": len(accepted - set(done)) + abs(len(accepted) - ledger.total()),
                "events missed": sum(self._missed().values()),
                "events handled twice": sum(len(ids) - len(set(ids)) for ids in handled.values()),
                "events that listen reordered": int(list(dict.fromkeys(self.receiver.ids)) != handled["python"]),
                "streams that lost or repeated an event": self.streams[False],
            },
        }

    def _missed(self) -> dict[str, int]:
        query = "SELECT id FROM webhooks_event WHERE partner_id = %s"
        sent = {name: self._ids(query, partner) for name, partner in self.partners.items()}
        missed = {name: len(ids - set(self.first[name].events())) for name, ids in sent.items()}
        return {**missed, "listen": len(sent["python"] - set(self.receiver.ids))}

    def _ids(self, query: str, *values: str) -> set[str]:
        with self.rig.connect() as database:
            return {str(row[0]) for row in database.execute(query, values).fetchall()}


def main() -> int:
    count, seed = (int(given) for given in [*sys.argv[1:], *("200", "7")[len(sys.argv) - 1 :]])
    clients.build()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        rig = stack.enter_context(Rig(folder / "rig", copies=1, BANK_TIMEOUT_S="5").running())
        trial = Trial(rig, folder, seed, stack.enter_context(Receiver()))
        for network in trial.networks.values():
            stack.enter_context(network)
        stack.callback(trial.end)
        trial.listen()  # before the first event
        trial.stock(count)
        trial.run()
        report = trial.judge()
    sys.stdout.write(json.dumps(report, indent=2) + "\n")
    return int(any(report["broken"].values()))


if __name__ == "__main__":
    sys.exit(main())
