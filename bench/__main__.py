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
PARTS = ("idle", "compared", "routes", "open", "closed", "stream", "first_events", "growth", "webhooks")
#: Measurements that a quick run leaves out.
LONG = ("closed", "growth", "webhooks")
WARM_UP = 60
#: A bank's requests in flight that one partner may have in one worker.
PLACES = Connection.max_in_flight - Connection.max_in_flight // LEFT_TO_OTHERS
#: The closed loads: queries in flight, and the slowest bank's seconds.
CLOSED = ((1, 1.0), (50, 5.0), (200, 5.0), (500, 10.0))


def main() -> int:
    arguments = _arguments()
    committed = COMMITTED / "report.json"
    last = json.loads(committed.read_text()) if committed.exists() else {}
    shutil.rmtree(HOME, ignore_errors=True)
    HOME.mkdir(parents=True)
    report: dict[str, Any] = {
        "machine": f"{os.cpu_count()} cores, Python {platform.python_version()}, one web and one bank worker"
    }
    with Rig(HOME).running() as rig:
        service = rig.service("service", ROOT, 0)
        service.wait_ready()
        _warm_up(service)
        if "idle" in arguments.only:
            report["idle"] = measure.idle(rig, service, 5 if arguments.quick else 20)
        if "compared" in arguments.only:
            subjects = [service, *_peers(rig, arguments)]
            rounds, count = (3, 100) if arguments.quick else (7, 150)
            report["compared"] = measure.compared(rig, subjects, rounds, count)
            for subject in subjects[1:]:
                rig.stop(subject)
        if "routes" in arguments.only:
            report["routes"] = measure.routes(rig, service, 100 if arguments.quick else 300)
        if "open" in arguments.only:
            capacity = arguments.capacity or report["compared"]["service"]["queries_per_s"]
            loads = [(0.5, 5.0), (2.0, 5.0)] if arguments.quick else [(0.5, 5.0), (0.9, 5.0), (0.5, 10.0), (2.0, 5.0)]
            report["open"] = {
                f"{share:g} of capacity, banks of up to {slowest:g} s": measure.open_load(
                    rig, service, _rate(capacity, share, slowest), 10 if arguments.quick else 20, slowest
                )
                for share, slowest in loads
            }
        if "closed" in arguments.only:
            report["closed"] = {
                f"{in_flight} in flight, banks of up to {slowest:g} s": measure.closed_load(
                    rig, service, in_flight, slowest
                )
                for in_flight, slowest in CLOSED
            }
        if "stream" in arguments.only:
            report["stream"] = measure.streaming(rig.simulator, service, 5 if arguments.quick else 20)
        if "first_events" in arguments.only:
            report["first_events"] = measure.first_events(rig.simulator, service, 100 if arguments.quick else 1000)
        rig.stop(service)
        if "growth" in arguments.only:
            report["growth"] = growth.growth(rig, 60, 3, arguments.rows)
    if "webhooks" in arguments.only:
        rates = {"1 event/s": (1, 1), "100 events/s": (100, 1), "1000 events/s, two workers": (1000, 2)}
        report["webhooks"] = {name: measure.webhooks(rate, workers, 10) for name, (rate, workers) in rates.items()}
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
        peers.append(rig.service("before", older, 1, only=("web", "banks")))
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
