"""How the simulated banks compute what tests/providers/contract/test_queries.py does not reach."""

from datetime import date
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.numbers import TERMS, Ask, first_due_date, price, quotes

CEILING = Decimal(12000)

terms = st.one_of(st.none(), st.integers(1, 420))
max_terms = st.sampled_from(TERMS[2:])
rates = st.sampled_from([Decimal("1.79"), Decimal("1.99"), Decimal("2.35")])


def test_half_a_cent_is_rounded_up() -> None:
    assert price(Decimal("0.03"), 6, Decimal(0), insured=False).installment == Decimal("0.01")


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
