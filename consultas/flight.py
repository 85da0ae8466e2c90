"""Identical queries at the same time: one asks the banks, the others wait for its result."""

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
from foundation import replies
from foundation.redis import redis

log = structlog.get_logger(__name__)

#: The first pause between a waiting query's polls. Each further pause is longer.
_POLL_S = 0.05
_POLL_FACTOR = 1.5
_LONGEST_POLL_S = 0.5
#: How often the asking query renews its lock, and the lock's lifetime. When the lock expires, another query asks.
BEAT_S = 1.0
_TTL_S = 5


class Flight:
    """One query's part in its flight: identical queries at the same time, of which one asks the banks.

    `leader` is the id of the query that is already asking the banks, or None if this query must ask them. In that case
    it holds the flight's lock, with its id as the token. Without Redis every query asks, which costs calls but no
    answer. After the first Redis error, Redis is not used again, because each further attempt would cost a full
    time-out; the lock expires by itself.
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
                # The lock may have expired between the two commands. The caller then tries again.
                self.leader = held.decode() if isinstance(held, bytes) else ""
        except RedisError:
            log.warning("flight_unreachable")
        self._kept_at = time.monotonic()

    def keep_up(self) -> None:
        """Renew the lock if the last renewal is long enough ago."""
        if self._lock and time.monotonic() - self._kept_at >= BEAT_S:
            try:
                self._lock.reacquire()
                self._kept_at = time.monotonic()
            except RedisError:  # Redis is unavailable, or another query holds the lock now
                self._lock = None

    def end(self) -> None:
        """Release the lock, so that the next query asks."""
        if self._lock:
            connection.close()
            with suppress(RedisError):
                self._lock.release()


@contextmanager
def flight(query: Query) -> Iterator[Flight]:
    """The query's part in its flight, for the duration of the block."""
    flight = Flight(query)
    try:
        yield flight
    finally:
        flight.end()


def _key(query: Query) -> str:
    return f"flight:{query.fingerprint}"


def follow(query: Query, leader: str) -> Earlier | None:
    """The leader's result. None if no process works on the leader any more and it has no result, or if the time is
    over.

    The lock expires soon after the leader's web process died. A living worker still ends the leader.
    """
    key, pause = _key(query), _POLL_S
    while leader and query.seconds_left() > 0:
        row = repeats.of(leader)
        connection.close()
        if row is not None:
            return row
        try:
            if redis().get(key) != leader.encode() and not replies.is_at_work(leader):
                return repeats.of(leader)
        except RedisError:
            return None
        time.sleep(pause)
        pause = min(pause * _POLL_FACTOR, _LONGEST_POLL_S)
    return None
