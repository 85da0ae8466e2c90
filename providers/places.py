"""A bank's places in flight in one process, shared between the partners whose requests take them.

A hanging bank keeps every place for as long as its time-out. So one partner alone gets all but an eighth, which is
there at once for whoever comes next. Where several partners want places, the last tenth is for those that have less
than an equal share. A place that becomes free goes to the waiting partner that has the fewest.
"""

from __future__ import annotations

import threading
from collections import Counter, deque

#: One partner alone leaves this part of the places, rounded down, to others.
LEFT_TO_OTHERS = 8
#: So much of all is open to every partner where several want places.
OPEN_TO_ALL = 0.9


class Places:
    """`limit` places. Safe between threads, and between greenlets where these stand for threads."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held: Counter[str] = Counter()
        self._waiting: dict[str, deque[_Waiter]] = {}
        self._lock = threading.Lock()

    def acquire(self, partner: str, timeout: float) -> bool:
        """Take a place for a request of `partner`. False where none came free for it within `timeout` seconds."""
        with self._lock:
            if partner not in self._waiting and self._has_place_for(partner):
                self._held[partner] += 1
                return True
            waiter = _Waiter()
            self._waiting.setdefault(partner, deque()).append(waiter)
        waiter.called.wait(timeout)
        with self._lock:
            if not waiter.has_place:
                self._forget(partner, waiter)
                self._call()  # one waiting partner less may mean a greater share for the others
            return waiter.has_place

    def release(self, partner: str) -> None:
        """Give a place of `partner` back."""
        with self._lock:
            self._held[partner] -= 1
            if not self._held[partner]:
                del self._held[partner]
            self._call()

    def _call(self) -> None:
        """Give the places that are free to those who wait."""
        while self._waiting:
            entitled = [partner for partner in self._waiting if self._has_place_for(partner)]
            if not entitled:
                return
            partner = min(entitled, key=lambda each: self._held[each])
            waiter = self._waiting[partner][0]
            self._forget(partner, waiter)
            self._held[partner] += 1
            waiter.has_place = True
            waiter.called.set()

    def _forget(self, partner: str, waiter: _Waiter) -> None:
        queue = self._waiting[partner]
        queue.remove(waiter)
        if not queue:
            del self._waiting[partner]

    def _has_place_for(self, partner: str) -> bool:
        taken = self._held.total()
        if taken >= self._limit:
            return False
        partners = {partner, *self._held, *self._waiting}
        if len(partners) == 1:
            return taken < self._limit - self._limit // LEFT_TO_OTHERS
        return taken < self._limit * OPEN_TO_ALL or self._held[partner] < self._limit / len(partners)


class _Waiter:
    def __init__(self) -> None:
        self.called = threading.Event()
        self.has_place = False
