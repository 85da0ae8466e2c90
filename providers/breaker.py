"""Circuit breaker per bank, its state shared by all workers through Redis.

It opens when at least half of 10 or more calls within 30 s failed (time-out, connection, 5xx, unreadable;
never a refusal), stays open 15 s, then lets one probe through: a success closes it, a failure opens it again.
A call is one operation of `providers.operation.BankClient`, however many requests it takes.
Counts are gathered in the process and written with a failure, else every two seconds; the verdict is read at
most once a second. Without Redis calls go through: the breaker protects, it is not allowed to be an outage of its own.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

import structlog
from redis.exceptions import RedisError

from foundation.redis import redis

log = structlog.get_logger(__name__)

WINDOW_S = 30
BUCKET_S = 5
MINIMUM_CALLS = 10
OPEN_S = 15.0
PROBE_S = 30
CACHE_S = 1.0
FLUSH_S = 2.0


def should_open(good: int, bad: int) -> bool:
    """True when so many good and bad operations within WINDOW_S seconds mean that the bank is down."""
    return bad > 0 and good + bad >= MINIMUM_CALLS and bad >= good


def state_at(opened_at: float | None, now: float) -> str:
    """`closed`, `open`, or `half_open` (the next call is the probe). Both times are in seconds since the epoch."""
    if opened_at is None:
        return "closed"
    return "open" if now - opened_at < OPEN_S else "half_open"


@dataclass
class _Local:
    """What this process knows of one bank: outcomes not yet written, and the verdict last read."""

    good: int = 0
    bad: int = 0
    flushed_at: float = 0.0
    read_at: float = float("-inf")
    opened_at: float | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)


class Breaker:
    """The breaker of the bank `name`, as one caller sees it: a probe's outcome is told to the object that was
    allowed to make it. `clock` gives seconds since the epoch (shared by all processes)."""

    _locals: dict[str, _Local] = {}

    def __init__(self, name: str, clock: object = time.time) -> None:
        self.name = name
        self._clock = clock
        self._state = self._locals.setdefault(name, _Local())
        self._probing = False

    @classmethod
    def forget(cls) -> None:
        """Drop what this process remembers of every bank."""
        cls._locals.clear()

    def allows(self) -> bool:
        """Whether a call may go out now; when half open only one caller in all processes hears yes."""
        try:
            opened_at = self._opened_at()
            if opened_at is None:
                return True
            if self._now() - opened_at < OPEN_S:
                return False
            taken = bool(redis().set(self._key("probe"), 1, nx=True, ex=PROBE_S))
        except RedisError:
            return True
        self._probing = self._probing or taken
        return taken

    def record(self, success: bool) -> None:
        """Count the outcome of an operation that `allows` let out."""
        state = self._state
        with state.lock:
            state.good += success
            state.bad += not success
            due = not success or state.opened_at is not None or self._now() - state.flushed_at >= FLUSH_S
            if not due:
                return
            good, bad, state.good, state.bad = state.good, state.bad, 0, 0
            state.flushed_at = self._now()
        try:
            self._settle(success, good, bad)
        except RedisError:
            # The counts are lost, which only makes the breaker slower to open.
            log.warning("breaker_unreachable", bank=self.name)

    def is_open(self) -> bool:
        """Whether calls are held back now, for the back office and metrics. Takes no probe."""
        try:
            opened_at = self._opened_at()
        except RedisError:
            return False
        return state_at(opened_at, self._now()) == "open"

    @classmethod
    def states(cls, names: Iterable[str]) -> dict[str, str]:
        """Of each bank of `names` closed, open, or half_open (the next call is the probe), by one look for all
        of them. Raises RedisError."""
        breakers = [cls(name) for name in names]
        found = redis().mget([breaker._key("opened_at") for breaker in breakers])
        return {
            breaker.name: state_at(float(raw) if raw else None, breaker._now())
            for breaker, raw in zip(breakers, found, strict=True)
        }

    def _settle(self, success: bool, good: int, bad: int) -> None:
        opened_at = self._opened_at()
        if opened_at is not None:
            # Only the probe speaks for the bank: calls that began before the opening may come back long after it.
            if self._probing:
                self._probing = False
                self._close() if success else self._open()
            return
        bucket = int(self._now()) // BUCKET_S
        current = self._key(f"calls:{bucket}")
        buckets = [self._key(f"calls:{bucket - age}") for age in range(WINDOW_S // BUCKET_S)]
        pipe = redis().pipeline(transaction=False)
        pipe.hincrby(current, "good", good)
        pipe.hincrby(current, "bad", bad)
        pipe.expire(current, WINDOW_S + BUCKET_S)
        for key in buckets:
            pipe.hmget(key, "good", "bad")
        rows = pipe.execute()[3:]
        total_good = sum(int(row[0] or 0) for row in rows)
        total_bad = sum(int(row[1] or 0) for row in rows)
        if should_open(total_good, total_bad):
            self._open()

    def _open(self) -> None:
        now = self._now()
        pipe = redis().pipeline()
        pipe.set(self._key("opened_at"), now, ex=300)
        pipe.delete(self._key("probe"))
        pipe.execute()
        self._state.opened_at, self._state.read_at = now, now
        log.warning("breaker_opened", bank=self.name)

    def _close(self) -> None:
        bucket = int(self._now()) // BUCKET_S
        buckets = [self._key(f"calls:{bucket - age}") for age in range(WINDOW_S // BUCKET_S + 1)]
        redis().delete(self._key("opened_at"), self._key("probe"), *buckets)
        self._state.opened_at, self._state.read_at = None, self._now()
        log.info("breaker_closed", bank=self.name)

    def _opened_at(self) -> float | None:
        state = self._state
        if self._now() - state.read_at >= CACHE_S:
            state.read_at = self._now()  # also where the look fails: not every call shall try
            raw = redis().get(self._key("opened_at"))
            state.opened_at = float(raw) if raw else None
        return state.opened_at

    def _now(self) -> float:
        return float(self._clock())  # type: ignore[operator]

    def _key(self, what: str) -> str:
        return f"breaker:{self.name}:{what}"
