"""The simulator's clock: real time plus an offset that only increases. It also runs scheduled actions."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count

Action = Callable[[datetime], None]


class Clock:
    """Tells the time and runs scheduled actions in order, also when the time is moved.

    An action gets the time for which it was scheduled, not the time at which it runs. The actions of a chain
    (signature, then disbursement) therefore keep their distances even if one big step of the clock makes all of them
    due.
    """

    def __init__(self) -> None:
        self._order = count()
        self._wakeup: asyncio.TimerHandle | None = None
        self.reset()

    def reset(self) -> None:
        """Return to real time and drop all scheduled actions."""
        self._offset = timedelta()
        self._due: list[tuple[datetime, int, Action]] = []
        self._sleep_again()

    def now(self) -> datetime:
        """The current time, aware, in UTC."""
        return datetime.now(UTC) + self._offset

    def advance(self, seconds: float) -> None:
        """Move forward and run all actions that are due then."""
        self._offset += timedelta(seconds=seconds)
        self.run_due()

    def at(self, when: datetime, action: Action) -> None:
        """Schedule `action(when)`. It cannot be cancelled, so it must check the state when it runs."""
        heapq.heappush(self._due, (when, next(self._order), action))
        if self._due[0][0] == when:
            self._sleep_again()

    def run_due(self) -> None:
        """Run the actions that are due. Called by the event loop, by `advance`, and before each request is answered.

        The event loop measures by another clock and may call a moment too early, so the next call is always set."""
        try:
            while self._due and self._due[0][0] <= self.now():
                when, _, action = heapq.heappop(self._due)
                action(when)
        finally:
            self._sleep_again()

    def _sleep_again(self) -> None:
        if self._wakeup is not None:
            self._wakeup.cancel()
            self._wakeup = None
        if self._due:
            delay = (self._due[0][0] - self.now()).total_seconds()
            self._wakeup = asyncio.get_running_loop().call_later(max(delay, 0), self.run_due)
