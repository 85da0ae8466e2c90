"""The places in flight of one bank in one process, shared between the partners whose requests use them.

A hanging bank keeps every place for the length of its time-out. A single partner therefore gets at most seven eighths
of the places; the rest is free for the next partner. If several partners want places, the last tenth is for partners
that have less than an equal share. A free place goes to the waiting partner with the fewest places.
"""

from __future__ import annotations

import threading
from collections import Counter, deque

#: A single partner leaves one part in this many, rounded down, to others.
LEFT_TO_OTHERS = 8
#: The part of all places that every partner may use while several partners want places.
OPEN_TO_ALL = 0.9


class Places:
    """`limit` places. Thread-safe, and safe for greenlets where gevent replaces threads."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held: Counter[str] = Counter()
        #: The waiting requests by partner. An event is set when its request has a place.
        self._waiting: dict[str, deque[threading.Event]] = {}
        self._lock = threading.Lock()

    def acquire(self, partner: str, timeout: float) -> bool:
        """Take a place for a request of `partner`. False if none became free for it within `timeout` seconds."""
        with self._lock:
            if partner not in self._waiting and self._has_place_for(partner):
                self._held[partner] += 1
                return True
            waiter = threading.Event()
            self._waiting.setdefault(partner, deque()).append(waiter)
        waiter.wait(timeout)
        with self._lock:
            if not waiter.is_set():
                self._forget(partner, waiter)
                self._give_free_places()  # with one partner fewer waiting, the others' share may be larger
            return waiter.is_set()

    def release(self, partner: str) -> None:
        with self._lock:
            self._held -= Counter((partner,))
            self._give_free_places()

    def _give_free_places(self) -> None:
        while self._waiting:
            entitled = [partner for partner in self._waiting if self._has_place_for(partner)]
            if not entitled:
                return
            partner = min(entitled, key=lambda each: self._held[each])
            waiter = self._waiting[partner][0]
            self._forget(partner, waiter)
            self._held[partner] += 1
            waiter.set()

    def _forget(self, partner: str, waiter: threading.Event) -> None:
        queue = self._waiting[partner]
        queue.remove(waiter)
        if not queue:
            del self._waiting[partner]

    def _has_place_for(self, partner: str) -> bool:
        in_use = self._held.total()
        if in_use >= self._limit:
            return False
        partners = {partner, *self._held, *self._waiting}
        if len(partners) == 1:
            return in_use < self._limit - self._limit // LEFT_TO_OTHERS
        return in_use < self._limit * OPEN_TO_ALL or self._held[partner] < self._limit / len(partners)
