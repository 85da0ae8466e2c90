"""The measurements. Each function takes running subjects and returns plain figures for the report."""

from __future__ import annotations

import asyncio
import contextlib
import json
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import psycopg

from bench import demo, load
from bench.processes import BANKS, ROOT, Rig, Simulator, Subject
from config.local.run import SANDBOX_KEY
from providers import registry

#: Queries in flight where the highest rate is measured. With 16, the service leaves processor time unused. Threads in
#: the view answer as many a second with 8 as with 48.
IN_FLIGHT = 32
#: The bank that proposals are sent to.
OWN = registry.AUCTION_BANK.name


def compared(rig: Rig, subjects: Sequence[Subject], rounds: int, count: int) -> dict[str, Any]:
    """The highest rate of each subject with banks that answer at once, and the CPU time of one query. The subjects take
    turns with `count` queries each, so that a busy machine slows all of them. Figures are medians over the rounds.
    Ratios to the first subject are given per round."""
    rig.simulator.latency({})
    runs: dict[str, list[dict[str, float]]] = {subject.name: [] for subject in subjects}
    failures = {subject.name: 0 for subject in subjects}
    for _ in range(rounds):
        for subject in subjects:
            figures, outcome = one_round(rig, subject, count)
            runs[subject.name].append(figures)
            failures[subject.name] += outcome.failures
    first = runs[subjects[0].name]
    return {
        subject.name: {
            **{figure: median(each[figure] for each in runs[subject.name]) for figure in runs[subject.name][0]},
            "failures": failures[subject.name],
            "cpu_ratios": _ratios(first, runs[subject.name], "cpu_ms"),
            "rate_ratios": _ratios(first, runs[subject.name], "queries_per_s"),
        }
        for subject in subjects
    }


def one_round(
    rig: Rig, subject: Subject, count: int, keys: str | Sequence[str] = SANDBOX_KEY
) -> tuple[dict[str, float], load.Outcome]:
    """Send `count` queries as fast as `subject` answers them. Returns milliseconds of CPU per query by process, the
    rate, and the outcome."""
    before = subject.cpu() | rig.cpu()
    outcome = asyncio.run(load.aggregated(subject.url, keys, count, in_flight=IN_FLIGHT))
    used = {name: (value - before[name]) / count * 1000 for name, value in (subject.cpu() | rig.cpu()).items()}
    figures = {f"{name}_ms": used[name] for name in ("web", "banks", "postgres", "redis", "simulator") if name in used}
    return {
        "cpu_ms": used.get("web", 0.0) + used.get("banks", 0.0),
        **figures,
        "queries_per_s": count / outcome.seconds,
        "p50_added_ms": outcome.percentile(0.5) * 1000,
        "p99_added_ms": outcome.percentile(0.99) * 1000,
    }, outcome


def _ratios(first: list[dict[str, float]], theirs: list[dict[str, float]], figure: str) -> list[float]:
    return [round(their[figure] / our[figure], 3) for our, their in zip(first, theirs, strict=True)]


def median(values: Iterable[float]) -> float:
    """The median, to three decimals."""
    return round(statistics.median(values), 3)


def spread(slowest_s: float) -> dict[str, int]:
    """Latencies in milliseconds, spread evenly from a fifth of `slowest_s` to `slowest_s`."""
    slowest, fastest = slowest_s * 1000, slowest_s * 200
    return {bank: round(fastest + index * (slowest - fastest) / (len(BANKS) - 1)) for index, bank in enumerate(BANKS)}


