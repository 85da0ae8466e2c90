"""The simulator's clock."""

import asyncio
from datetime import timedelta

import pytest

from simulator.clock import Clock

EARLY = timedelta(milliseconds=30)


def test_an_action_runs_though_the_event_loop_woke_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop measures by another clock than the one that the actions are due by."""

    async def in_loop() -> None:
        clock, ran = Clock(), asyncio.Event()
        when = clock.now() + EARLY / 3
        clock.at(when, lambda at: ran.set())
        lagging = clock.now
        monkeypatch.setattr(clock, "now", lambda: lagging() - EARLY)
        await asyncio.wait_for(ran.wait(), 5)
        assert clock.now() >= when

    asyncio.run(in_loop())


def test_one_step_of_the_clock_runs_all_that_became_due_in_order() -> None:
    async def in_loop() -> None:
        clock, ran = Clock(), list[str]()
        for name, seconds in (("late", 20), ("early", 10)):
            clock.at(clock.now() + timedelta(seconds=seconds), lambda at, name=name: ran.append(name))
        clock.advance(30)
        assert ran == ["early", "late"]

    asyncio.run(in_loop())
