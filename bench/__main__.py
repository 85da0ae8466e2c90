"""`make bench`: the query path measured against the simulator, on this machine, with a report.

Starts the service on servers of its own (under var/bench, removed at the end), so that a `make run` beside
is not touched. The figures depend on the machine: compare runs on the same one.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import platform
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import psycopg
import urllib3

from bench import load
from config.local.run import SANDBOX_KEY, service_processes
from config.local.servers import Postgres, Redis, free_port, running
from config.local.supervisor import Process, ends_with_parent
from providers import registry

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / "var" / "bench"
REPORT = ROOT / "bench" / "report"
BANKS = registry.names()
PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")


class Service:
    """The service's processes, and what the kernel and the database tell of them."""

    def __init__(self, environment: dict[str, str], database_url: str) -> None:
        self.url = f"http://127.0.0.1:{environment['PORT']}"
        self.simulator = f"http://127.0.0.1:{environment['SIMULATOR_PORT']}"
        self.database_url = database_url
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        for process in service_processes(environment, HOME):
            self._start(process, environment)

    def _start(self, process: Process, environment: dict[str, str]) -> None:
        log = (HOME / f"{process.name}.log").open("wb")
        self.processes[process.name] = subprocess.Popen(
            ends_with_parent(process.command),
            cwd=ROOT,
            env={**os.environ, **environment, **process.environment},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )

    def stop(self) -> None:
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            process.wait(timeout=30)

    def wait_ready(self) -> None:
        for _ in range(300):
            with contextlib.suppress(urllib3.exceptions.HTTPError):
                if urllib3.request("GET", f"{self.url}/health/ready", retries=False, timeout=5).status == 200:
                    return
            time.sleep(0.2)
        raise SystemExit(f"the service did not get ready: see {HOME}")

    def latency(self, milliseconds: dict[str, int]) -> None:
        """How long each bank takes to answer a query; logins and polls are answered at once."""
        for bank in BANKS:
            urllib3.request(
                "POST",
                f"{self.simulator}/_control/banks/{bank}",
                headers={"X-Control-Token": "dev-control"},
                json={"latency_ms": milliseconds.get(bank, 0), "operation": "query"},
                retries=False,
            )

    def answered_at(self, bank: str, latency_s: float) -> float:
        """When `bank` gave its last answer, in seconds since the epoch: calls are noted as they arrive, and only the
        answer to a query is held back."""
        calls = urllib3.request(
            "GET",
            f"{self.simulator}/_control/banks/{bank}/calls",
            headers={"X-Control-Token": "dev-control"},
            retries=False,
        ).json()
        arrived = datetime.fromisoformat(calls[-1]["at"]).timestamp()
        return arrived + (latency_s if calls[-1]["operation"] == "query" else 0)

    def pids(self, name: str) -> list[int]:
        """The process `name` and its children."""
        pid = self.processes[name].pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [pid, *map(int, children)]

    def cpu_s(self, name: str) -> float:
        """CPU seconds that `name` has used so far."""
        fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in self.pids(name)]
        return sum(int(each[11]) + int(each[12]) for each in fields) / TICKS

    def memory_mb(self, name: str) -> float:
        """Resident memory of `name`, in MiB."""
        return sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in self.pids(name)) * PAGE / 2**20


