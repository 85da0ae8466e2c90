"""How a quiet partner fares while a hostile neighbour does one act after the other (tests/faults/hostile.py).

    python -m tests.faults.neighbours --seconds 12 --only log-in

The processes are those of `make run`, on servers, ports and a folder of their own, on loopback. The quiet partner
asks at a constant pace, first alone and then beside each act. Prints a table; exit code 1 when a call of the quiet
partner failed, or when its p99 beside an act is more than twice its p99 alone.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import urllib3

from tests.faults.api_chaos import service
from tests.faults.hostile import ACTS
from tests.faults.webhooks_rig import Rig

#: Calls a second of the quiet partner.
PACE = 25
#: Time for the act to begin before anything is measured.
LEAD_S = 1.5


@dataclass(frozen=True)
class Fare:
    """What the quiet partner saw: milliseconds of each call, sorted, and how many calls failed."""

    name: str
    times_ms: list[float]
    failures: int

    def percentile(self, percent: float) -> float:
        """The time that `percent` of the calls stayed within, in ms."""
        return self.times_ms[min(len(self.times_ms) - 1, int(len(self.times_ms) * percent / 100))]


def measure(name: str, url: str, key: str, seconds: float) -> Fare:
    """Ask `GET /banks` at `PACE` for `seconds`. A call is timed from the moment at which it was due."""
    http = urllib3.PoolManager(maxsize=64, retries=False, timeout=30, headers={"X-Partner-Api-Key": key})

    def call(due: float) -> tuple[float, bool]:
        try:
            good = http.request("GET", f"{url}/partners/v1/banks").status == 200
        except urllib3.exceptions.HTTPError:
            good = False
        return (time.monotonic() - due) * 1000, good

    with ThreadPoolExecutor(64) as pool:
        calls = [pool.submit(call, due) for due in _moments(seconds)]
    results = [each.result() for each in calls]
    return Fare(name, sorted(ms for ms, _ in results), sum(not good for _, good in results))


def _moments(seconds: float) -> Iterator[float]:
    """`PACE` moments a second, each when it has come."""
    start = time.monotonic()
    for number in range(int(seconds * PACE)):
        due = start + number / PACE
        time.sleep(max(0.0, due - time.monotonic()))
        yield due


def beside(rig: Rig, act: str, url: str, keys: tuple[str, str], seconds: float) -> Fare:
    """Measure while the neighbour does `act`. `keys`: the quiet partner's and the neighbour's."""
    command = [sys.executable, "-m", "tests.faults.hostile", act, url, keys[1], str(LEAD_S + seconds)]
    rig.add(act, command)
    time.sleep(LEAD_S)
    fare = measure(act, url, keys[0], seconds)
    rig.programs.kill(act)
    log = rig.programs.logs(act)
    assert "Error" not in log, f"the act failed: {log[-2000:]}"
    return fare


def run(seconds: float, only: list[str]) -> int:
    """Returns the exit code."""
    with tempfile.TemporaryDirectory() as home, service(Path(home)) as (rig, crowd):
        quiet, hostile, *_ = crowd.partners.values()
        url = quiet.base.removesuffix("/partners/v1")
        keys = (str(quiet.session.headers["X-Partner-Api-Key"]), str(hostile.session.headers["X-Partner-Api-Key"]))
        measure("", url, keys[0], 2)  # what each process does but once is no part of it
        alone = measure("alone", url, keys[0], seconds)
        fares = [alone, *(beside(rig, act, url, keys, seconds) for act in only)]
    print("| neighbour | p50 ms | p99 ms | max ms | failures of the quiet partner |")  # noqa: T201
    print("| --- | --- | --- | --- | --- |")  # noqa: T201
    for each in fares:
        times = " | ".join(f"{each.percentile(percent):.0f}" for percent in (50, 99, 100))
        print(f"| {each.name} | {times} | {each.failures} of {len(each.times_ms)} |")  # noqa: T201
    limit = 2 * alone.percentile(99)
    return int(any(each.failures or each.percentile(99) > limit for each in fares))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=12, help="of each measurement")
    parser.add_argument("--only", nargs="+", choices=sorted(ACTS), default=list(ACTS), help="these acts")
    sys.exit(run(**vars(parser.parse_args())))
