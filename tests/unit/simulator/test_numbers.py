from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.numbers import TERMS, Ask, first_due_date, nearest_term, price, quotes

CEILING = Decimal(12000)
RATE = Decimal("1.99")

amounts = st.decimals("0.01", "1000000", places=2)
terms = st.one_of(st.none(), st.integers(1, 420))
max_terms = st.sampled_from(TERMS[2:])
rates = st.sampled_from([Decimal("1.79"), Decimal("1.99"), Decimal("2.35")])


def test_the_installment_is_amount_times_one_plus_rate_times_n_over_n() -> None:
    quote = price(Decimal(12000), 48, RATE, insured=False)
    assert quote.installment == Decimal("488.80")  # 12000 × (1 + 0.0199 × 48) / 48
    assert quote.total == Decimal("23462.40")


def test_insurance_makes_the_total_two_percent_higher() -> None:
    quote = price(Decimal(12000), 48, RATE, insured=True)
    assert quote.installment == Decimal("498.58")  # 488.80 × 1.02 = 498.576
    assert quote.total == Decimal("23931.84")


def test_half_a_cent_is_rounded_up() -> None:
    assert price(Decimal("0.03"), 6, Decimal(0), insured=False).installment == Decimal("0.01")


@pytest.mark.parametrize(
    ("asked", "max_term", "expected"),
    [
        (1, 48, 6),
        (6, 48, 6),
        (7, 48, 6),
        (13, 48, 12),
        (47, 48, 36),
        (48, 48, 48),
        (420, 48, 48),
        (60, 24, 24),
        (None, 36, 36),
    ],
)
def test_a_term_that_is_not_offered_gives_the_nearest_lower_one(
    asked: int | None, max_term: int, expected: int
) -> None:
    assert nearest_term(asked, max_term) == expected


@given(amounts, terms, max_terms, rates)
def test_an_amount_is_met_or_clamped_to_the_ceiling(
    amount: Decimal, term: int | None, max_term: int, rate: Decimal
) -> None:
    for quote in quotes(CEILING, max_term, rate, Ask(amount=amount, term=term)):
        assert quote.amount == min(amount, CEILING)
        assert quote.total == quote.installment * quote.term


def test_cents_that_would_give_no_installment_are_not_quoted() -> None:
    assert quotes(CEILING, 60, RATE, Ask(amount=Decimal("0.05"), term=60)) == ()
    assert {quote.installment for quote in quotes(CEILING, 60, RATE, Ask(amount=Decimal("0.30"), term=60))} == {
        Decimal("0.01")
    }


@given(st.decimals("1", "100000", places=2), terms, max_terms, rates)
def test_an_installment_is_met_to_the_cent_insurance_included_or_clamped(
    installment: Decimal, term: int | None, max_term: int, rate: Decimal
) -> None:
    for quote in quotes(CEILING, max_term, rate, Ask(installment=installment, term=term)):
        if quote.amount < CEILING:
            assert quote.installment == installment
        else:
            assert quote.amount == CEILING
            assert quote.installment <= installment


@pytest.mark.parametrize(
    ("today", "due"),
    [
        (date(2026, 1, 31), date(2026, 3, 10)),
        (date(2026, 11, 21), date(2027, 1, 10)),
        (date(2026, 12, 1), date(2027, 2, 10)),
        (date(2026, 10, 31), date(2026, 12, 10)),
    ],
)
def test_the_first_installment_is_due_in_the_month_after_next(today: date, due: date) -> None:
    assert first_due_date(today, 10) == due
