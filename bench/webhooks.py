"""Events at a constant rate, a receiver that records every id, and the time from storing to arrival.

python -m bench.webhooks --seconds 30 --rate 100 [--workers 2] [--batch 20] [--tarpits 1]

An event is stored by the service's outbox, a moment before its commit; `--batch` so many in one transaction. With
`--tarpits`, that many more partners get a tenth of the rate each, at endpoints that never answer. Prints one JSON
object. The exit code is 1 if an event is missing.
"""

from __future__ import annotations

import argparse
import json
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.processes import cpu_s
from bench.proof.rig import Rig
from config.local.servers import free_port
from config.local.supervisor import Process
from tests.processes import START_TIMEOUT_S, wait_until

SETTLE_S = 60
#: Each has places for `WEBHOOK_PARTNER_LIMIT` deliveries. With four partners, those would be the limit.
PARTNERS = 16


@dataclass(frozen=True)
class Tally:
    """The accepted events and those that arrived. `latencies` are seconds from storing to first arrival, sorted."""

    accepted: int
    missing: int
    duplicates: int
    latencies: list[float]

    def percentile(self, percent: float) -> float:
        """The latency in seconds that `percent` of the events did not exceed."""
        return self.latencies[min(len(self.latencies) - 1, int(len(self.latencies) * percent / 100))]


class Load:
    """Publishers, webhooks workers, the processes that make them look, and a receiver of its own."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        port = free_port()
        self.url = f"http://127.0.0.1:{port}/"
        self._add("receiver", "bench.receiver", str(port))

    def _add(self, name: str, *module: str) -> None:
        command = [sys.executable, "-m", *module]
        self._rig.programs.add(Process(name, command, self._rig.environment))

    def publish(self, rate: float, partners: list[str], name: str = "publisher", batch: int = 1) -> None:
        """Store `rate` events a second in turn for each of `partners`. Returns when the first is stored."""
        self._add(name, "bench.publisher", str(rate), str(batch), *partners)
        wait_until(lambda: self._events(partners), START_TIMEOUT_S, "an event is stored", self._rig.programs.logs)

    def tally(self, partners: list[str]) -> Tally:
        """Compare the stored events with what the receiver saw."""
        arrivals: dict[str, list[float]] = {}
        lines = self._rig.programs.logs("receiver").splitlines(keepends=True)
        for key, moment in (line.split() for line in lines if line.startswith("evt_") and line.endswith("\n")):
            arrivals.setdefault(key, []).append(float(moment))
        rows = self._events(partners)
        seen = [(created, arrivals[key]) for key, created in rows if key in arrivals]
        return Tally(
            accepted=len(rows),
            missing=len(rows) - len(seen),
            duplicates=sum(len(moments) - 1 for _, moments in seen),
            latencies=sorted(min(moments) - created for created, moments in seen),
        )

    def backlog(self, partners: list[str]) -> int:
        """How many stored events are not recorded as delivered."""
        return len(self._events(partners, "due_at IS NOT NULL"))

    def settle(self, partners: list[str]) -> None:
        """Return once everything is delivered, or after SETTLE_S."""
        end = time.monotonic() + SETTLE_S
        while self.backlog(partners) and time.monotonic() < end:
            time.sleep(0.5)

    def _events(self, partners: list[str], condition: str = "TRUE") -> list[tuple[Any, ...]]:
        """The ids of the stored events, and when they were stored."""
        select = "SELECT id, extract(epoch FROM created_at)::float8 FROM webhooks_event"
        with self._rig.connect() as database:
            where = f"WHERE partner_id = ANY(%s::uuid[]) AND {condition}"
            return database.execute(f"{select} {where}", [partners]).fetchall()

    def cpu_ms(self) -> Counter[str]:
        """User and system time of each kind of program. Whoever stores an event rings for it, so the publisher's time
        is part of an event's price."""
        spent: Counter[str] = Counter()
        for process in self._rig.programs.running:
            spent[process.name.rstrip("-0123456789")] += round(cpu_s(process.pid) * 1000)
        return spent


def run(seconds: float, rate: float, workers: int, batch: int, tarpits: int) -> int:
    """Run the load. Returns the exit code."""
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        rig = stack.enter_context(Rig(home, workers, only=("webhooks", "sweeps", "beat")).running())
        load = Load(rig)
        partners = make_partners(rig, [load.url] * PARTNERS)
        dead = make_partners(rig, list(_tarpits(stack, tarpits)))
        warm = make_partners(rig, [load.url])
        load.publish(1, warm, "warm-up")
        wait_until(lambda: load.tally(warm).latencies, START_TIMEOUT_S, "the workers deliver", rig.programs.logs)
        rig.programs.stop("warm-up")
        load.publish(rate, partners, batch=batch)
        if dead:
            load.publish(rate / 10 * tarpits, dead, "tarpit-publisher")
        before = load.cpu_ms()
        time.sleep(seconds)
        backlog, spent = load.backlog(partners), load.cpu_ms()
        rig.programs.stop("publisher", *(["tarpit-publisher"] if dead else []))
        load.settle(partners)
        spent = (spent | load.cpu_ms()) - before  # also what the backlog costs
        tally = load.tally(partners)
        report = {
            "rate": rate,
            "workers": workers,
            "tarpits": tarpits,
            "batch": batch,
            "accepted": tally.accepted,
            "backlog": backlog,
            "missing": tally.missing,
            "duplicates": tally.duplicates,
            "latency_ms": {f"p{p}": round(tally.percentile(p) * 1000, 1) for p in (50, 95, 99, 100)},
            "cpu_ms_per_event": {kind: round(ms / tally.accepted, 2) for kind, ms in spent.items()},
        }
        print(json.dumps(report, indent=2))
        return 1 if tally.missing or not tally.accepted else 0


def _tarpits(stack: ExitStack, count: int) -> Iterator[str]:
    for _ in range(count):
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=512))
        yield f"http://127.0.0.1:{server.getsockname()[1]}/"


def make_partners(rig: Rig, urls: Sequence[str]) -> list[str]:
    """The ids of new partners that ask for every event at these URLs."""
    rig.set_up_django()
    from partners.models import Partner

    made = []
    for url in urls:
        partner = Partner.objects.create(name="Carga", webhook_url=url)
        partner.rotate_webhook_secret()
        made.append(str(partner.pk))
    return made


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--rate", type=float, default=100, help="events a second")
    parser.add_argument("--workers", type=int, default=1, help="webhooks workers")
    parser.add_argument("--batch", type=int, default=1, help="events in one transaction")
    parser.add_argument("--tarpits", type=int, default=0, help="partners whose endpoint never answers")
    sys.exit(run(**vars(parser.parse_args())))
