"""A rig of PostgreSQL, Redis, publishers, webhooks workers and a receiver. Each of them may be killed.

Publishers stand in for the web and bank processes: they store events in transactions at the requested rate. Committed
events are in the database, so killing a publisher loses none. Other programs may be added.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from config.local.processes import Process, Programs
from config.local.run import service_processes
from config.local.servers import Postgres, Redis, free_port
from tests import migrated
from tests.processes import ROOT, START_TIMEOUT_S, wait_until


@dataclass(frozen=True)
class Tally:
    """The accepted events and those that arrived. `latencies` are seconds from storing to first arrival, sorted."""

    accepted: int
    missing: int
    unsettled: int
    duplicates: int
    latencies: list[float]

    def percentile(self, percent: float) -> float:
        """The latency in seconds that `percent` of the events did not exceed."""
        return self.latencies[min(len(self.latencies) - 1, int(len(self.latencies) * percent / 100))]


class Rig:
    """The rig, in one folder. Django is set up on its database."""

    def __init__(self, home: Path, *, couriers: int = 1, publishers: int = 1) -> None:
        self.home = home
        self.postgres = Postgres(home / "postgres")
        self.services = {"postgres": self.postgres, "redis": Redis(home / "redis")}
        self.programs = Programs([], ROOT, home / "logs")
        self._port = free_port()
        self._couriers, self._publishers = couriers, publishers

    @contextlib.contextmanager
    def running(self) -> Iterator[Rig]:
        """Start the servers, the receiver and the webhooks workers. Stops all of them afterwards."""
        try:
            migrated.reserve(self.postgres)
            migrated.fill(self.postgres)
            for name in self.services:
                self.start_service(name)
            self._set_up_django()
            self.add("receiver", [sys.executable, "-m", "tests.receiver", str(self._port)])
            if self._couriers:
                self._add_couriers()
            yield self
        finally:
            # The programs' remaining work does not matter. PostgreSQL is stopped properly, because it would leave
            # shared memory.
            for process in self.programs.running:
                if process.name not in self.services:
                    process.kill()
            self.programs.stop()

    def _add_couriers(self) -> None:
        """Start the workers that deliver, and what has them look: beat, and the worker that takes its ticks."""
        by_name = {process.name: process for process in service_processes({}, self.home)}
        for name in ("sweeps", "beat"):
            self.add(name, by_name[name].command, by_name[name].environment)
        webhooks = by_name["webhooks"]
        for number in range(self._couriers):
            command = [part.replace("webhooks@", f"courier-{number}@") for part in webhooks.command]
            self.add(f"courier-{number}", command, webhooks.environment)

    def _set_up_django(self) -> None:
        os.environ |= {
            "DATABASE_URL": self.postgres.url,
            "REDIS_URL": self.services["redis"].url,
            "DATA_DIR": str(self.home),
            "DJANGO_SETTINGS_MODULE": "config.settings",
        }
        import django

        django.setup()

    def add(self, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        """Start a program, which is stopped with all others."""
        self.programs.add(Process(name, command, environment or {}))

    def start_service(self, name: str) -> None:
        """Start PostgreSQL or Redis at its previous address, and wait until it answers."""
        service = self.services[name]
        self.programs.add(Process(name, service.prepare(), stop_signal=service.stop_signal))
        wait_until(service.answers, START_TIMEOUT_S, f"{name} answers", lambda: self.programs.logs(name))

    def restart(self, name: str, *, wipe: bool = False, down_s: float = 0.0) -> None:
        """Kill a program or server with SIGKILL, and start it again after `down_s`. `wipe` removes a server's data in
        between."""
        self.programs.kill(name)
        time.sleep(down_s)
        if name in self.services:
            if wipe:
                shutil.rmtree(self.services[name].data)
            self.start_service(name)
            self._forget_connection()
        else:
            self.programs.restart(name)

    def _forget_connection(self) -> None:
        """This process's own connection also breaks when PostgreSQL is killed."""
        from django.db import connection

        connection.close()

    @property
    def receiver_url(self) -> str:
        """The receiver's URL."""
        return f"http://127.0.0.1:{self._port}/"

    def publish(self, rate: float, partner_ids: list[str], name: str = "publisher") -> None:
        """Let the publishers store `rate` events a second in total, in turn for each of `partner_ids`.

        Returns when the first is stored, so that a publisher's start is not measured.
        """
        from webhooks.models import Event

        for number in range(self._publishers):
            each = str(rate / self._publishers)
            self.add(f"{name}-{number}", [sys.executable, "-m", "tests.faults.publisher", each, *partner_ids])
        stored = Event.objects.filter(partner__in=partner_ids)
        wait_until(stored.exists, START_TIMEOUT_S, "a publisher stores something", self.programs.logs)

    def warm_up(self) -> None:
        """Return when the workers have delivered, so that their start is not measured."""
        from django.db import transaction

        from partners.models import Partner
        from webhooks import outbox

        [partner_id] = make_partners(1, self.receiver_url)
        with transaction.atomic():
            outbox.send(Partner.objects.get(pk=partner_id), "lead", "warm-up", {})
        tally = self.wait_until_settled([partner_id], START_TIMEOUT_S)
        assert not tally.missing, "no worker delivers"

    def stop_publishing(self) -> None:
        """Stop the publishers."""
        self.programs.stop(*(process.name for process in self.programs.running if "publisher" in process.name))

    def received(self) -> list[dict[str, Any]]:
        """Every request that the receiver saw: `id`, `at` (seconds since the epoch) and `body` (text)."""
        lines = self.programs.logs("receiver").splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("\n")]

    def arrivals(self) -> dict[str, list[float]]:
        """For each `webhook-id` that the receiver saw, the times in seconds since the epoch."""
        found: dict[str, list[float]] = {}
        for row in self.received():
            found.setdefault(row["id"], []).append(row["at"])
        return found

    def tally(self, partner_ids: list[str]) -> Tally:
        """Compare the accepted events of these partners in the database with the receiver's requests."""
        from webhooks.models import Event

        arrivals = self.arrivals()
        rows = list(Event.objects.filter(partner__in=partner_ids).values_list("pk", "created_at", "state"))
        seen = [(created, arrivals[pk]) for pk, created, _ in rows if pk in arrivals]
        return Tally(
            accepted=len(rows),
            missing=len(rows) - len(seen),
            unsettled=sum(state != "delivered" for _, _, state in rows),
            duplicates=sum(len(moments) - 1 for _, moments in seen),
            latencies=sorted(min(moments) - created.timestamp() for created, moments in seen),
        )

    def recovery(self, fault_at: float) -> dict[str, float | None]:
        """Seconds from a fault until an event accepted after it arrived, and until all accepted before it had arrived.

        None if no such event was accepted.
        """
        from webhooks.models import Event

        arrivals = self.arrivals()
        rows = [(created.timestamp(), pk) for pk, created in Event.objects.values_list("pk", "created_at")]
        before = [min(arrivals[pk]) for created, pk in rows if created <= fault_at and pk in arrivals]
        after = [min(arrivals[pk]) for created, pk in rows if created > fault_at and pk in arrivals]
        return {
            "flows_again_after_s": round(min(after) - fault_at, 3) if after else None,
            "all_older_arrived_after_s": round(max(0.0, max(before, default=0.0) - fault_at), 3),
        }

    def wait_until_settled(self, partner_ids: list[str], timeout: float) -> Tally:
        """The tally once everything is delivered, or after `timeout` seconds."""

        def settled() -> Tally | None:
            tally = self.tally(partner_ids)
            return None if tally.missing or tally.unsettled else tally

        try:
            return wait_until(settled, timeout, "all is delivered", every_s=0.5)
        except AssertionError:
            return self.tally(partner_ids)


def make_partners(count: int, url: str) -> list[str]:
    """The ids of new partners that ask for every event at `url`."""
    from partners.models import Partner

    made = []
    for number in range(count):
        partner = Partner.objects.create(name=f"Carga {number}", webhook_url=url)
        partner.rotate_webhook_secret()
        made.append(str(partner.pk))
    return made
