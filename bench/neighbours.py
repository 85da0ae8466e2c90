"""Measures a quiet partner while a hostile neighbour performs one act after another (bench/hostile.py).

python -m bench.neighbours --seconds 12 --only log-in

The processes are those of `make run`, with their own servers, ports and folder, on loopback. The quiet partner lists
its banks, queries and streams at a constant rate, first alone and then during each act. Prints a table. The exit code
is 1 if a call of the quiet partner failed, or if its p99 during an act is more than twice its p99 alone.

Client, service and attacker share one machine, so the attacker's rate is limited: see bench/hostile.py.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import urllib3

from bench.hostile import ACTS
from bench.load import CPF
from bench.proof.backend import query_body
from bench.proof.rig import CONTROL_TOKEN, Rig
from config.local.supervisor import Process
from providers import registry
from providers.bank import Bank
from tests.processes import Simulator

#: The banks that answer without a step of the holder.
LEAD_BANKS = sorted(bank.name for bank in registry.BANKS if bank.check is Bank.check)
#: Seconds for the act to start before the measurement.
LEAD_S = 1.5
#: Seconds for the effects of an act to end: no query lasts longer than its deadline.
SETTLE_S = {"auction-look-ups": 32, "hanging-streams": 32, "failing-probes": 32, "hold-streams": 32}
#: How long the bank takes for each auction look-up, in milliseconds.
AUCTION_MS = 20_000
#: Acts of a quiet hour: the quiet partner is silent for QUIET_S seconds, and then until the act's hanging calls opened
#: the breakers for all and the 15 s are over that anybody has to wait, so that only probes of the neighbour can fail.
QUIET_HOUR = ("failing-probes",)
QUIET_S = 10
#: Acts that need longer than LEAD_S, in seconds: until what hangs had its effect.
LEADS_S = {"failing-probes": 45, "auction-look-ups": 18, "never-read-banks": 15}


@dataclass(frozen=True)
class Fare:
    """The quiet partner's results for one kind of call: the milliseconds of each call, sorted, and the number of
    failures."""

    act: str
    call: str
    times_ms: list[float]
    failures: int

    def percentile(self, percent: float) -> float:
        """The milliseconds that `percent` of the calls did not exceed."""
        return self.times_ms[min(len(self.times_ms) - 1, int(len(self.times_ms) * percent / 100))]


class Quiet:
    """The quiet partner. Each call returns True if it succeeded."""

    def __init__(self, url: str, key: str) -> None:
        self._api = f"{url}/partners/v1"
        self._http = urllib3.PoolManager(maxsize=64, retries=False, timeout=40, headers={"X-Partner-Api-Key": key})
        self._amounts = itertools.count(1000)

    def banks(self) -> bool:
        return self._http.request("GET", f"{self._api}/banks").status == 200

    def query(self) -> bool:
        reply = self._http.request("POST", f"{self._api}/consultas", json=self._body())
        return reply.status == 200 and all(each["success"] for each in reply.json()["providerResults"].values())

    def stream(self) -> bool:
        reply = self._http.request("POST", f"{self._api}/consultas/stream", json=self._body())
        lines = [line for line in reply.data.decode().splitlines() if line.startswith("data: ")]
        names = [json.loads(line.removeprefix("data: "))["event"] for line in lines]
        return names[-1:] == ["complete"] and names.count("provider_result") == len(LEAD_BANKS)

    def _body(self) -> dict[str, object]:
        # With an amount, no query repeats another, which would ask no bank.
        return query_body(CPF, providers=LEAD_BANKS, loan_value=1000 + next(self._amounts) % 6000, prazo=24)


#: How often a second the quiet partner makes each call.
PACES: dict[str, tuple[Callable[[Quiet], bool], float]] = {
    "GET /banks": (Quiet.banks, 20),
    "query": (Quiet.query, 5),
    "stream": (Quiet.stream, 5),
}


def measure(act: str, quiet: Quiet, seconds: float) -> list[Fare]:
    """Make all calls at their rates for `seconds`. A call is timed from the moment at which it was due."""
    with ThreadPoolExecutor(len(PACES)) as kinds:
        return list(kinds.map(lambda name: _measure(act, name, quiet, seconds), PACES))


def _measure(act: str, name: str, quiet: Quiet, seconds: float) -> Fare:
    make, pace = PACES[name]

    def call(due: float) -> tuple[float, bool]:
        try:
            good = make(quiet)
        except (urllib3.exceptions.HTTPError, ValueError, KeyError):
            good = False
        return (time.monotonic() - due) * 1000, good

    with ThreadPoolExecutor(32) as pool:
        calls = [pool.submit(call, due) for due in _moments(pace, seconds)]
    results = [each.result() for each in calls]
    return Fare(act, name, sorted(ms for ms, _ in results), sum(not good for _, good in results))


def _moments(pace: float, seconds: float) -> Iterator[float]:
    """Yields `pace` times a second."""
    start = time.monotonic()
    for number in range(int(seconds * pace)):
        due = start + number / pace
        time.sleep(max(0.0, due - time.monotonic()))
        yield due


def beside(rig: Rig, act: str, quiet: Quiet, address: tuple[str, str], seconds: float) -> list[Fare]:
    """Measure while the neighbour performs `act`. `address`: the service's URL and the neighbour's key."""
    lead_s = LEADS_S.get(act, LEAD_S)
    command = [sys.executable, "-m", "bench.hostile", act, *address, str(lead_s + seconds)]
    rig.programs.add(Process(act, command))
    time.sleep(lead_s)
    if act in QUIET_HOUR:
        measure("", quiet, 2)  # the first call is a probe, and the others wait for it
    fares = measure(act, quiet, seconds)
    rig.programs.kill(act)
    log = rig.programs.logs(act)
    assert "Error" not in log, f"the act failed: {log[-2000:]}"
    return fares


#: An event of a partner with 40,000 attempts, for the act `webhook-events`.
OLD_EVENT = """
WITH event AS (
    INSERT INTO webhooks_event (id, partner_id, name, reference_index, state, attempts, failures, fault, created_at)
    VALUES ('evt_' || md5(random()::text), %s, 'lead', '', 'delivered', 40000, 0, '', now())
    RETURNING id, partner_id, created_at
)
INSERT INTO webhooks_attempt (event_id, partner_id, number, at, url, fault, duration_ms)
SELECT id, partner_id, number, created_at + number * interval '1 second', '', '', 1
FROM event, generate_series(1, 40000) AS number
"""


def register(rig: Rig, name: str) -> dict[str, str]:
    """A new partner: its `partner_id` and `api_key`."""
    banks = ",".join(registry.names())
    registered: dict[str, str] = json.loads(rig.manage("create_partner", name, "--providers", banks).stdout)
    return registered


def run(seconds: float, only: list[str]) -> int:
    """Run the measurements. Returns the exit code."""
    with tempfile.TemporaryDirectory() as home, Rig(Path(home), copies=1).running() as rig:
        quiet, hostile = (register(rig, name) for name in ("Quieto", "Hostil"))
        partner = Quiet(rig.api, quiet["api_key"])
        with rig.connect() as database:
            database.execute(OLD_EVENT, [hostile["partner_id"]])
        measure("", partner, 2)  # warms up what each process does only once
        fares = measure("alone", partner, seconds)
        limits = {fare.call: 2 * fare.percentile(99) for fare in fares}
        simulator = Simulator(rig.simulator, CONTROL_TOKEN)
        simulator.bank(registry.AUCTION_BANK.name, latency_ms=AUCTION_MS, operation="auction")
        for before, act in zip(["", *only], only, strict=False):
            time.sleep(SETTLE_S.get(before, 1) + (QUIET_S if act in QUIET_HOUR else 0))
            address = (rig.api, hostile["api_key"])
            fares += beside(rig, act, partner, address, seconds)
    print("| neighbour | the quiet partner's | p50 ms | p99 ms | max ms | failed |")
    print("| --- | --- | --- | --- | --- | --- |")
    for each in fares:
        times = " | ".join(f"{each.percentile(percent):.0f}" for percent in (50, 99, 100))
        print(f"| {each.act} | {each.call} | {times} | {each.failures} of {len(each.times_ms)} |")
    return int(any(each.failures or each.percentile(99) > limits[each.call] for each in fares))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=12, help="of each measurement")
    parser.add_argument("--only", nargs="+", choices=sorted(ACTS), default=list(ACTS), help="these acts")
    sys.exit(run(**vars(parser.parse_args())))
