"""When a failed delivery is tried again."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from foundation.http import retry_after_s
from webhooks.models import RETRY_AFTER_S, our_fault_delay, retry_delay


def test_steps_of_the_contract() -> None:
    minute, hour = 60, 3_600
    assert (
        10, minute, 5 * minute, 30 * minute, 2 * hour, 5 * hour, 10 * hour, 10 * hour
    ) == RETRY_AFTER_S  # fmt: skip


@pytest.mark.parametrize("failures", range(len(RETRY_AFTER_S)))
def test_each_step_is_spread_by_a_tenth(failures: int) -> None:
    step = RETRY_AFTER_S[failures]
    waits = [retry_delay(failures).total_seconds() for _ in range(200)]

    assert 0.9 * step <= min(waits) < max(waits) <= 1.1 * step


@pytest.mark.parametrize(("wish", "granted"), [(0, 60), (59, 60), (90, 90), (121, 120), (999_999, 120), (1e300, 120)])
def test_retry_after_counts_between_one_and_two_steps(wish: float, granted: float) -> None:
    assert retry_delay(1, wish) == timedelta(seconds=granted)


@pytest.mark.parametrize(
    ("header", "low", "high"),
    [
        ("15", 15, 15),
        ("999999", 20, 20),
        ("1", 10, 10),
        ("soon", 9, 11),
        ("-5", 9, 11),
        ("", 9, 11),
        ("Fri, 31 Dec 99999999999 23:59:59 GMT", 9, 11),
        (format_datetime(datetime(2999, 1, 1, tzinfo=UTC), usegmt=True), 20, 20),
        ("9" * 400, 20, 20),
    ],
)
def test_a_receivers_header_is_a_number_or_a_date(header: str, low: float, high: float) -> None:
    assert low <= retry_delay(0, retry_after_s({"Retry-After": header})).total_seconds() <= high


@pytest.mark.parametrize(("age", "wait"), [(0, 60), (600, 60), (1_200, 120), (86_400, 3_600)])
def test_after_our_own_fault_an_event_waits_a_tenth_of_its_age(age: float, wait: float) -> None:
    waits = [our_fault_delay(timedelta(seconds=age)).total_seconds() for _ in range(200)]

    assert 0.9 * wait <= min(waits) < max(waits) <= 1.1 * wait
