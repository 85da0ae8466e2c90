"""The circuit breaker's rules without Redis: when it opens, for how long, and that it never stops calls by itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs

from providers.breaker import ALL, Breaker, scopes_to_open, should_open, state_at
from providers.outcomes import Outcome


@pytest.fixture(autouse=True)
def _nothing_remembered() -> Iterator[None]:
    Breaker.forget()
    yield
    Breaker.forget()


@pytest.mark.parametrize(
    ("good", "bad", "opens"),
    [
        (0, 0, False),
        (0, 9, False),
        (0, 10, True),
        (9, 1, False),
        (5, 5, True),
        (6, 5, False),
        (11, 10, False),
        (11, 11, True),
        (1000, 0, False),
    ],
)
def test_it_opens_when_half_of_ten_or_more_operations_failed(good: int, bad: int, opens: bool) -> None:
    assert should_open(good, bad) is opens


@pytest.mark.parametrize(
    ("counts", "scopes"),
    [
        ({}, []),
        ({"a": (0, 9)}, []),
        ({"a": (0, 10)}, [ALL]),
        ({"a": (0, 5), "b": (0, 5)}, [ALL]),
        ({"a": (0, 9), "b": (0, 1)}, [ALL]),
        ({"a": (0, 12), "b": (1, 0)}, ["a"]),
        ({"a": (0, 12), "b": (3, 1)}, ["a"]),
        ({"a": (0, 12), "b": (2, 1), "c": (0, 2)}, [ALL]),
        ({"a": (0, 9), "b": (1, 0)}, []),
        ({"a": (0, 10), "b": (0, 11), "c": (60, 0)}, ["a", "b"]),
    ],
)
def test_it_opens_for_all_only_where_the_failures_are_not_one_partners_alone(
    counts: dict[str, tuple[int, int]], scopes: list[str]
) -> None:
    assert scopes_to_open(counts) == scopes


@pytest.mark.parametrize(
    ("age_s", "state"), [(None, "closed"), (0.0, "open"), (14.9, "open"), (15.0, "half_open"), (300.0, "half_open")]
)
def test_it_is_open_for_15_seconds_and_then_waits_for_a_probe(age_s: float | None, state: str) -> None:
    now = 1_000_000.0
    assert state_at(None if age_s is None else now - age_s, now) == state


def test_without_redis_calls_go_through_and_lost_counts_are_logged() -> None:
    breaker = Breaker("banco")
    with capture_logs() as logs:
        for _ in range(12):
            breaker.record(Outcome.FAILED)
    assert {"event": "breaker_unreachable", "bank": "banco", "log_level": "warning"} in logs
    assert breaker.allows()
    assert not breaker.is_open()
