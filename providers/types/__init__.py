"""The frozen dataclasses that pass between the service and a bank's adapter. They contain no behaviour of any bank.

Money is `Decimal` in reais. Rates are `Decimal` in percent a month (1.99). Times are aware UTC.
"""

from typing import TypeVar

T = TypeVar("T")


def given(value: T | None) -> T:
    """`value`, which the type allows to be None but another rule requires: `Bank.required`, an account if there is no
    PIX key, `accepted_at` when a bank is asked. Raises ValueError for None."""
    if value is None:
        raise ValueError("a value that must be there is missing")
    return value
