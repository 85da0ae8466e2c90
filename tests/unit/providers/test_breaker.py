"""The circuit breaker without Redis never stops calls by itself. When, for whom and for how long it opens:
tests/providers/test_breaker.py."""

from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs

from providers.breaker import Breaker
from providers.outcomes import Outcome


@pytest.fixture(autouse=True)
def _nothing_remembered() -> Iterator[None]:
    Breaker.forget()
    yield
    Breaker.forget()


def test_without_redis_calls_go_through_and_lost_counts_are_logged() -> None:
    breaker = Breaker("banco")
    with capture_logs() as logs:
        for _ in range(12):
            breaker.record(Outcome.FAILED)
    assert {"event": "breaker_unreachable", "bank": "banco", "log_level": "warning"} in logs
    assert breaker.allows()