class Watch:
    """Samples a subject's database connections and memory while a block runs."""

    def __init__(self, subject: Subject, database_url: str) -> None:
        self.subject = subject
        self.database_url = database_url
        self.connections = 0
        self.memory: dict[str, float] = {}

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Sample while the block runs."""
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
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )
        with psycopg.connect(self.database_url, autocommit=True) as connection:
            while not done.wait(0.5):
                row = connection.execute(count).fetchone()
                self.connections = max(self.connections, row[0] if row else 0)
                for name, value in self.subject.memory().items():
                    self.memory[name] = max(self.memory.get(name, 0.0), value)


def closed_load(rig: Rig, service: Subject, queries: int, slowest_s: float) -> dict[str, Any]:
    """`queries` queries in flight, twice as many in all (at least 20), with banks that take up to `slowest_s`: nothing
    may fail or pile up. The time is what the service adds to its slowest bank."""
    rig.simulator.latency(spread(slowest_s))
    watch = Watch(service, rig.postgres.url_of(f"bench_{service.name}"))
    count = max(queries * 2, 20)
    with watch.running():
        outcome = asyncio.run(load.aggregated(service.url, SANDBOX_KEY, count, in_flight=queries))
    return {
        "queries": count,
        "in_flight": queries,
        "slowest_bank_s": slowest_s,
        "statuses": {str(status): count for status, count in sorted(outcome.statuses.items())},
        "offers_each": sorted(set(outcome.offers)),
        "added_p50_ms": round((outcome.percentile(0.5) - slowest_s) * 1000),
        "added_p99_ms": round((outcome.percentile(0.99) - slowest_s) * 1000),
        "database_connections_at_most": watch.connections,
        "memory_mb_at_most": {name: round(value) for name, value in watch.memory.items()},
    }


def capacity(rig: Rig, service: Subject, in_flight: int, seconds: float, slowest_s: float) -> float:
    """The highest rate, in queries a second, with banks of up to `slowest_s`: `in_flight` queries always wait."""
    rig.simulator.latency(spread(slowest_s))
    sustained = load.sustained(service.url, SANDBOX_KEY, in_flight, 2 * slowest_s, seconds)
    return round(asyncio.run(sustained), 1)


def open_load(rig: Rig, service: Subject, rate: float, seconds: float, slowest_s: float) -> dict[str, Any]:
    """Send queries at `rate` a second, without waiting for earlier ones to be answered. `cpu_ms` says what an accepted
    query cost each process, in milliseconds; what refused ones cost is included."""
    rig.simulator.latency(spread(slowest_s))
    before = service.cpu() | rig.cpu()
    outcome = asyncio.run(load.offered(service.url, SANDBOX_KEY, rate, seconds, slowest_s))
    used = {name: value - before[name] for name, value in (service.cpu() | rig.cpu()).items()}
    accepted = outcome.statuses.get(200, 0)
    return {
        "offered_per_s": round(rate, 1),
        "slowest_bank_s": slowest_s,
        "statuses": {str(status): count for status, count in sorted(outcome.statuses.items())},
        "accepted_per_s": round(accepted / seconds, 1),
        "banks_lost": outcome.lost,
        "offers_each": sorted(set(outcome.offers)),
        "added_p50_ms": round(outcome.percentile(0.5) * 1000, 1),
        "added_p99_ms": round(outcome.percentile(0.99) * 1000, 1),
        "cpu_ms": {
            name: round(used[name] / max(1, accepted) * 1000, 1) for name in ("web", "banks", "postgres", "redis")
        },
    }


def routes(rig: Rig, service: Subject, count: int) -> dict[str, Any]:
    """CPU milliseconds of the web process and of the bank worker per call: a parameterless query, its repeat that
    reuses all answers, the same for one bank, a stored proposal that needs no call to its bank, and the bank list."""
    rig.simulator.latency({})
    same = load.parameterless()
    offers = load.fetch(service.url, SANDBOX_KEY, "POST", "/consultas", same)["proposals"]
    offer = next(each for each in offers if each["provider"] == OWN)
    proposal = load.fetch(service.url, SANDBOX_KEY, "POST", "/proposals", demo.dataset(load.CPF, offer))
    address = f"/proposals/{proposal['proposal_id']}"
    calls: dict[str, tuple[str, str, Callable[[], Any]]] = {
        "query": ("POST", "/consultas", load.parameterless),
        "repeat": ("POST", "/consultas", lambda: same),
        "one_bank": ("POST", f"/providers/{OWN}/consultas", load.body),
        "proposal": ("GET", address, lambda: None),
        "banks": ("GET", "/banks", lambda: None),
    }
    costs = {}
    for name, (method, path, body) in calls.items():
        load.fetch(service.url, SANDBOX_KEY, "POST", "/consultas", same)
        before = service.cpu()
        # One after the other, because simultaneous repeats would wait for one another.
        outcome = asyncio.run(load.calls(service.url, SANDBOX_KEY, method, path, body, count, in_flight=1))
        used = service.cpu()
        costs[name] = {
            "web_ms": round((used["web"] - before["web"]) / count * 1000, 2),
            "worker_ms": round((used["banks"] - before["banks"]) / count * 1000, 2),
            "p50_ms": round(outcome.percentile(0.5) * 1000, 1),
            "failures": outcome.failures,
        }
    query, repeat = costs["query"], costs["repeat"]
    repeat["share_of_query"] = round(repeat["web_ms"] / query["web_ms"], 2)
    both = [each["web_ms"] + each["worker_ms"] for each in (repeat, query)]
    repeat["share_of_query_in_both"] = round(both[0] / both[1], 2)
    return costs


def streaming(simulator: Simulator, service: Subject, rounds: int) -> dict[str, Any]:
    """The time of the first event, and from each bank's last answer to its result (one stream at a time)."""
    latency = {bank: 200 + 150 * index for index, bank in enumerate(BANKS)}
    simulator.latency(latency)
    first: list[float] = []
    after: dict[str, list[float]] = {bank: [] for bank in BANKS}
    for _ in range(rounds):
        arrivals = asyncio.run(load.streamed(service.url, SANDBOX_KEY))
        first.append((arrivals["start"] - arrivals["sent"]) * 1000)
        for bank in BANKS:
            after[bank].append((arrivals[bank] - simulator.answered_at(bank, latency[bank] / 1000)) * 1000)
    first.sort()
    added = sorted(each for bank in BANKS for each in after[bank])
    return {
        "first_event_p50_ms": round(first[len(first) // 2], 1),
        "first_event_max_ms": round(first[-1], 1),
        "result_after_answer_p50_ms": round(added[len(added) // 2], 1),
        "result_after_answer_p95_ms": round(added[int(len(added) * 0.95)], 1),
        "result_after_answer_max_ms": {bank: round(max(after[bank]), 1) for bank in BANKS},
    }


def first_events(simulator: Simulator, service: Subject, count: int) -> dict[str, Any]:
    """The first event of each of `count` streams, four at a time, with banks that take 0.2 s."""
    simulator.latency(dict.fromkeys(BANKS, 200))
    times_ms = asyncio.run(load.first_events(service.url, SANDBOX_KEY, count, in_flight=4))
    shares = {"p50": 0.5, "p99": 0.99, "max": 1.0}
    return {"streams": count, **{f"{name}_ms": _share(times_ms, share) for name, share in shares.items()}}


def _share(ordered: Sequence[float], share: float) -> float:
    return round(ordered[min(len(ordered) - 1, int(len(ordered) * share))], 1)


def webhooks(**load: float) -> dict[str, Any]:
    """Deliveries of `load`, the options of `bench.webhooks`, on servers of its own."""
    command = [sys.executable, "-m", "bench.webhooks", *(f"--{name}={value}" for name, value in load.items())]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    report: dict[str, Any] = json.loads(process.stdout)
    return {name: report[name] for name in ("accepted", "backlog", "missing", "latency_ms", "cpu_ms_per_event")}


def idle(rig: Rig, service: Subject, seconds: float) -> dict[str, Any]:
    """CPU milliseconds a second of every process without any requests."""
    before = service.cpu() | rig.cpu()
    time.sleep(seconds)
    used = {name: (value - before[name]) / seconds * 1000 for name, value in (service.cpu() | rig.cpu()).items()}
    return {"sum_ms_per_s": round(sum(used.values()), 1), **{name: round(value, 1) for name, value in used.items()}}