class Watch:
    """Samples database connections and memory while a block runs."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.connections = 0
        self.memory: dict[str, float] = {}

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        done = threading.Event()
        thread = threading.Thread(target=self._sample, args=(done,))
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def _sample(self, done: threading.Event) -> None:
        count = (
            "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )
        with psycopg.connect(self.service.database_url, autocommit=True) as connection:
            while not done.wait(0.2):
                row = connection.execute(count).fetchone()
                self.connections = max(self.connections, row[0] if row else 0)
                for name in ("web", "banks"):
                    self.memory[name] = max(self.memory.get(name, 0.0), self.service.memory_mb(name))


def throughput(service: Service, count: int = 600) -> dict[str, Any]:
    """The highest rate with banks that answer at once, and the CPU that one query costs."""
    service.latency({})
    before = {name: service.cpu_s(name) for name in ("web", "banks")}
    outcome = asyncio.run(load.aggregated(service.url, SANDBOX_KEY, count, in_flight=16))
    used = {name: (service.cpu_s(name) - before[name]) / count * 1000 for name in before}
    return {
        "queries_per_s": round(count / outcome.seconds, 1),
        "failures": outcome.failures,
        "offers_each": sorted(set(outcome.offers)),
        "cpu_ms_per_query": {name: round(value, 2) for name, value in used.items()},
        "p50_ms": round(outcome.percentile(0.5) * 1000),
        "p99_ms": round(outcome.percentile(0.99) * 1000),
    }


def in_flight(service: Service, queries: int = 200) -> dict[str, Any]:
    """`queries` at once against banks of 1 to 5 s: nothing fails, nothing piles up. The time is what the service
    adds to its slowest bank."""
    slowest = 5000
    service.latency({bank: 1000 + index * (slowest - 1000) // (len(BANKS) - 1) for index, bank in enumerate(BANKS)})
    watch = Watch(service)
    with watch.running():
        outcome = asyncio.run(load.aggregated(service.url, SANDBOX_KEY, queries * 2, in_flight=queries))
    return {
        "queries": queries * 2,
        "in_flight": queries,
        "failures": outcome.failures,
        "offers_each": sorted(set(outcome.offers)),
        "added_p50_ms": round(outcome.percentile(0.5) * 1000 - slowest),
        "added_p99_ms": round(outcome.percentile(0.99) * 1000 - slowest),
        "database_connections_at_most": watch.connections,
        "memory_mb_at_most": {name: round(value) for name, value in watch.memory.items()},
    }


def streaming(service: Service, rounds: int = 20) -> dict[str, Any]:
    """First event, and how long after its bank's last answer each result arrives (one stream at a time)."""
    latency = {bank: 200 + 150 * index for index, bank in enumerate(BANKS)}
    service.latency(latency)
    first: list[float] = []
    after: dict[str, list[float]] = {bank: [] for bank in BANKS}
    for _ in range(rounds):
        arrivals = asyncio.run(load.streamed(service.url, SANDBOX_KEY))
        first.append((arrivals["start"] - arrivals["sent"]) * 1000)
        for bank in BANKS:
            after[bank].append((arrivals[bank] - service.answered_at(bank, latency[bank] / 1000)) * 1000)
    first.sort()
    added = sorted(each for bank in BANKS for each in after[bank])
    return {
        "first_event_p50_ms": round(first[len(first) // 2], 1),
        "first_event_max_ms": round(first[-1], 1),
        "result_after_answer_p50_ms": round(added[len(added) // 2], 1),
        "result_after_answer_p95_ms": round(added[int(len(added) * 0.95)], 1),
        "result_after_answer_max_ms": {bank: round(max(after[bank]), 1) for bank in BANKS},
    }


def main() -> int:
    shutil.rmtree(HOME, ignore_errors=True)
    HOME.mkdir(parents=True)
    postgres, redis = Postgres(HOME / "postgres", durable=True), Redis(HOME / "redis", durable=True)
    with running(postgres, redis):
        postgres.create_database()
        environment = {
            "DATABASE_URL": postgres.url,
            "REDIS_URL": redis.url,
            "DATA_DIR": str(HOME),
            "PORT": str(free_port()),
            "SIMULATOR_PORT": str(free_port()),
            "WEB_CONCURRENCY": "1",
        }
        subprocess.run(
            [sys.executable, "-m", "config.local.run", "prepare"], env={**os.environ, **environment}, check=True
        )
        service = Service(environment, postgres.url)
        try:
            service.wait_ready()
            asyncio.run(load.aggregated(service.url, SANDBOX_KEY, 50, in_flight=4))  # warm up
            report = {
                "machine": f"{os.cpu_count()} cores, Python {platform.python_version()}, one web and one bank worker",
                "throughput": throughput(service),
                "in_flight": in_flight(service),
                "streaming": streaming(service),
            }
        finally:
            service.stop()
    shutil.rmtree(HOME)
    REPORT.mkdir(exist_ok=True)
    text = json.dumps(report, indent=2)
    (REPORT / "latest.json").write_text(text + "\n")
    print(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
