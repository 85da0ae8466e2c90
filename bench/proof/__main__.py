"""`make proof`: the whole service under load while everything is killed, and afterwards the count of broken promises.

python -m bench.proof --seed 7 --minutes 2

The schedule of faults, the holders and what they do follow from the seed; `--replay SEED` runs them again. Data and
logs stay in var/proof/SEED, the report beside them; with `--commit` it becomes part of docs/proof.md, too. The exit
code is 1 if a promise was broken. With `--without GUARD`, the service runs with one of its guards switched off, and the
exit code is 1 if the run did not find that.
"""

from __future__ import annotations

import argparse
import json
import logging
import shutil
import sys
import threading
import time
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from random import SystemRandom
from typing import Any

import psycopg

from bench.proof import oracles, report, visitors
from bench.proof.backend import Backend, Diary, build_client, until
from bench.proof.guards import GUARDS, Guard
from bench.proof.receivers import Endpoint, Follower
from bench.proof.rig import CONTROL_TOKEN, ROOT, Rig, with_own_mounts
from bench.proof.schedule import Fault, schedule
from bench.proof.shoppers import Shoppers
from bench.proof.strikes import Striker
from providers import registry
from tests.processes import Simulator

HOME = ROOT / "var" / "proof"
BANKS = registry.names()
PARTNERS = 3
EVENTS = "lead,authorization_result,authorization.completed,query.completed,proposal"
#: The time-out of the banks' calls, in seconds. The default, 25 s, would make each run end five minutes later: a lost
#: submission is final only after it.
BANK_TIMEOUT_S = 5
#: New holders who shop, a second.
RATE = 2.0
#: The pauses of the other actors, in seconds.
VISITORS = {
    "stream": (visitors.stream, 1.5),
    "stream-2": (visitors.stream, 1.5),
    "step": (visitors.finish_step, 1.0),
    "step-2": (visitors.finish_step, 1.0),
    "authorization": (visitors.authorize, 2.0),
    "suspension": (visitors.suspend, 20),
    "resend": (visitors.resend, 20),
    "erasure": (visitors.erase, 20),
}
PROGRESS_EVERY_S, SAMPLE_EVERY_S = 15, 10
#: What nobody disturbs any more must be settled after this time.
SETTLE_S = 150


