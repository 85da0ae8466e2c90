"""Kills every process of the service in turn while partners query and submit and holders complete steps, and then
checks every event and contract.

python -m tests.faults.api_chaos --rounds 1 --every 8 --down 1 --rate 4 --lease 30

The processes are those of `make run`, with their own servers, ports and folder. Partners' queries are sent at a
constant rate; each causes a `lead`. At the same time one holder per bank with an external step completes steps one
after another; each causes an `authorization_result`. Offers are submitted at a constant rate, too, and repeated
whenever the service allows it (see `sales`). Each of FAULTS happens once per round. Prints one JSON object. The exit
code is 1 if `broken` names a broken promise.
"""

from __future__ import annotations

import argparse
import io
import itertools
import json
import os
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis
import requests
import urllib3

from config.local.run import service_processes
from config.local.servers import free_port
from providers import registry
from providers.bank import Bank
from tests.client import FULL_FLOW, Client, query_body
from tests.faults.sales import Sales
from tests.faults.webhooks_rig import START_TIMEOUT_S, Rig, Tally
from tests.processes import Simulator, answers, wait_until

#: A process is killed with SIGKILL. Redis is also emptied while it runs, and killed with its folder removed.
FAULTS = ("web", "redis-wiped", "banks", "postgres", "webhooks", "redis-flushed", "beat", "redis", "default", "sweeps")
#: The banks that answer without a step of the holder.
LEAD_BANKS = sorted(bank.name for bank in registry.BANKS if bank.check is Bank.check)
#: By bank: its holder in the catalogue, and the step that the bank waits for.
STEPS = {
    "imbuia": ("90000002461", "liveness"),
    "peroba": ("90000000337", "chat"),
    "canela": ("90000000418", "sms"),
    "cedro": ("90000001902", "confirmation"),
}
PARTNERS = 3
#: A step whose check died with its worker waits until that check's lease expires; an event waits for its own lease.
SETTLE_TIMEOUT_S = 120
LONGEST_ANSWER_S = 40
#: The least time for killing and restarting something, in seconds.
RESTART_S = 1
CONTROL_TOKEN = "chaos-control"


@dataclass(frozen=True)
class Asked:
    """A query and its result. `status` is None if the connection was refused or broke."""

    at: float
    done_at: float
    status: int | None
    group: str | None


class Crowd:
    """Backends of `partners` (by id) and holders, in threads of this process, which no fault affects.

    They continue until `over` is set. `finished` counts, by partner and bank, the steps that a query had shown and the
    holder then completed.
    """

    def __init__(self, rig: Rig, simulator_url: str, partners: dict[str, Client]) -> None:
        self.partners = partners
        self.over = threading.Event()
        self.asked: list[Asked] = []
        self.finished: Counter[tuple[str, str]] = Counter()
        self.simulator = Simulator(simulator_url, CONTROL_TOKEN)
        self.sales = Sales(self.simulator, partners, self.over, SETTLE_TIMEOUT_S)
        self._rig = rig
        self._simulator = simulator_url

    def query(self, rate: float) -> None:
        """Send `rate` queries a second. Returns when all are answered."""
        clients = itertools.cycle(self.partners.values())
        with ThreadPoolExecutor(max_workers=max(8, int(rate * LONGEST_ANSWER_S))) as pool:
            for number in itertools.count():
                pool.submit(self._query_once, next(clients), 1000 + number % 8000)
                if self.over.wait(1 / rate):
                    return

    def _query_once(self, client: Client, amount: int) -> None:
        # With an amount, no query repeats another: each stores its own offers and sends its own lead.
        at = time.time()
        status, body = _ask(client, FULL_FLOW, LEAD_BANKS, loan_value=amount, prazo=24)
        self.asked.append(Asked(at, time.time(), status, body.get("simulationGroupId") if status == 200 else None))

    def finish_steps(self, bank: str) -> None:
        """Act as the holder of `bank`: refuse step after step, for each partner in turn, and approve the last one.

        After a refused step the next query can open another. Fails if the partner did not get the event of one step
        before the next.
        """
        for partner_id in itertools.cycle(self.partners):
            outcome = "approved" if self.over.is_set() else "refused"
            self._finish_step(partner_id, bank, outcome)
            if outcome == "approved":
                return

    def _finish_step(self, partner_id: str, bank: str, outcome: str) -> None:
        cpf, step = STEPS[bank]
        client = self.partners[partner_id]
        shown = f"{bank}: a query shows the step"
        wait_until(lambda: _shows_step(client, bank, cpf), SETTLE_TIMEOUT_S, shown, every_s=0.5)
        told = self.told()[partner_id, bank]
        self._complete(bank, cpf, step, outcome)
        self.finished[partner_id, bank] += 1
        is_told = f"{bank}: the partner is told: {outcome}"
        wait_until(lambda: self.told()[partner_id, bank] > told, SETTLE_TIMEOUT_S, is_told, every_s=0.5)

    def told(self) -> Counter[tuple[str, str]]:
        """The number of distinct `authorization_result` events that arrived, by partner and bank."""
        return Counter((body["partner_id"], body["provider"]) for body in self.events("authorization_result"))

    def events(self, name: str) -> list[dict[str, Any]]:
        """The bodies of all distinct events with that name that the partners received."""
        bodies = {row["id"]: json.loads(row["body"]) for row in self._rig.received()}
        return [each for each in bodies.values() if each["event"] == name and each["partner_id"] in self.partners]

    def _complete(self, bank: str, cpf: str, step: str, outcome: str) -> None:
        reply = urllib3.request(
            "POST",
            f"{self._simulator}/_control/holders/{cpf}/complete",
            json={"provider": bank, "step": step, "outcome": outcome},
            headers={"X-Control-Token": CONTROL_TOKEN, "Connection": "close"},
            retries=False,
            timeout=10,
        )
        # At imbuia the simulator ends the step after 15 s, and a fault may last longer.
        assert reply.status in ((200, 409) if bank == "imbuia" else (200,)), reply.data


