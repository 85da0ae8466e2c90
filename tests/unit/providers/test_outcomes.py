"""What each failure of a bank is to partners, and by which names it is counted: on the pages and in the metrics.
Without Redis nothing is counted."""

from contextlib import suppress

import pytest
from structlog.testing import capture_logs

from foundation.errors import NotFound
from providers.banks.ipe import Ipe
from providers.breaker import Breaker
from providers.errors import (
    BankBusy,
    BankClosed,
    BankFailure,
    BankFull,
    BankHeldBack,
    BankKeptOut,
    BankPaused,
    BankSwitchedOff,
    BankTimedOut,
    LoginRefused,
    OfferExpired,
    ProviderError,
    ProviderUnavailable,
)
from providers.http import _broken
from providers.metrics import BANK_CALLS, word_for
from providers.operation import BankClient, Operation
from providers.outcomes import Outcome, outcome_of


@pytest.mark.parametrize(
    ("failure", "code", "retryable", "outcome", "word"),
    [
        (BankTimedOut(), "timeout", True, "timed_out", "unavailable"),
        (ProviderUnavailable(), "unavailable", True, "failed", "unavailable"),
        (_broken(ProviderUnavailable()), "unavailable", True, "unreachable", "unavailable"),
        (BankBusy(), "unavailable", True, None, "unavailable"),
        (BankClosed(), "bank_closed", True, "closed", "unavailable"),
        (ProviderError(), "unreadable", False, "unreadable", "unreadable"),
        (LoginRefused(), "unreadable", False, "login_refused", "unreadable"),
        (ProviderUnavailable(sent=False, held_back=True), "held_back", True, None, "held_back"),
        (BankHeldBack(), "held_back", True, None, "held_back"),
        (BankKeptOut(), "held_back", True, None, "held_back"),
        (BankFull(), "held_back", True, None, "held_back"),
        (BankPaused(), "disabled", True, None, "held_back"),
        (BankSwitchedOff(), "disabled", False, None, "held_back"),
    ],
)
def test_a_failure_has_its_reason_and_its_names(
    failure: BankFailure, code: str, retryable: bool, outcome: str | None, word: str
) -> None:
    """Before the fix, every failure was `failed`, and no page told what it was."""
    assert (failure.reason.code, failure.reason.retryable) == (code, retryable)
    assert (outcome_of(failure), word_for(failure)) == (outcome, word)


def test_a_refusal_is_an_answer() -> None:
    assert outcome_of(NotFound()) == "answered"


def counts() -> dict[tuple[str, ...], float]:
    [family] = BANK_CALLS.collect()
    counted = [sample for sample in family.samples if sample.name == "bank_call_seconds_count"]
    return {tuple(sample.labels.values()): sample.value for sample in counted}


@pytest.mark.parametrize(
    ("end", "outcome"),
    [
        (None, "ok"),
        (OfferExpired(), "refused"),
        (ProviderUnavailable(), "unavailable"),
        (ZeroDivisionError(), "broken"),
    ],
)
def test_each_end_of_a_call_has_its_count(end: Exception | None, outcome: str) -> None:
    before = counts()
    client = BankClient(Ipe, None, deadline=0, request_id="r", partner="p")  # type: ignore[arg-type]  # sends nothing
    with suppress(Exception), Operation(client, None).reported("query"):
        if end is not None:
            raise end
    key = ("ipe", "query", outcome)
    assert counts() == {**before, key: before.get(key, 0) + 1}


def test_without_redis_calls_go_through_and_lost_counts_are_logged(request: pytest.FixtureRequest) -> None:
    """When, for whom and for how long the breaker opens: tests/providers/test_breaker.py."""
    Breaker.forget()
    request.addfinalizer(Breaker.forget)
    breaker = Breaker("banco")
    with capture_logs() as logs:
        for _ in range(12):
            breaker.record(Outcome.FAILED)
    assert {"event": "breaker_unreachable", "bank": "banco", "log_level": "warning"} in logs
    assert breaker.allows()
