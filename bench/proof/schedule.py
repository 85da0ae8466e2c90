"""The faults of a run. They follow from the seed alone, so that a run can be repeated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from bench.proof.rig import SERVERS, WORKERS

#: Seconds between two faults of the service, and between two of a bank.
EVERY_S, BANK_EVERY_S = 3.6, 4.0
#: How often each kind of fault happens, relative to the others.
KINDS = {"kill": 20, "freeze": 3, "wipe": 1, "flush": 1, "worker": 2, "clock": 1, "disk": 1, "trap": 2}
#: How often each process is killed, relative to the others.
KILLED = {
    "web": 2,
    "beat": 1,
    "postgres": 1,
    "pgbouncer": 1,
    "redis": 1,
    **dict.fromkeys(WORKERS, 1),
    "banks-0": 3,
    "banks-1": 3,
}
FROZEN = ("web", "redis", "postgres", *WORKERS)
#: The longest freeze in seconds. Longer than a dead worker's lease lasts, but for the servers: all wait for them. Every
#: call waits for the only web process, so its freeze counts whole as recovery: it is a little longer than a lease.
LONGEST_FREEZE_S, LONGEST_FREEZE_OF_WEB_S, LONGEST_FREEZE_OF_SERVERS_S = 15.0, 10.0, 3.0
#: A trapped worker stays frozen until another has taken its submissions: 8 s after it fell silent, or a little more.
TRAP_S = (11.0, 15.0)
LONGEST_STEP_S = 300
BANK_FAULTS = (
    *("http_500", "http_503", "html", "garbage", "hang", "reset", "expired_token", "huge_body"),
    *("drop_after_accept", "half_body", "slow_body") * 2,
)
OPERATIONS = ("query", "submit", "submit", "formalize", "status", "any")


@dataclass(frozen=True, order=True)
class Fault:
    """At `at` seconds after the start, `kind` happens to `target`, and lasts `lasts_s` seconds.

    kill, freeze: a process or server. wipe: Redis is killed and its data removed. flush: Redis is emptied. worker: one
    web process is killed, its parent lives. clock: the simulator's clock moves forward by `lasts_s`. disk: PostgreSQL's
    is full. trap: the banks take submissions but answer slowly, and a worker freezes in the middle of them. Other kinds
    are faults of the bank `target`: `times` calls of `operation`, after `latency_ms`.
    """

    at: float
    kind: str
    target: str
    lasts_s: float = 0.0
    operation: str = ""
    times: int | None = None
    latency_ms: int = 0


def schedule(seed: int, seconds: float, banks: list[str]) -> list[Fault]:
    """All faults of a run of `seconds`, in their order."""
    return sorted(
        [*_of_service(Random(f"{seed}-service"), seconds), *_of_banks(Random(f"{seed}-banks"), seconds, banks)]
    )


def _of_service(random: Random, seconds: float) -> Iterator[Fault]:
    free_at: dict[str, float] = {}
    at = 0.0
    while (at := at + random.uniform(0.4, 1.6) * EVERY_S) < seconds:
        fault = _draw(random, at)
        if free_at.get(fault.target, 0.0) <= at:
            yield fault
            free_at[fault.target] = at + fault.lasts_s + 2


def _draw(random: Random, at: float) -> Fault:
    kind = random.choices(list(KINDS), list(KINDS.values()))[0]
    if kind == "kill":
        return Fault(at, kind, random.choices(list(KILLED), list(KILLED.values()))[0], random.uniform(0.5, 2.5))
    if kind == "freeze":
        target = random.choice(FROZEN)
        longest = {"web": LONGEST_FREEZE_OF_WEB_S, **dict.fromkeys(SERVERS, LONGEST_FREEZE_OF_SERVERS_S)}
        return Fault(at, kind, target, random.uniform(1, longest.get(target, LONGEST_FREEZE_S)))
    if kind == "trap":
        return Fault(at, kind, random.choice(("banks-0", "banks-1")), random.uniform(*TRAP_S))
    if kind == "disk":
        return Fault(at, kind, "postgres", random.uniform(1, LONGEST_FREEZE_OF_SERVERS_S))
    if kind == "clock":
        return Fault(at, kind, "simulator", random.randint(1, LONGEST_STEP_S))
    return Fault(at, kind, "web" if kind == "worker" else "redis", random.uniform(0.5, 2.5) if kind == "wipe" else 0.0)


def _of_banks(random: Random, seconds: float, banks: list[str]) -> Iterator[Fault]:
    at = 0.0
    while (at := at + random.uniform(0.4, 1.6) * BANK_EVERY_S) < seconds:
        bank, operation = random.choice(banks), random.choice(OPERATIONS)
        if random.random() < 0.3:
            yield Fault(at, "slow", bank, 0.0, operation, None, random.randint(100, 2500))
        else:
            times = random.randint(1, 4)
            yield Fault(at, random.choice(BANK_FAULTS), bank, 0.0, operation, times, random.choice((0, 0, 300, 1000)))
