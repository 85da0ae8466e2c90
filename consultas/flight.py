"""Identical queries at the same moment: one asks the banks, the others follow it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import structlog
from django.db import connection
from redis.exceptions import RedisError
from redis.lock import Lock

from consultas import repeats
from consultas.models import Query
from consultas.repeats import Earlier
from foundation.redis import redis

log = structlog.get_logger(__name__)

#: A follower looks for the leader's end after this pause, then after longer and longer ones.
_POLL_S = 0.05
_POLL_FACTOR = 1.5
_LONGEST_POLL_S = 0.5
#: The query that asks the banks prolongs its lock this often. The lock ends after the longer time; then another asks.
BEAT_S = 1.0
_TTL_S = 5


class Flight:
    """A query's part in its flight: identical queries at the same moment, of which one asks the banks.

    `leader` is the id of the query that asks the banks already; None where this query shall ask them. Then it holds the
    flight's lock, whose token is its id. Without Redis every query asks: that costs calls, never an answer. After the
    first error Redis is left alone, because each further look at a frozen Redis would cost a full time-out; the lock
    ends by itself.
    """

    def __init__(self, query: Query) -> None:
        self.leader: str | None = None
        self._lock: Lock | None = None
        if not query.fingerprint:
            return
        connection.close()
        lock = redis().lock(_key(query), timeout=_TTL_S, blocking=False, thread_local=False)
        try:
            if lock.acquire(token=str(query.id)):
                self._lock = lock
            else:
                held = redis().get(lock.name)
                # The lock may have ended between the two looks: the caller tries again.
                self.leader = held.decode() if isinstance(held, bytes) else ""
        except RedisError:
            log.warning("flight_unreachable")
        self._kept_at = time.monotonic()

    def keep_up(self) -> None:
        """Prolong the lock, if the last time is long enough ago."""
        if self._lock and time.monotonic() - self._kept_at >= BEAT_S:
            try:
                self._lock.reacquire()
                self._kept_at = time.monotonic()
            except RedisError:  # Redis is away, or another query has the lock by now
                self._lock = None

    def end(self) -> None:
        """Let the next query ask."""
        if self._lock:
            connection.close()
            with suppress(RedisError):
                self._lock.release()


@contextmanager
def flight(query: Query) -> Iterator[Flight]:
    """The query's part in its flight, until the block ends."""
    flight = Flight(query)
    try:
        yield flight
    finally:
        flight.end()


def _key(query: Query) -> str:
    return f"flight:{query.fingerprint}"


def follow(query: Query, leader: str) -> Earlier | None:
    """What the leader found, when it has finished. None if the leader died before, or the time is over."""
    key, pause = _key(query), _POLL_S
    while leader and query.seconds_left() > 0:
        row = repeats.of(leader)
        connection.close()
        if row is not None:
            return row
        try:
            if redis().get(key) != leader.encode():
                return repeats.of(leader)
        except RedisError:
            return None
        time.sleep(pause)
        pause = min(pause * _POLL_FACTOR, _LONGEST_POLL_S)
    return None
