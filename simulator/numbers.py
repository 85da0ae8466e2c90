"""The simulator's arithmetic: one linear model for every bank. It serves to check flows and ceilings, not prices.

installment = amount × (1 + rate × n) / n, rounded half up to cents; total = installment × n. Insurance makes the total
2 % higher. Amounts are in reais, rates in percent a month, terms in months.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import ROUND_HALF_UP, Decimal
from functools import cached_property, lru_cache

TERMS = (6, 12, 18, 24, 36, 48, 60)
INSURANCE_FACTOR = Decimal("1.02")
CENT, ZERO = Decimal("0.01"), Decimal("0.00")
IOF_ONCE, IOF_A_DAY = Decimal("0.0038"), Decimal("0.000082")


@dataclass(frozen=True)
class Ask:
    """What a query asks for. With nothing set, the ceiling. `amount` goes before `installment`, as in the service's
    contract."""

    amount: Decimal | None = None
    installment: Decimal | None = None
    term: int | None = None
    with_insurance: bool = True


@dataclass(frozen=True)
class Quote:
    """One priced loan. `rate` is percent a month, `total` what the holder pays in all."""

    amount: Decimal
    term: int
    installment: Decimal
    total: Decimal
    rate: Decimal
    insured: bool

    @property
    def monthly_cost(self) -> Decimal:
        """The effective cost in percent a month, two decimals, in the same linear model, with insurance."""
        return cents((self.total / self.amount - 1) / self.term * 100)

    @cached_property
    def iof(self) -> Decimal:
        """The tax in `total`: 0.38 % of the amount, and 0.0082 % for each day of the term, of at most a year."""
        return cents(self.amount * (IOF_ONCE + IOF_A_DAY * min(30 * self.term, 365)))

    @cached_property
    def insurance(self) -> Decimal:
        """The insurance in `total`."""
        return self.total - price(self.amount, self.term, self.rate, insured=False).total if self.insured else ZERO


def cents(value: Decimal) -> Decimal:
    """Rounded half up to two decimals."""
    return value.quantize(CENT, ROUND_HALF_UP)


def nearest_term(requested: int | None, max_term: int) -> int:
    """The longest available term that is neither above the requested one nor above the ceiling; if there is none, the
    shortest."""
    limit = max_term if requested is None else min(requested, max_term)
    return max((term for term in TERMS if term <= limit), default=TERMS[0])


def price(amount: Decimal, term: int, rate: Decimal, *, insured: bool) -> Quote:
    """Price one loan."""
    installment = cents(amount * _factor(term, rate, insured) / term)
    return Quote(cents(amount), term, installment, installment * term, rate, insured)


@lru_cache(maxsize=4096)
def quotes(ceiling: Decimal, max_term: int, rate: Decimal, ask: Ask) -> tuple[Quote, ...]:
    """One quote without insurance, and one with it unless it is declined. Requests above the ceiling give the ceiling.
    A request for so few cents that an installment would be zero gives none."""
    term = nearest_term(ask.term, max_term)
    priced = []
    for insured in (False, True) if ask.with_insurance else (False,):
        if ask.amount is not None:
            amount = ask.amount
        elif ask.installment is not None:
            amount = cents(ask.installment * term / _factor(term, rate, insured))
        else:
            amount = ceiling
        priced.append(price(min(amount, ceiling), term, rate, insured=insured))
    return tuple(quote for quote in priced if quote.amount > 0 and quote.installment > 0)


def first_due_date(today: date, day: int) -> date:
    """The given day of the month after next."""
    months = today.year * 12 + today.month - 1 + 2
    return date(months // 12, months % 12 + 1, day)


def _factor(term: int, rate: Decimal, insured: bool) -> Decimal:
    factor = 1 + rate / 100 * term
    return factor * INSURANCE_FACTOR if insured else factor
