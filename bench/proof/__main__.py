"""`make proof`: the whole service under load while everything is killed, and afterwards the count of broken promises.

python -m bench.proof --seed 7 --minutes 2

The schedule of faults, the holders and what they do follow from the seed; `--replay SEED` runs them again. Writes the
report to var/proof/. The exit code is 1 if a promise was broken.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from random import SystemRandom
from typing import Any

import psycopg

from bench.proof import oracles
from bench.proof.backend import Backend, Diary, until
from bench.proof.rig import CONTROL_TOKEN, ROOT, Rig
from bench.proof.schedule import Fault, schedule
from bench.proof.shoppers import Shoppers
from bench.proof.strikes import Striker
from providers import registry
from tests.processes import Simulator

HOME = ROOT / "var" / "proof"
BANKS = registry.names()
PARTNERS = 3
EVENTS = "lead,authorization_result,authorization.completed,query.completed,proposal"
#: New holders a second.
RATE = 2.0
PROGRESS_EVERY_S = 15
#: What nobody disturbs any more must be settled after this time.
SETTLE_S = 120


class Run:
    """One run. The main thread starts and kills processes; actors are threads, which no fault affects."""

    def __init__(self, rig: Rig, seed: int, seconds: float) -> None:
        self.rig, self.seed, self.seconds = rig, seed, seconds
        self.diary = Diary()
        self.over = threading.Event()
        self.simulator = Simulator(rig.simulator, CONTROL_TOKEN)
        self.struck: list[tuple[Fault, float]] = []
        self.partners: list[Backend] = []
        self._began = time.monotonic()

    def run(self) -> dict[str, Any]:
        """Returns the report."""
        self.partners = [self._register(f"Prova {number}", BANKS) for number in range(PARTNERS)]
        shoppers = Shoppers(self.seed, self.partners, self.rig.simulator, BANKS, self.over)
        with ThreadPoolExecutor() as pool:
            work = [pool.submit(shoppers.run, RATE)]
            try:
                self._strike()
            finally:
                self.over.set()
            while not all(task.done() for task in work):
                self.rig.revive()
                time.sleep(0.5)
        for task in work:
            task.result()
        return self._judge()

    def _register(self, name: str, banks: list[str]) -> Backend:
        done = self.rig.manage("create_partner", name, "--providers", ",".join(banks), "--events", EVENTS)
        return Backend(self.rig.api, json.loads(done.stdout), self.diary)

    def _strike(self) -> None:
        striker = Striker(self.rig, self.simulator)
        began = self._began = time.monotonic()
        told = 0.0
        for fault in schedule(self.seed, self.seconds, BANKS):
            while (left := began + fault.at - time.monotonic()) > 0:
                time.sleep(min(left, 0.25))
                striker.go_on()
                if time.monotonic() - told > PROGRESS_EVERY_S:
                    told = time.monotonic()
                    self._tell()
            self.struck.append((fault, time.time()))
            striker.strike(fault)
        striker.end()
        for bank in BANKS:
            self.simulator.bank(bank)

    def _tell(self) -> None:
        passed = time.monotonic() - self._began
        counts = f"{len(self.diary.calls)} calls, {len(self.diary.sales)} submissions, {len(self.struck)} faults"
        left = max(0.0, self.seconds - passed)
        sys.stderr.write(f"proof {self.seed}: {passed:.0f} s, {counts}; {left:.0f} s left, then the settling\n")
        sys.stderr.flush()

    def _judge(self) -> dict[str, Any]:
        with self.rig.connect() as database:
            until(lambda: not self._unsettled(database), SETTLE_S)
            rows, ledger = oracles.proposals(database), self._ledger()
        found = [*oracles.contracts(rows, ledger, self.diary)]
        found.append(("proposals whose status is not the bank's", oracles.behind(rows, ledger)))
        found.append(("answers that the contract forbids", self.diary.broken))
        found.append(("processes that ended by themselves", self.rig.ended))
        calls = Counter(f"{call.what} {call.status or 'lost'} {call.code}".strip() for call in self.diary.calls)
        return {
            "seed": self.seed,
            "minutes": round(self.seconds / 60, 1),
            "calls": dict(sorted(calls.items())),
            "done": self.diary.done,
            "submissions": len(self.diary.sales),
            "contracts": len(ledger),
            "faults": Counter(f"{fault.kind} {fault.target}" for fault, _ in self.struck),
            "broken": {promise: len(each) for promise, each in found},
            "found": {promise: [str(one) for one in each][:20] for promise, each in found if each},
        }

    def _ledger(self) -> list[oracles.Contract]:
        return [
            oracles.Contract(bank, each["contract"], each["reference"], each["status"])
            for bank in BANKS
            for each in self.simulator.contracts(bank)
        ]

    def _unsettled(self, database: psycopg.Connection[Any]) -> bool:
        """True while a submission has no outcome or a status is not the bank's. Partners look at those once more."""
        rows, ledger = oracles.proposals(database), self._ledger()
        behind = oracles.behind(rows, ledger)
        backends = {backend.id: backend for backend in self.partners}
        for row in behind:
            backends[row.partner].call("GET", f"/proposals/{row.id}")
        return bool(behind) or any(row.submission in ("sending", "unknown") for row in rows)


def main() -> int:
    parser = argparse.ArgumentParser(prog="proof", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seed", "--replay", type=int, default=SystemRandom().randrange(1, 10**6))
    parser.add_argument("--minutes", type=float, default=20)
    arguments = parser.parse_args()
    home = HOME / str(arguments.seed)
    shutil.rmtree(home, ignore_errors=True)
    with Rig(home).running() as rig:
        report = Run(rig, arguments.seed, arguments.minutes * 60).run()
    (home / "report.json").write_text(json.dumps(report, indent=2, ensure_ascii=False))
    print(json.dumps(report, indent=2, ensure_ascii=False))
    return int(any(report["broken"].values()))


if __name__ == "__main__":
    sys.exit(main())
