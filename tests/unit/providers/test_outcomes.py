"""By which name a failed call to a bank is counted."""

from __future__ import annotations

import pytest

from foundation.errors import ApiError, NotFound
from providers.errors import BankBusy, BankClosed, BankTimedOut, LoginRefused, ProviderError, ProviderUnavailable
from providers.http import _broken
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