def _ask(client: Client, cpf: str, banks: list[str], **wish: int) -> tuple[int | None, dict[str, Any]]:
    try:
        response = client.post("/consultas", query_body(cpf, providers=banks, **wish))
        return response.status_code, response.json()
    except requests.RequestException:
        return None, {}


def _shows_step(client: Client, bank: str, cpf: str) -> bool:
    status, body = _ask(client, cpf, [bank])
    return status == 200 and body["providerResults"][bank]["requiresSignature"]


@contextmanager
def service(home: Path) -> Iterator[tuple[Rig, Crowd]]:
    """The whole service with its sandbox's banks, ready, and partners for it. Stopped afterwards."""
    port, simulator_port = free_port(), free_port()
    os.environ |= {"PORT": str(port), "SIMULATOR_PORT": str(simulator_port)}
    (home / "static").mkdir(parents=True)
    with Rig(home, couriers=0).running() as rig:
        from django.core.management import call_command

        call_command("seed_sandbox", stdout=io.StringIO())
        environment = {
            "CALLBACK_BASE_URL": f"http://127.0.0.1:{port}",
            "SIMULATOR_CONTROL_TOKEN": CONTROL_TOKEN,
            "PYTHONUNBUFFERED": "1",
        }
        for process in service_processes(environment, home):
            rig.add(process.name, process.command, process.environment)
        api = f"http://127.0.0.1:{port}"
        wait_until(lambda: answers(f"{api}/health/ready") == 200, START_TIMEOUT_S, "the service is ready")
        rig.warm_up()
        yield rig, Crowd(rig, f"http://127.0.0.1:{simulator_port}", _make_partners(rig, api))


def _make_partners(rig: Rig, api: str) -> dict[str, Client]:
    from partners.models import ApiKey, Partner

    made = {}
    for number in range(PARTNERS):
        partner = Partner.objects.create(name=f"Carga {number}", webhook_url=rig.receiver_url)
        partner.rotate_webhook_secret()
        partner.allow_only([*LEAD_BANKS, *STEPS])
        made[str(partner.pk)] = Client(api, ApiKey.issue(partner)[1])
    return made


def strike(rig: Rig, fault: str, down_s: float) -> None:
    """Cause one of FAULTS. What was killed is restarted `down_s` later."""
    name, _, extent = fault.partition("-")
    if extent == "flushed":
        with closing(redis.Redis.from_url(rig.services["redis"].url)) as client:
            client.flushall()
    else:
        rig.restart(name, wipe=extent == "wiped", down_s=down_s)


