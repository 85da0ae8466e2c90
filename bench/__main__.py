"""`make bench`: measures the service with the simulator, next to its peers, on this machine, and writes a report.

Everything runs on servers of its own (under var/bench, removed at the end), so a running `make run` is not affected.
Ratios between subjects of one run are comparable; absolute figures depend on the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import shutil
import sys
from pathlib import Path
from typing import Any

from bench import growth, load, measure
from bench import report as report_files
from bench.processes import ROOT, Rig, Subject
from bench.report import COMMITTED
from config.local.run import SANDBOX_KEY
from providers.bank import Connection
from providers.places import LEFT_TO_OTHERS

HOME = ROOT / "var" / "bench"
REPORT = ROOT / "bench" / "report"
#: The parts, with the seconds that each takes.
PARTS = {
    "idle": 25,
    "compared": 130,
    "routes": 15,
    "open": 120,
    "slow": 120,
    "closed": 50,
    "stream": 15,
    "first_events": 70,
    "growth": 120,
    "webhooks": 220,
}
#: Measurements that a quick run leaves out.
LONG = ("closed", "growth", "webhooks")
WARM_UP = 60
#: A bank's requests in flight that one partner may have in one worker.
PLACES = Connection.max_in_flight - Connection.max_in_flight // LEFT_TO_OTHERS
#: The seconds of the slowest bank where the capacity is that with slow banks.
SLOW_S = 5.0
#: The closed loads: queries in flight, and the slowest bank's seconds.
CLOSED = ((1, 1.0), (50, 5.0), (200, 5.0), (500, 10.0))


class Run:
    """One run of the parts, in the order of PARTS. Each method returns its part of the report."""

    def __init__(self, rig: Rig, arguments: argparse.Namespace) -> None:
        self._rig, self._arguments, self._is_quick = rig, arguments, bool(arguments.quick)
        self._service = rig.service("service", ROOT, 0)
        self._service.wait_ready()
        _warm_up(self._service)
        self._capacity: float = arguments.capacity or 0.0

    def idle(self) -> Any:
        return measure.idle(self._rig, self._service, 5 if self._is_quick else 20)

    def compared(self) -> Any:
        subjects = [self._service, *_peers(self._rig, self._arguments)]
        rounds, count = (3, 100) if self._is_quick else (7, 150)
        found = measure.compared(self._rig, subjects, rounds, count)
        for subject in subjects[1:]:
            self._rig.stop(subject)
        self._capacity = self._capacity or found["service"]["queries_per_s"]
        return found

    def routes(self) -> Any:
        return measure.routes(self._rig, self._service, 100 if self._is_quick else 300)

    def open(self) -> Any:
        loads = [(0.5, 5.0), (2.0, 5.0)] if self._is_quick else [(0.5, 5.0), (0.9, 5.0), (0.5, 10.0), (2.0, 5.0)]
        return {
            f"{share:g} of capacity, banks of up to {slowest:g} s": self._offered(self._capacity, share, slowest)
            for share, slowest in loads
        }

    def slow(self) -> Any:
        """Open loads as shares of what the service takes with the same slow banks. To find that, as many queries wait
        as would if slow banks cost it no more than fast ones."""
        in_flight = round(_rate(self._capacity, 1.0, SLOW_S) * SLOW_S)
        highest = measure.capacity(self._rig, self._service, in_flight, 10 if self._is_quick else 20, SLOW_S)
        return {
            f"{share:g} of {highest:g} queries a second, banks of up to {SLOW_S:g} s": self._offered(
                highest, share, SLOW_S
            )
            for share in (0.5, 0.9, 2.0)
        }

    def _offered(self, capacity: float, share: float, slowest_s: float) -> dict[str, Any]:
        rate, seconds = _rate(capacity, share, slowest_s), 10 if self._is_quick else 20
        return measure.open_load(self._rig, self._service, rate, seconds, slowest_s)

    def closed(self) -> Any:
        return {
            f"{in_flight} in flight, banks of up to {slowest:g} s": measure.closed_load(
                self._rig, self._service, in_flight, slowest
            )
            for in_flight, slowest in CLOSED
        }

    def stream(self) -> Any:
        return measure.streaming(self._rig.simulator, self._service, 5 if self._is_quick else 20)

    def first_events(self) -> Any:
        return measure.first_events(self._rig.simulator, self._service, 100 if self._is_quick else 1000)

    def growth(self) -> Any:
        self._rig.stop(self._service)
        return growth.growth(self._rig, 60, 3, self._arguments.rows)

    def webhooks(self) -> Any:
        if self._service in self._rig.subjects:
            self._rig.stop(self._service)
        # Up to 100 events a second, each is stored in a transaction of its own.
        loads = {
            f"{rate} events/s, workers: {workers}": {"rate": rate, "workers": workers, "batch": batch}
            for rate, workers, batch in ((1, 1, 1), (100, 1, 1), (100, 2, 1), (300, 2, 20), (600, 2, 20), (1000, 2, 20))
        }
        return {name: measure.webhooks(seconds=20, **load) for name, load in loads.items()}


def main() -> int:
    arguments = _arguments()
    committed = COMMITTED / "report.json"
    last = json.loads(committed.read_text()) if committed.exists() else {}
    shutil.rmtree(HOME, ignore_errors=True)
    HOME.mkdir(parents=True)
    report: dict[str, Any] = {
        "machine": f"{os.cpu_count()} cores, Python {platform.python_version()}, one web and one bank worker"
    }
    parts = [part for part in PARTS if part in arguments.only]
    with Rig(HOME).running() as rig:
        run = Run(rig, arguments)
        for number, part in enumerate(parts):
            left = sum(PARTS[each] for each in parts[number:]) // (4 if arguments.quick else 1)
            sys.stderr.write(f"bench: {part}, {number + 1} of {len(parts)}; about {left} s left\n")
            sys.stderr.flush()
            report[part] = getattr(run, part)()
    shutil.rmtree(HOME)
    report_files.write(report, COMMITTED if arguments.commit else REPORT)
    print(report_files.page(report))
    for line in report_files.moved(last, report) or ["Nothing moved beyond the noise since the committed report."]:
        print(line)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds: under two minutes")
    parser.add_argument("--only", type=lambda text: text.split(","), default=None, help=",".join(PARTS))
    parser.add_argument("--peers", type=lambda text: text.split(","), default=["threads", "floor"])
    parser.add_argument(
        "--against", type=Path, help="an older source tree, whose service and threads are measured, too"
    )
    parser.add_argument("--commit", action="store_true", help=f"write the report to {COMMITTED.relative_to(ROOT)}")
    parser.add_argument("--rows", type=int, default=0, help="queries in the filled tables of the growth part")
    parser.add_argument("--capacity", type=float, help="queries a second that open loads are shares of")
    arguments = parser.parse_args()
    if arguments.only is None:
        arguments.only = [part for part in PARTS if part not in LONG or not arguments.quick]
    if {"open", "slow"} & {*arguments.only} and "compared" not in arguments.only and not arguments.capacity:
        parser.error("open loads need --capacity, or the part `compared`")
    return arguments


def _rate(capacity: float, share: float, slowest_s: float) -> float:
    """The queries a second that are `share` of what the service can take with banks of up to `slowest_s` seconds: the
    less of `capacity`, its highest rate with banks that answer at once, and what the slowest bank's places allow."""
    return min(capacity, PLACES / slowest_s) * share


def _peers(rig: Rig, arguments: argparse.Namespace) -> list[Subject]:
    """The peers that take turns with the service, running and warmed up."""
    peers = []
    gunicorn = [sys.executable, "-m", "gunicorn", "-k", "gthread", "--threads", "64", "--no-control-socket"]
    threads = [*gunicorn, "--bind", "127.0.0.1:{port}"]
    if arguments.against:
        older = arguments.against.resolve()
        peers.append(rig.service("before", older, 1))
        peers.append(rig.peer("threads_before", "bench.peers.wsgi", 4, threads, older))
    if "threads" in arguments.peers:
        peers.append(rig.peer("threads", "bench.peers.wsgi", 2, threads))
    if "floor" in arguments.peers:
        peers.append(rig.peer("floor", "bench.peers.floor", 3, [sys.executable, "-m"]))
    for peer in peers:
        peer.wait_ready("/health/live")
        _warm_up(peer)
    return peers


def _warm_up(subject: Subject) -> None:
    asyncio.run(load.aggregated(subject.url, SANDBOX_KEY, WARM_UP, in_flight=4))


if __name__ == "__main__":
    raise SystemExit(main())
