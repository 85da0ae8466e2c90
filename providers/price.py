"""The total effective cost (CET) of a loan, as Resolução CMN 4.881/2020 defines it: the yearly rate at which the
present value of all payments, on the days when they are due, equals the amount released on the day of the quote.

The solver is written here: an offer has one release and equal installments, so Newton's method finds the rate in three
or four steps without a library (figures in docs/decisions/0032).
"""

from __future__ import annotations

import math
from calendar import monthrange
from collections.abc import Sequence
from datetime import MAXYEAR, date
from decimal import ROUND_HALF_UP, Decimal
from enum import StrEnum
from functools import lru_cache
from itertools import repeat
from operator import mul

from providers.limits import MAX_RATE, rounded

DAYS_A_YEAR = 365
MONTHS_A_YEAR = 12
#: In percent. The monthly rate has the contract's number of decimals, the yearly rate the law's two.
MONTHLY_STEP, ANNUAL_STEP = Decimal("0.000001"), Decimal("0.01")
_ITERATIONS = 50
_SMALL_STEP = 1e-5
_LARGEST_EXPONENT = 700.0
#: Percent a year. A higher number is not a plausible price. Rounded to cents, a lower one has six digits at most.
MAX_ANNUAL = 999_999


class CetSource(StrEnum):
    """The origin of an offer's CET, as the contract spells it."""

    BANK = "bank"
    COMPUTED = "computed"


def complete_cet(monthly: Decimal | None, annual: Decimal | None) -> tuple[Decimal, Decimal | None] | None:
    """The CET that a bank gives, in percent a month and percent a year. If it gives only one rate, the other is derived
    from it. None if it gives none."""
    monthly, annual = _rounded_cet(monthly, MAX_RATE), _rounded_cet(annual, MAX_ANNUAL)
    if monthly is None:
        if annual is None:
            return None
        monthly = monthly_of(annual)
    elif annual is None:
        annual = annual_of(monthly)
    return monthly, annual and annual.quantize(ANNUAL_STEP, ROUND_HALF_UP)


def _rounded_cet(percent: Decimal | None, below: int) -> Decimal | None:
    """A CET given by a bank, with at most 6 decimals. None for a number that cannot be a cost."""
    if percent is None or not percent.is_finite() or not 0 <= percent < below:
        return None
    return rounded(percent, 6, below)


@lru_cache(maxsize=4096)  # an offer is shown several times: in the stream, in the query, in an event
def cet(
    net: Decimal, installment: Decimal, installments: int, quoted_on: date, first_due: date
) -> tuple[Decimal, Decimal] | None:
    """The CET in percent a month and a year. None if no installment is due after the quote, too little is paid back, or
    the last date is none that a calendar has (some banks send 9999-12-31 for no date).

    Amounts are in reais. The loan is released on `quoted_on`. Installments are due on `first_due` and on the same day
    of each following month (the last day of a shorter month).
    """
    last_year = first_due.year + installments // MONTHS_A_YEAR + 1
    if first_due <= quoted_on or last_year > MAXYEAR or net <= 0 or installment <= 0:
        return None
    yearly = effective_rate(float(net), float(installment), due_days(quoted_on, first_due, installments), DAYS_A_YEAR)
    if yearly is None or yearly * 100 >= MAX_ANNUAL:
        return None
    return _rounded((1 + yearly) ** (1 / MONTHS_A_YEAR) - 1, MONTHLY_STEP), _rounded(yearly, ANNUAL_STEP)


@lru_cache(maxsize=1024)
def annual_of(monthly: Decimal) -> Decimal | None:
    """Percent a year for a compound rate in percent a month (not negative). None above MAX_ANNUAL."""
    yearly = (1 + float(monthly) / 100) ** MONTHS_A_YEAR - 1
    return None if yearly * 100 >= MAX_ANNUAL else _rounded(yearly, ANNUAL_STEP)


@lru_cache(maxsize=1024)
def monthly_of(annual: Decimal) -> Decimal:
    """Percent a month for a compound rate in percent a year (not negative)."""
    return _rounded((1 + float(annual) / 100) ** (1 / MONTHS_A_YEAR) - 1, MONTHLY_STEP)


def effective_rate(net: float, installment: float, elapsed: Sequence[int], per_year: int) -> float | None:
    """The yearly rate (0.4393 is 43.93 %) at which the installments' present value is `net`. None if it cannot be.

    The installments are due `elapsed` periods after the release, in rising order; `per_year` periods are a year.
    """
    count, wanted = len(elapsed), net / installment
    if wanted > count:
        return None
    # Newton's method for the force of interest (the logarithm of a period's factor). The present value is convex and
    # decreasing in it, so that a step from below the root never passes it. That of the mean period lies below.
    force = math.log(count / wanted) * count / sum(elapsed)
    for _ in range(_ITERATIONS):
        worths = list(map(math.exp, map(mul, elapsed, repeat(-force))))
        step = (sum(worths) - wanted) / sum(map(mul, worths, elapsed))
        force = max(0.0, force + step)
        if abs(step) <= _SMALL_STEP * force:  # the remaining error is about the square of the step
            break
    return math.expm1(min(force * per_year, _LARGEST_EXPONENT))


@lru_cache(maxsize=1024)
def due_days(quoted_on: date, first_due: date, installments: int) -> tuple[int, ...]:
    """The days from the quote to each installment."""
    months = range(first_due.month - 1, first_due.month - 1 + installments)
    return tuple((_same_day(first_due, month) - quoted_on).days for month in months)


def _same_day(first: date, month: int) -> date:
    """The same day of the month as `first`, or the month's last day if that is earlier. `month` counts from January of
    the year of `first`, which is 0."""
    year, index = first.year + month // MONTHS_A_YEAR, month % MONTHS_A_YEAR + 1
    return date(year, index, min(first.day, monthrange(year, index)[1]))


def _rounded(rate: float, step: Decimal) -> Decimal:
    """A rate as percent, rounded half up to `step`."""
    return Decimal(repr(rate * 100)).quantize(step, ROUND_HALF_UP)