class Run:
    """One run. The main thread starts and kills processes; actors are threads, which no fault affects."""

    def __init__(self, rig: Rig, seed: int, seconds: float, endpoint: Endpoint, url: str) -> None:
        self.rig, self.seed, self.seconds, self.endpoint = rig, seed, seconds, endpoint
        self.diary = Diary()
        self.over = threading.Event()
        self.simulator = Simulator(rig.simulator, CONTROL_TOKEN)
        self.struck: list[tuple[Fault, float]] = []
        self.samples: list[dict[str, float]] = []
        partners = [self._register(f"Prova {number}", url) for number in range(PARTNERS)]
        suspended = self._register("Suspensa", url)
        self.scene = visitors.Scene(rig, seed, partners, suspended, _scenarios(), endpoint, self.over)
        self.followers = [Follower(each, is_impatient=wild) for each in partners for wild in (False, True)]
        self._began = time.monotonic()

    def run(self) -> dict[str, Any]:
        """Returns the report."""
        shoppers = Shoppers(self.seed, self.scene.partners, self.rig.simulator, BANKS, self.over)
        for follower in self.followers:
            follower.start()
        with ThreadPoolExecutor(1 + len(VISITORS)) as pool:
            work: list[Future[None]] = [pool.submit(shoppers.run, RATE)]
            for name, (act, every_s) in VISITORS.items():
                work.append(pool.submit(self.scene.repeat, name, every_s, partial(act, self.scene)))
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

    def _register(self, name: str, url: str) -> Backend:
        options = ("--providers", ",".join(BANKS), "--webhook-url", url, "--events", EVENTS)
        registered = json.loads(self.rig.manage("create_partner", name, *options).stdout)
        self.endpoint.secrets[registered["partner_id"]] = registered["webhook_secret"]
        return Backend(self.rig.api, registered, self.diary, BANKS)

    def _strike(self) -> None:
        striker = Striker(self.rig, self.simulator)
        self._began = time.monotonic()
        told = sampled = 0.0
        faults = schedule(self.seed, self.seconds, BANKS)
        if "pgbouncer" not in self.rig.servers:
            faults = [fault for fault in faults if fault.target != "pgbouncer"]
        while (passed := time.monotonic() - self._began) < self.seconds or faults:
            if faults and faults[0].at <= passed:
                self.struck.append((faults[0], time.time()))
                striker.strike(faults.pop(0))
            striker.go_on()
            if passed >= told:
                told = passed + PROGRESS_EVERY_S
                self._tell(passed)
            if passed >= sampled:
                sampled = passed + SAMPLE_EVERY_S
                self._sample()
            time.sleep(0.1)
        striker.end()
        for bank in BANKS:
            self.simulator.bank(bank)

    def _tell(self, passed: float) -> None:
        counts = f"{len(self.diary.calls)} calls, {len(self.diary.sales)} submissions, {len(self.struck)} faults"
        left = f"{max(0.0, self.seconds - passed):.0f} s left, then up to {SETTLE_S} s until all is settled"
        sys.stderr.write(f"proof {self.seed}: {counts}; {left}\n")
        sys.stderr.flush()

    def _sample(self) -> None:
        sample = {f"MiB {name}": size for name, size in self.rig.memory().items()}
        try:
            with self.rig.connect() as database:
                [[count]] = database.execute("SELECT count(*) FROM pg_stat_activity WHERE datname IS NOT NULL")
                sample["connections"] = float(str(count))
        except psycopg.OperationalError:
            return
        self.samples.append(sample)

    def _judge(self) -> dict[str, Any]:
        sys.stderr.write(f"proof {self.seed}: waiting until all is settled, at most {SETTLE_S} s\n")
        with self.rig.connect() as database:
            began = time.monotonic()
            until(lambda: not self._unsettled(database), SETTLE_S, every_s=2)
            sys.stderr.write(f"proof {self.seed}: settled after {time.monotonic() - began:.0f} s\n")
            self._sample()
            found = dict(self._findings(database))
            rows = database.execute("SELECT id, extract(epoch FROM created_at)::float8 FROM webhooks_event").fetchall()
            recovery = report.recoveries(self.struck, self.diary, self.endpoint, dict(rows))
            counts = self._counts(database)
        growth = report.growth(self.samples)
        found["processes whose memory or connections grow"] = report.grown(growth)
        calls = Counter(f"{call.what} {call.status or 'lost'} {call.code}".strip() for call in self.diary.calls)
        return {
            "seed": self.seed,
            "commit": report.commit(),
            "minutes": round(self.seconds / 60, 1),
            "counts": counts,
            "broken": {promise: len(each) for promise, each in found.items()},
            "found": {promise: [str(one) for one in each][:20] for promise, each in found.items() if each},
            "recovery_s": recovery,
            "growth": growth,
            "faults": report.kinds(self.struck),
            "calls": dict(sorted(calls.items())),
        }

    def _findings(self, database: psycopg.Connection[Any]) -> list[oracles.Finding]:
        rows, ledger = oracles.proposals(database), self._ledger()
        scene = self.scene
        verified = self.rig.manage("verify_evidence")
        return [
            *oracles.contracts(rows, ledger, self.diary),
            ("proposals whose status is not the bank's", oracles.behind(rows, ledger)),
            *oracles.queries(database, self.diary, scene.erased),
            *oracles.events(database, self.endpoint),
            *oracles.causes(database, self.endpoint, scene.sessions, scene.erased),
            *oracles.steps(database, self.endpoint, scene.steps),
            *oracles.feed(database, self.endpoint, self.followers),
            *oracles.leftovers(database, scene.indexes),
            *oracles.personal_data(self._written(), self.diary.cpfs, self._secrets()),
            ("events sent again that did not come", scene.not_come_again()),
            ("evidence chain", [verified.stdout] if verified.returncode else []),
            ("answers that the contract forbids", self.diary.broken),
            ("processes that ended by themselves", self.rig.ended),
        ]

    def _counts(self, database: psycopg.Connection[Any]) -> dict[str, Any]:
        [[queries, proposals, events]] = database.execute(
            "SELECT (SELECT count(*) FROM consultas_query), (SELECT count(*) FROM proposals_proposal),"
            " (SELECT count(*) FROM webhooks_event)"
        ).fetchall()
        kinds = Counter(fault.kind for fault, _ in self.struck)
        return {
            "queries": queries,
            "submissions": proposals,
            "events": events,
            "deliveries beyond the first": len(self.endpoint.taken) - len({each.id for each in self.endpoint.taken}),
            "kills": kinds["kill"] + kinds["wipe"] + kinds["worker"],
            "freezes": kinds["freeze"],
            "PgBouncer": "yes" if "pgbouncer" in self.rig.servers else "no",
            "full disks": kinds["disk"] if self.rig.has_disk else "not done",
            "faults of banks": sum(count for kind, count in kinds.items() if kind not in report.OF_SERVICE),
            "authorizations": len(self.scene.sessions),
            "steps ended by holders": self.scene.steps.total(),
            "events sent again": len(self.scene.resent),
            **dict(sorted(self.diary.done.items())),
        }

    def _secrets(self) -> list[str]:
        backends = [*self.scene.partners, self.scene.suspended]
        return [secret for backend in backends for secret in (backend.key, backend.secret)]

    def _written(self) -> list[Path]:
        """The logs of all processes but the simulated banks, and what Redis wrote to its disk."""
        logs = [each for each in (self.rig.home / "logs").iterdir() if each.name not in ("simulator", "prepare")]
        return logs + [each for each in (self.rig.home / "redis").rglob("*") if each.suffix == ".aof"]

    def _ledger(self) -> list[oracles.Contract]:
        return [
            oracles.Contract(bank, each["contract"], each["reference"], each["status"])
            for bank in BANKS
            for each in self.simulator.contracts(bank)
        ]

    def _unsettled(self, database: psycopg.Connection[Any]) -> bool:
        """True while a submission has no outcome, a status is not the bank's, or an event has not arrived. Partners
        look once more at proposals whose status is not the bank's."""
        rows = oracles.proposals(database)
        behind = oracles.behind(rows, self._ledger())
        backends = {backend.id: backend for backend in self.scene.partners}
        for row in behind:
            backends[row.partner].call("GET", f"/proposals/{row.id}", what="a proposal afterwards")
        waiting = [*oracles.events(database, self.endpoint), *oracles.feed(database, self.endpoint, self.followers)]
        unknown = any(row.submission in ("sending", "unknown") for row in rows)
        return bool(behind) or unknown or any(each for _, each in waiting) or bool(self.scene.not_come_again())


