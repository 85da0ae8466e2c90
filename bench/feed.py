"""The ordered list of events while everything is killed: writers whose transactions end in any order, and two readers.

python -m bench.feed [--events 10000] [--seed 1]

32 threads in 4 processes store events; two readers wait at the list. After a calm tenth, in which the time from commit
to reader is taken, writers, readers and PostgreSQL are killed in turn. A reader stores its cursor with each event and
goes on from there. Prints one JSON object. The exit code is 1 if a reader missed an event, got one twice, or got them
in another order than the outbox has.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import requests

from bench.proof.rig import Rig
from bench.webhooks import make_partners
from config.local.supervisor import Process
from tests.processes import START_TIMEOUT_S, answers, wait_until

WRITERS, THREADS, READERS = 4, 8, 2
#: Seconds that a transaction stays open after it stored its events, and that a thread waits between two of them.
OPEN_S, PAUSE_S = (0.0, 0.02), (0.1, 0.4)
KILL_EVERY_S, SETTLE_S = (1.0, 2.5), 90


def write(partner_id: str, seed: str) -> None:
    """Store events until the process is killed. Prints the id and the time of each after its commit."""
    import django

    django.setup()
    from django.db import InterfaceError, OperationalError, connection, transaction

    from partners.models import Partner
    from webhooks import outbox

    def store(thread: int) -> None:
        random = Random(f"{seed}-{thread}")
        for number in count():
            try:
                with transaction.atomic():
                    partner = Partner.objects.get(pk=partner_id)
                    group: list[outbox.Message] = [(partner, "lead", f"{seed}-{thread}-{number}", {})] * random.randint(
                        1, 3
                    )
                    events = outbox.send_all(group)
                    time.sleep(random.uniform(*OPEN_S))
                print("".join(f"{event.pk} {time.time()}\n" for event in events), end="", flush=True)
            except (OperationalError, InterfaceError):
                connection.close()
            time.sleep(random.uniform(*PAUSE_S))

    for thread in range(THREADS - 1):
        threading.Thread(target=store, args=(thread,), daemon=True).start()
    store(THREADS - 1)


def read(url: str, key: str, file: str) -> None:
    """Read the events in order, from the cursor of the last line of `file`, until the process is killed. Each event is
    one line: its id, the time, the cursor."""
    lines = Path(file).read_text().splitlines() if Path(file).exists() else []
    cursor = lines[-1].split()[2] if lines else ""
    with Path(file).open("a", buffering=1) as out:
        while True:
            query = {"order": "asc", "wait_s": "20", "cursor": cursor}
            headers = {"X-Partner-Api-Key": key}
            try:
                reply = requests.get(f"{url}/partners/v1/webhook-events", query, headers=headers, timeout=30)
                reply.raise_for_status()
            except requests.RequestException:
                time.sleep(0.1)
                continue
            page = reply.json()
            # Lines without their cursor would be read again: all lines of a page are one write.
            cursor, now = page["next_cursor"], time.time()
            out.write("".join(f"{event['id']} {now} {cursor}\n" for event in page["events"]))


class Run:
    """One run: the processes, the kills, and the comparison."""

    def __init__(self, rig: Rig, seed: int) -> None:
        self._rig, self._random, self._seed = rig, Random(seed), seed
        [self._partner] = make_partners(rig, [""])
        from partners.models import ApiKey, Partner

        self._key = ApiKey.issue(Partner.objects.get(pk=self._partner))[1]
        self._files = {f"reader-{number}": rig.home / f"reader-{number}.txt" for number in range(READERS)}
        self.kills: dict[str, int] = {}
        self._calm_until = 0.0

    def start(self) -> None:
        """Start readers and writers."""
        for name, file in self._files.items():
            self._add(name, "read", self._rig.api, self._key, str(file))
        for number in range(WRITERS):
            self._add(f"writer-{number}", "write", self._partner, f"{self._seed}-{number}-{time.time_ns()}")

    def _add(self, name: str, *arguments: str) -> None:
        command = [sys.executable, "-m", "bench.feed", *arguments]
        environment = {**self._rig.environment, "DJANGO_SETTINGS_MODULE": "config.settings"}
        self._rig.programs.add(Process(name, command, environment))

    def kill_until(self, events: int) -> None:
        """After a tenth of `events`, kill one after the other until all are stored; then stop the writers."""
        wait_until(lambda: len(self.stored()) >= events / 10, SETTLE_S, "a tenth is stored")
        self._calm_until = time.time()
        victims = [f"writer-{number}" for number in range(WRITERS)] + [*self._files] * 2 + ["postgres"]
        while len(self.stored()) < events:
            time.sleep(self._random.uniform(*KILL_EVERY_S))
            name = self._random.choice(victims)
            self._rig.kill(name)
            self._rig.start(name)
            self.kills[name.partition("-")[0]] = self.kills.get(name.partition("-")[0], 0) + 1
            wait_until(self._rig.postgres.answers, START_TIMEOUT_S, "PostgreSQL answers")
        self._rig.programs.stop(*(f"writer-{number}" for number in range(WRITERS)))

    def stored(self) -> list[str]:
        """The outbox, in its order."""
        order = "SELECT id FROM webhooks_event WHERE partner_id::text = %s ORDER BY xact_id, created_at, id"
        with self._rig.connect() as database:
            return [row[0] for row in database.execute(order, [self._partner]).fetchall()]

    def got(self, reader: str) -> list[list[str]]:
        """What a reader got: ids, times and cursors."""
        lines = self._files[reader].read_text().splitlines() if self._files[reader].exists() else []
        return [line.split() for line in lines]

    def report(self) -> dict[str, Any]:
        """The counts, and the time from commit to a reader in ms. A writer may be killed before it tells its commit."""
        stored = self.stored()
        wait_until(lambda: all(len(self.got(name)) >= len(stored) for name in self._files), SETTLE_S, "all is read")
        got = {name: [row[0] for row in self.got(name)] for name in self._files}
        logs = "".join(self._rig.programs.logs(f"writer-{number}") for number in range(WRITERS))
        committed = dict(line.split() for line in logs.splitlines() if line.startswith("evt_") and " " in line)
        took = sorted(
            float(at) - float(committed[key])
            for name in self._files
            for key, at, _ in self.got(name)
            if key in committed and float(committed[key]) < self._calm_until
        )
        return {
            "events": len(stored),
            "kills": self.kills,
            "missed": sum(len({*stored} - {*ids}) for ids in got.values()),
            "twice": sum(len(ids) - len({*ids}) for ids in got.values()),
            "in the outbox's order": all(ids == stored for ids in got.values()),
            "commit to reader, ms": {
                f"p{percent}": round(took[min(len(took) - 1, len(took) * percent // 100)] * 1000)
                for percent in (50, 95)
            },
        }


def main(events: int, seed: int) -> int:
    """Run it. Returns the exit code."""
    with tempfile.TemporaryDirectory() as home, Rig(Path(home), only=("web",)).running() as rig:
        wait_until(lambda: answers(f"{rig.api}/health/live") == 200, START_TIMEOUT_S, "the service answers")
        run = Run(rig, seed)
        run.start()
        run.kill_until(events)
        report = run.report()
    print(json.dumps(report, indent=2))
    return int(bool(report["missed"] or report["twice"] or not report["in the outbox's order"]))


def _parsed(arguments: Sequence[str]) -> int:
    if arguments[:1] == ["write"]:
        write(*arguments[1:])
    elif arguments[:1] == ["read"]:
        read(*arguments[1:])
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    return main(**vars(parser.parse_args(arguments)))


if __name__ == "__main__":
    sys.exit(_parsed(sys.argv[1:]))
