"""Limits how many queries a web process has in flight: a query that could not be finished in time is refused before it
begins, has no row and has asked no bank. The limit follows the lag, and partners share the places, as
docs/decisions/0023-limits-and-breaker.md says. Every other call that waits for a bank worker (an auction look-up, a
submission, formalizing, cancelling, the status of a proposal) needs a place like a query's, so that no partner takes
all slots of a worker by it. Each also needs a place under its partner's own limit (`partners/limits.py`).
"""

import math
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from contextvars import copy_context
from typing import TypeVar

import prometheus_client
import structlog
from django.conf import settings
from django.db import connection

from foundation.errors import RateLimited
from partners.limits import Usage

log = structlog.get_logger(__name__)
T = TypeVar("T")

#: If even the fastest query of a window has a longer lag, there is a backlog and not a burst.
SLOW_S = 2.0
WINDOW_S = 0.5
#: The limit is lowered at most this often, because the effect is delayed.
LOWERED_EVERY_S = 1.0
LOWERED_TO = 0.85
RAISED_TO = 1.02
#: The limit never falls below this number. A restarting broker also slows the few queries of a quiet hour.
LEAST = 128
#: The last places are reserved for partners with less than an equal share.
OPEN_TO_ALL = 0.9
#: Seconds for which a refused partner counts among those that share the places.
REMEMBERED_S = 5.0
LONGEST_RETRY_S = 30

REFUSED = prometheus_client.Counter(
    "queries_refused", "Queries refused with 429, because the process had more in flight than it finishes in time."
)

START = prometheus_client.Histogram(
    "query_start_seconds",
    "The lag: how long a query waited until a worker began it. More bank workers shorten it.",
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)


class OverCapacity(RateLimited):
    """More queries are in flight than the service can finish in time."""

    default_message = "O serviço está no limite da sua capacidade. Tente novamente em instantes."


class Admission:
    """The places of one process. `clock` gives monotonic seconds."""

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._least = min(LEAST, most)
        self._clock = clock
        self._limit = float(most)
        self._in_flight: Counter[uuid.UUID] = Counter()
        self._lock = threading.Lock()
        self._refused_at: dict[uuid.UUID, float] = {}
        self._window_ends = -math.inf
        self._least_lag = math.inf
        self._lag = 0.0
        self._lowered_at = -math.inf

    @property
    def limit(self) -> int:
        return int(self._limit)

    @property
    def in_flight(self) -> int:
        return self._in_flight.total()

    def enter(self, partner: uuid.UUID) -> ExitStack:
        """Take a place for a query of `partner`, which `close` frees, once. Raises OverCapacity."""
        with self._lock:
            if not self._has_place_for(partner):
                self._refused_at[partner] = self._clock()
                REFUSED.inc()
                seconds = max(1, min(LONGEST_RETRY_S, math.ceil(2 * self._lag)))
                raise OverCapacity(retry_after_s=seconds, limit="capacity")
            self._in_flight[partner] += 1
        held = ExitStack()
        held.callback(self._leave, partner)
        return held

    def _leave(self, partner: uuid.UUID) -> None:
        with self._lock:
            self._in_flight -= Counter((partner,))

    def observe(self, lag_s: float) -> None:
        """Record how long a query waited until a worker began it."""
        START.observe(lag_s)
        with self._lock:
            now = self._clock()
            if now >= self._window_ends + WINDOW_S:  # after a long pause a new window begins with this query
                self._least_lag, self._window_ends = lag_s, now + WINDOW_S
            self._least_lag = min(self._least_lag, lag_s)
            if now < self._window_ends:
                return
            self._lag, self._least_lag, self._window_ends = self._least_lag, math.inf, now + WINDOW_S
            if self._lag <= SLOW_S:
                self._limit = min(float(self._most), self._limit * RAISED_TO + 1)
            elif now - self._lowered_at >= LOWERED_EVERY_S:
                self._lowered_at, before = now, self._limit
                self._limit = max(float(self._least), LOWERED_TO * min(self._limit, self.in_flight))
                if self._limit < before:
                    lag_ms = round(self._lag * 1000)
                    log.warning("overloaded", limit=self.limit, in_flight=self.in_flight, lag_ms=lag_ms)

    def _has_place_for(self, partner: uuid.UUID) -> bool:
        total, own = self.in_flight, self._in_flight[partner]
        if total >= self.limit:
            return False
        if total < self._limit * OPEN_TO_ALL:
            return True
        since = self._clock() - REMEMBERED_S
        self._refused_at = {each: at for each, at in self._refused_at.items() if at >= since}
        return own < self._limit / len({partner, *self._in_flight, *self._refused_at})


@contextmanager
def place(usage: Usage) -> Iterator[ExitStack]:
    """A place for the duration of the block, one in this process and one under the partner's own limit: for a query, or
    any other call that waits for a bank worker. `pop_all` passes the place on. Raises OverCapacity or LimitReached."""
    with admission.enter(usage.partner.pk) as held:
        held.callback(usage.enter())
        yield held


def within(wait_ms: int | None, held: ExitStack, work: Callable[[], T]) -> T | None:
    """What `work` returns, or None after `wait_ms` milliseconds (None: no limit). The work then continues, and keeps
    the place `held` until its end."""
    if wait_ms is None:
        return work()
    place, result = held.pop_all(), Future[T]()

    def run() -> None:
        try:
            result.set_result(work())
        except Exception as error:
            result.set_exception(error)
        finally:
            place.close()
            connection.close()

    connection.close()
    threading.Thread(target=copy_context().run, args=(run,), name="query", daemon=True).start()
    try:
        return result.result(wait_ms / 1000)
    except TimeoutError:
        return None


class Held(Iterator[bytes]):
    """The events of a stream, which holds `place` until it is closed, even if no event was ever read from it."""

    def __init__(self, events: Generator[bytes], place: ExitStack) -> None:
        self._events, self._place = events, place
        place.callback(events.close)

    def __next__(self) -> bytes:
        return next(self._events)

    def close(self) -> None:
        """Close the events and free the place. A WSGI server calls this at the end of every response."""
        self._place.close()


#: The admission of this process. A forked process has its own copy.
admission = Admission(settings.QUERIES_IN_FLIGHT)