def _scenarios() -> dict[str, list[str]]:
    """The banks that wait for a step, of each scenario of the catalogue that has one."""
    catalogue = json.loads((ROOT / "simulator" / "catalogue.json").read_text("utf-8"))
    return {row["scenario"]: list(row["banks"]) for row in catalogue["scenarios"] if row["scenario"] in visitors.STEPS}


def _say_found(guard: Guard, told: dict[str, Any]) -> int:
    """Print what a run without `guard` found. Returns the exit code."""
    found = {promise: count for promise, count in told["broken"].items() if count}
    print(json.dumps({"without": guard.what, "found": found, "counts": told["counts"]}, indent=2, ensure_ascii=False))
    return int(not found.keys() & set(guard.finds))


def main() -> int:
    parser = argparse.ArgumentParser(prog="proof", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seed", "--replay", type=int, default=SystemRandom().randrange(1, 10**6))
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--commit", action="store_true", help="add the run to docs/proof.md")
    parser.add_argument("--pgbouncer", action="store_true", help="put PgBouncer before PostgreSQL")
    parser.add_argument("--without", choices=GUARDS, metavar="GUARD", help="|".join(GUARDS))
    arguments = parser.parse_args()
    with_own_mounts("bench.proof")
    home = HOME / str(arguments.seed)
    shutil.rmtree(home, ignore_errors=True)
    logging.getLogger("origination").setLevel(logging.ERROR)  # it tells each repeated call
    build_client(home / "clients")
    endpoint = Endpoint(arguments.seed)
    guard = GUARDS.get(arguments.without)
    code = guard.copy_without(home / "code") if guard else ROOT
    rig = Rig(home, code=code, BANK_TIMEOUT_S=str(BANK_TIMEOUT_S))
    if arguments.pgbouncer:
        rig.use_pgbouncer()
    with rig.running(), endpoint.serve() as server:
        told = Run(rig, arguments.seed, arguments.minutes * 60, endpoint, server.url).run()
    if guard:
        return _say_found(guard, told)
    report.write(told, HOME)
    if arguments.commit:
        report.write(told, report.RUNS)
        report.fill_page()
    print(report.tables([told]))
    print(json.dumps(told["found"], indent=2, ensure_ascii=False))
    return int(any(told["broken"].values()))


if __name__ == "__main__":
    sys.exit(main())
