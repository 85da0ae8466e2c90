"""The total cost of a loan (CET)."""

from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from providers.price import CetSource, annual_of, cet, complete_cet, due_days, effective_rate, monthly_of
from providers.types.query import BankOffer
from tests.providers.samples import OFFER

QUOTED = date(2026, 11, 22)
LATER = date(2027, 1, 31)
PRICED = {
    "loan_value": Decimal("12000.00"),
    "installment_value": Decimal("488.80"),
    "installments": 48,
    "total_amount": Decimal("23462.40"),
    "first_due_date": date(2027, 1, 10),
    "quoted_at": datetime(2026, 11, 22, 15, tzinfo=UTC),
    **dict.fromkeys(("cet_monthly", "cet_annual", "cet_source")),
}


def an_offer(**changes: Any) -> BankOffer:
    return replace(OFFER, **{**PRICED, **changes})


def test_the_known_case() -> None:
    yearly = effective_rate(940.0, 205.73, range(1, 6), 12)
    assert round(yearly * 100, 2) == 43.93
    assert round(((1 + yearly) ** (1 / 12) - 1) * 100, 2) == 3.08


def test_due_dates_keep_their_day_and_end_a_short_month() -> None:
    due = due_days(QUOTED, date(2026, 12, 31), 4)
    dates = [date.fromordinal(QUOTED.toordinal() + days) for days in due]
    assert dates == [date(2026, 12, 31), date(2027, 1, 31), date(2027, 2, 28), date(2027, 3, 31)]


@pytest.mark.parametrize(
    ("rate", "first_due"),
    [
        *((rate, day) for rate in ("0", "0.0001", "0.0199", "0.3", "2") for day in (date(2026, 11, 23), LATER)),
        ("10000", date(2028, 11, 10)),  # before the fix, a rate below zero, and for other prices an error
    ],
)
def test_what_is_paid_is_worth_what_is_released(rate: str, first_due: date) -> None:
    for months in (1, 2, 6, 24, 60, 420):
        net = 5000.0
        installment = net * (1 + float(rate) * months) / months
        due = due_days(QUOTED, first_due, months)
        yearly = effective_rate(net, installment, due, 365)
        assert yearly is not None, months
        worth = sum(installment * (1 + yearly) ** (-days / 365) for days in due)
        assert worth == pytest.approx(net, rel=1e-8), months


@pytest.mark.parametrize(
    ("net", "installment", "first_due"),
    [
        ("1000", "90", date(2027, 1, 10)),  # less than the released amount
        ("1000", "100", QUOTED),
        ("1000", "100", date(2026, 11, 1)),
        ("0.01", "1000000000", date(2026, 11, 23)),  # a price that can't be true
        ("1000", "100", date(9999, 12, 31)),  # before the fixes, this date and these amounts
        ("1000", "0", date(2027, 1, 10)),
        ("1000", "-1", date(2027, 1, 10)),
    ],
)
def test_where_there_is_no_cost_to_tell(net: str, installment: str, first_due: date) -> None:
    assert cet(Decimal(net), Decimal(installment), 10, QUOTED, first_due) is None


def test_months_and_years_of_a_rate() -> None:
    assert annual_of(Decimal("3.081301")) == Decimal("43.93")
    assert monthly_of(Decimal("43.93")) == pytest.approx(Decimal("3.081"), abs=Decimal("0.001"))
    assert annual_of(Decimal("9999")) is None
    assert complete_cet(Decimal(1), Decimal("999999.996")) == (1, annual_of(Decimal(1))), "six digits are kept"


COMPUTED = (Decimal("3.057689"), Decimal("43.54"), CetSource.COMPUTED)


@pytest.mark.parametrize(
    ("told", "cost"),
    [
        (
            {"cet_monthly": Decimal("1.99"), "cet_annual": Decimal("23.88")},
            (Decimal("1.99"), Decimal("23.88"), CetSource.BANK),
        ),
        # From one of the bank's numbers follows the other.
        ({"cet_monthly": Decimal("1.99")}, (Decimal("1.99"), Decimal("26.68"), CetSource.BANK)),
        ({"cet_annual": Decimal("26.681")}, (Decimal("1.990399"), Decimal("26.68"), CetSource.BANK)),
        ({}, COMPUTED),
        ({"cet_monthly": Decimal("-0.01")}, COMPUTED),
        ({"cet_monthly": Decimal(10_000)}, COMPUTED),
        ({"first_due_date": None}, (None, None, None)),
    ],
)
def test_the_banks_cost_goes_before_a_computed_one(told: dict[str, Any], cost: tuple[Any, ...]) -> None:
    offer = an_offer(**told)
    assert (offer.cet_monthly, offer.cet_annual, offer.cet_source) == cost


def test_offers_of_two_banks_are_compared_by_one_formula() -> None:
    """Whatever the bank reports: `ipe` reports the nominal rate as yearly cost."""
    computed, told = an_offer(), an_offer(cet_monthly=Decimal("1.99"), cet_annual=Decimal("23.88"))
    assert told.comparable_cet() == computed.comparable_cet() == (Decimal("3.057689"), Decimal("43.54"))
    assert an_offer(first_due_date=None, cet_monthly=Decimal("1.99")).comparable_cet() == (None, None)


def test_the_day_of_the_quote_is_brasilias() -> None:
    late = an_offer(quoted_at=datetime(2026, 11, 23, 2, tzinfo=UTC))
    assert late.cet_annual == an_offer().cet_annual
    assert an_offer(quoted_at=datetime(2026, 11, 23, 3, tzinfo=UTC)).cet_annual != late.cet_annual
