"""The circuit breaker without Redis: for whom it opens, and that it never stops calls by itself. When it opens, and for
how long: tests/providers/test_breaker.py."""

from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs

from providers.breaker import ALL, Breaker, scopes_to_open
from providers.outcomes import Outcome


@pytest.fixture(autouse=True)
def _nothing_remembered() -> Iterator[None]:
    Breaker.forget()
    yield
    Breaker.forget()


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


def test_without_redis_calls_go_through_and_lost_counts_are_logged() -> None:
    breaker = Breaker("banco")
    with capture_logs() as logs:
        for _ in range(12):
            breaker.record(Outcome.FAILED)
    assert {"event": "breaker_unreachable", "bank": "banco", "log_level": "warning"} in logs
    assert breaker.allows()
