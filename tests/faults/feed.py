"""Compares what two readers of the events in order got with the outbox, while writers, web and servers are killed.

python -m tests.faults.feed --events 10000 --writers 32 --every 3

Writers hold their transactions open for random times, so that commits are in another order than writes. A reader
breaks its calls off at random and goes on from its last cursor. First everything runs undisturbed for `--quiet`
seconds, which gives the latency from commit to a waiting reader. Prints one JSON object. The exit code is 1 if an event
is missing, doubled, or in another order for one of the readers.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import django
import requests

from config.local.run import service_processes
from tests.faults.webhooks_rig import Rig, make_partners
from tests.processes import wait_until

THREADS = 8
FAULTS = ("writer-0", "web", "redis", "writer-1", "postgres", "redis-wiped", "writer-2")
SETTLE_S = 120
#: A fault delays what is committed soon after it.
DISTURBED_S = 10


def write(partner_id: str, rate: float) -> None:
    """Store events of the partner at `rate` a second with THREADS threads, and print each with the time of its commit.
    Goes on after every loss of the database."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    django.setup()
    from django.db import InterfaceError, OperationalError, connection, transaction

    from partners.models import Partner
    from webhooks import outbox

    partner = Partner.objects.get(pk=partner_id)

    def one() -> None:
        while True:
            try:
                with transaction.atomic():
                    event = outbox.send(partner, "lead", "group", {"number": random.random()})
                    time.sleep(random.expovariate(100))
                told = {"id": event.pk if event else None, "at": time.time()}
                sys.stdout.write(json.dumps(told) + "\n")
                sys.stdout.flush()
            except (OperationalError, InterfaceError):
                connection.close()
                time.sleep(0.1)
            time.sleep(random.expovariate(rate / THREADS))

    for _ in range(THREADS):
        threading.Thread(target=one).start()


class Reader(threading.Thread):
    """Reads until it is ended. `got` are the events in their order, each with the time of its arrival."""

    def __init__(self, url: str, key: str) -> None:
        super().__init__(daemon=True)
        self.got: list[tuple[str, float]] = []
        self.polls = 0
        self.is_breaking = False
        self._url, self._key, self._cursor = url, key, ""

    def run(self) -> None:
        while True:
            patience = random.uniform(0.05, 3) if self.is_breaking else 30
            try:
                page = requests.get(
                    f"{self._url}/partners/v1/webhook-events",
                    params={"order": "asc", "wait_s": 20, "cursor": self._cursor},
                    headers={"X-Partner-Api-Key": self._key},
                    timeout=patience,
                )
                page.raise_for_status()
                found: dict[str, Any] = page.json()
            except (requests.RequestException, ValueError):
                time.sleep(0.1)
                continue
            now = time.time()
            self.polls += 1
            self.got += [(event["id"], now) for event in found["events"]]
            self._cursor = found["next_cursor"]


def measure(events: int, writers: int, every: float, quiet: float, rate: float) -> int:
    """Run, compare and report. Returns the exit code."""
    with tempfile.TemporaryDirectory() as folder, Rig(Path(folder), couriers=0).running() as rig:
        from partners.models import ApiKey, Partner
        from webhooks.models import Event

        web = next(process for process in service_processes({}, rig.home) if process.name == "web")
        rig.add("web", web.command, {**web.environment, "WEB_CONCURRENCY": "1"})
        url = f"http://127.0.0.1:{os.environ.get('PORT') or 8000}"
        wait_until(lambda: _is_up(url), 60, "web answers", rig.programs.logs)
        [partner_id] = make_partners(1, "")
        _, key = ApiKey.issue(Partner.objects.get(pk=partner_id))
        readers = [Reader(url, key), Reader(url, key)]
        names = [f"writer-{number}" for number in range(max(1, writers // THREADS))]
        for name in names:
            rig.add(name, [sys.executable, "-m", "tests.faults.feed", "--write", partner_id, str(rate / len(names))])
        for reader in readers:
            reader.start()
        wait_until(lambda: readers[0].got, 60, "a first event comes", rig.programs.logs)
        time.sleep(quiet)
        undisturbed_until, polls = time.time(), readers[0].polls
        kills = 0
        for reader in readers:
            reader.is_breaking = True
        while Event.objects.count() < events:
            time.sleep(every)
            fault = FAULTS[kills % len(FAULTS)]
            rig.restart(fault.removesuffix("-wiped"), wipe=fault.endswith("-wiped"))
            kills += 1
        rig.programs.stop(*names)
        stored = set(Event.objects.values_list("pk", flat=True))
        wait_until(lambda: all(len(each.got) >= len(stored) for each in readers), SETTLE_S, "the readers have all")
        time.sleep(2)
        orders = [[pk for pk, _ in each.got] for each in readers]
        lines = [line for line in rig.programs.logs(*names).splitlines() if line.startswith("{")]
        committed = {told["id"]: told["at"] for told in map(json.loads, lines)}
        at = dict(readers[0].got)
        waits = sorted(at[pk] - when for pk, when in committed.items() if pk in at and when < undisturbed_until)
        report = {
            "stored": len(stored),
            "missing": [len(stored - set(order)) for order in orders],
            "doubled": [len(order) - len(set(order)) for order in orders],
            "acknowledged_but_not_stored": len(committed.keys() - stored),
            "one_order": orders[0] == orders[1],
            "kills": kills,
            "undisturbed_ms": {f"p{p}": round(1000 * waits[len(waits) * p // 100], 1) for p in (50, 95, 99)},
            "events_undisturbed": len(waits),
            "polls_undisturbed": polls,
        }
        sys.stdout.write(json.dumps(report, indent=2) + "\n")
        is_whole = not any(report["missing"]) and not any(report["doubled"]) and report["one_order"]
        return 0 if is_whole and not report["acknowledged_but_not_stored"] else 1


def _is_up(url: str) -> bool:
    try:
        return requests.get(f"{url}/health/live", timeout=2).ok
    except requests.RequestException:
        return False


if __name__ == "__main__":
    if "--write" in sys.argv:
        write(sys.argv[2], float(sys.argv[3]))
    else:
        parser = argparse.ArgumentParser(description=__doc__)
        parser.add_argument("--events", type=int, default=10_000)
        parser.add_argument("--writers", type=int, default=32, help="threads that write, 8 in a process")
        parser.add_argument("--every", type=float, default=3, help="seconds between two kills")
        parser.add_argument("--quiet", type=float, default=15, help="seconds without kills at the start")
        parser.add_argument("--rate", type=float, default=80, help="events a second")
        sys.exit(measure(**vars(parser.parse_args())))
