"""What the outcome of an attempt makes of its event (`Event.settle`), and when a failed delivery is tried again."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from django.utils import timezone

from foundation.http.response import retry_after_s
from partners.models import Partner
from webhooks.models import RETRY_AFTER_S, Attempt, Event, our_fault_delay, retry_delay
from webhooks.transport import AttemptResult, Fault

NOW = timezone.now()
DUE_AT, LEASE_UNTIL, LATER = NOW - timedelta(seconds=1), NOW + timedelta(seconds=30), NOW + timedelta(seconds=90)
PARTNER = Partner(webhook_url="https://p.example/w")
CLAIM = Event(id="evt_1", partner=PARTNER, due_at=DUE_AT, lease_until=LEASE_UNTIL)
LAST = len(RETRY_AFTER_S)
OK, ERROR, GONE = AttemptResult(200), AttemptResult(500, Fault.STATUS), AttemptResult(410, Fault.GONE)
OURS = AttemptResult(fault=Fault.INTERNAL)


def settled(answer: AttemptResult, **fields: Any) -> tuple[Event, Attempt]:
    """An event with these fields, by default as it was claimed, after an attempt under `CLAIM`; and the attempt."""
    as_claimed = {"due_at": DUE_AT, "lease_until": LEASE_UNTIL, "worker": "w", "attempts": 3}
    event = Event(id="evt_1", partner_id=CLAIM.partner_id, **{**as_claimed, **fields})
    return event, event.settle(answer, claim=CLAIM)


@pytest.mark.parametrize(
    ("answer", "before", "state", "failures", "wait"),
    [
        (OK, {"failures": 2, "fault": "status"}, "delivered", 2, None),
        (OK, {"failures": LAST}, "delivered", LAST, None),
        (ERROR, {}, "due", 1, RETRY_AFTER_S[0]),
        (ERROR, {"failures": LAST - 1}, "due", LAST, RETRY_AFTER_S[-1]),
        (ERROR, {"failures": LAST}, "failed", LAST, None),
        (GONE, {}, "due", 1, RETRY_AFTER_S[0]),
        (GONE, {"failures": LAST}, "failed", LAST, None),
        (AttemptResult(429, Fault.STATUS, retry_after=15), {}, "due", 1, 15),
        (OURS, {"failures": LAST}, "due", LAST, 60),
        (OURS, {"created_at": NOW - timedelta(days=1)}, "due", 0, 3_600),
        (ERROR, {"resent": True}, "due", 1, RETRY_AFTER_S[0]),
        (OK, {"resent": True}, "delivered", 0, None),
    ],
)
def test_the_outcome_of_the_current_claim(
    answer: AttemptResult, before: dict[str, Any], state: str, failures: int, wait: float | None
) -> None:
    """A fault of our own is not charged to the receiver's schedule."""
    event, attempt = settled(answer, **before)
    assert (event.state, event.failures, event.fault) == (state, failures, answer.fault or "")
    assert (event.lease_until, event.worker, event.resent, event.attempts) == (None, "", False, 4)
    assert (event.delivered_at is not None) is (state == "delivered")
    waits = event.due_at and (event.due_at - timezone.now()).total_seconds()
    assert waits is None if wait is None else 0.89 * wait < waits <= 1.1 * wait
    assert (attempt.number, attempt.url, attempt.status) == (4, "https://p.example/w", answer.status)
    assert attempt.at == answer.started_at
    assert (attempt.partner_id, attempt.fault) == (CLAIM.partner_id, answer.fault or "")


#: Another process has claimed the event meanwhile.
TAKEN = {"lease_until": LATER}
#: The content was erased meanwhile.
ERASED = {"state": "failed", "due_at": None, "lease_until": None}


@pytest.mark.parametrize(
    ("answer", "before", "state"),
    [
        (ERROR, TAKEN, "due"),
        (OURS, {**TAKEN, "failures": LAST}, "due"),
        (OK, TAKEN, "delivered"),
        (ERROR, {"state": "delivered", "due_at": None, "lease_until": None}, "delivered"),
        (ERROR, ERASED, "failed"),
        (OK, ERASED, "delivered"),
        (OK, {"resent": True, "due_at": NOW}, "due"),
        (ERROR, {"resent": True, "due_at": NOW, "failures": LAST}, "due"),
        (OK, {"resent": True, "due_at": NOW, **TAKEN}, "due"),
    ],
)
def test_the_outcome_of_an_earlier_claim(answer: AttemptResult, before: dict[str, Any], state: str) -> None:
    """A late failure decides nothing. A late success counts, unless the event was resent after the claim: at least one
    attempt begins after a resend. A later claim keeps its lease, except against a success."""
    event, _ = settled(answer, **before)
    expected = {"due_at": DUE_AT, "lease_until": LEASE_UNTIL, "failures": 0, "resent": False, **before}
    if state == "delivered":
        expected |= {"due_at": None, "lease_until": None}
    elif expected["lease_until"] == LEASE_UNTIL:
        expected["lease_until"] = None
    assert (event.state, event.attempts) == (state, 4)
    assert {name: getattr(event, name) for name in expected if name != "state"} == {
        name: value for name, value in expected.items() if name != "state"
    }


# --- The schedule -------------------------------------------------------------------------------------------------


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
