"""By which name a call to a bank is counted, on the pages and in the metrics."""

from contextlib import suppress

import pytest

from foundation.errors import ApiError, NotFound
from providers.banks.ipe import Ipe
from providers.errors import (
    BankBusy,
    BankClosed,
    BankTimedOut,
    LoginRefused,
    OfferExpired,
    ProviderError,
    ProviderUnavailable,
)
from providers.http import _broken
from providers.metrics import BANK_CALLS
from providers.operation import BankClient, Operation
from providers.outcomes import outcome_of


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (ProviderUnavailable(), "failed"),
        (_broken(ProviderUnavailable()), "unreachable"),
        (BankTimedOut(), "timed_out"),
        (ProviderError(), "unreadable"),
        (LoginRefused(), "login_refused"),
        (BankClosed(), "closed"),
        (NotFound(), "answered"),
        (BankBusy(), None),
        (ProviderUnavailable(held_back=True), None),
    ],
)
def test_each_end_has_its_name(error: ApiError, outcome: str | None) -> None:
    """Before the fix, every failure was `failed`, and no page told what it was."""
    assert outcome_of(error) == outcome


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
        (ProviderError(), "unreadable"),
        (ProviderUnavailable(sent=False, held_back=True), "held_back"),
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