def run(rounds: int, every: float, down: float, rate: float, sales: float, lease: int, folder: Path | None) -> int:
    """Run the rounds. Returns the exit code."""
    os.environ["WEBHOOK_LEASE_S"] = str(lease)
    with tempfile.TemporaryDirectory() as temporary, service(folder or Path(temporary)) as (rig, crowd):
        struck: list[tuple[str, float]] = []
        crowd.sales.stock(int(sales * len(FAULTS) * rounds * (every + RESTART_S)))
        with ThreadPoolExecutor(2 + len(STEPS)) as pool:
            work = [pool.submit(crowd.query, rate), pool.submit(crowd.sales.sell, sales)]
            work += [pool.submit(crowd.finish_steps, bank) for bank in STEPS]
            try:
                for fault in FAULTS * rounds:
                    crowd.over.wait(every)
                    struck.append((fault, time.time()))
                    strike(rig, fault, down)
                crowd.over.wait(every)
            finally:
                crowd.over.set()
        tally = rig.wait_until_settled(list(crowd.partners), SETTLE_TIMEOUT_S)
        broken = [*_broken(rig, crowd, tally), *(str(task.exception()) for task in work if task.exception())]
        report = {
            "queries": _answers(crowd.asked),
            "sales": crowd.sales.report(),
            "steps_finished": crowd.finished.total(),
            "accepted": tally.accepted,
            "missing": tally.missing,
            "duplicates": tally.duplicates,
            "latency_s": {f"p{p}": round(tally.percentile(p), 3) for p in (50, 95, 99, 100)},
            "faults": [_recovery(rig, crowd, fault, at) for fault, at in struck],
            "broken": broken,
        }
        print(json.dumps(report, indent=2))  # noqa: T201
        return 1 if broken else 0


def _broken(rig: Rig, crowd: Crowd, tally: Tally) -> list[str]:
    """The broken promises, with their number."""
    from consultas.models import Step

    leads = Counter(body["simulation_group_id"] for body in crowd.events("lead"))
    groups = {asked.group for asked in crowd.asked if asked.group}
    told = crowd.told()
    steps = [(str(partner), bank, state) for partner, bank, state in Step.objects.values_list(*_STEP)]
    closed = Counter((partner, bank) for partner, bank, state in steps if state != Step.State.OPEN)
    counts = {
        "accepted events did not arrive": tally.missing,
        "events are not known to be delivered": tally.unsettled,
        "answered queries have no lead": len(groups - leads.keys()),
        "queries have a second lead": leads.total() - len(leads),
        "finished steps were not told": (crowd.finished - told).total(),
        "closed steps were not told": (closed - told).total(),
        "steps were told twice": (told - closed).total(),
        "finished steps are open": len(steps) - closed.total(),
        "kinds of event never happened": (not groups) + len(STEPS.keys() - {bank for _, bank in crowd.finished}),
        **crowd.sales.broken(),
    }
    return [f"{count} {promise}" for promise, count in counts.items() if count]


_STEP = ("partner_id", "provider", "state")


def _answers(asked: list[Asked]) -> dict[str, Any]:
    """How queries were answered: statuses, and the longest time."""
    statuses = Counter(str(each.status or "connection lost") for each in asked)
    return {
        "asked": len(asked),
        **dict(sorted(statuses.items())),
        "longest_s": round(max((each.done_at - each.at for each in asked), default=0.0), 3),
    }


def _recovery(rig: Rig, crowd: Crowd, fault: str, at: float) -> dict[str, Any]:
    """The values of `Rig.recovery`, and the seconds until a query that was sent after the fault was answered."""
    later = [each.done_at - at for each in crowd.asked if each.at > at and each.status == 200]
    answered = round(min(later), 3) if later else None
    return {"fault": fault, "answers_again_after_s": answered, **rig.recovery(at)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=1, help="how often each fault happens")
    parser.add_argument("--every", type=float, default=8, help="seconds between two faults")
    parser.add_argument("--down", type=float, default=1, help="seconds until what was killed is started again")
    parser.add_argument("--rate", type=float, default=4, help="queries a second")
    parser.add_argument("--sales", type=float, default=6, help="offers submitted a second")
    parser.add_argument("--lease", type=int, default=30, help="WEBHOOK_LEASE_S")
    parser.add_argument("--folder", type=Path, help="a new folder for data and logs, which then stay")
    sys.exit(run(**vars(parser.parse_args())))
