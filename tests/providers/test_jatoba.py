"""jatoba's peculiarities: cents, errors with HTTP 200, the signed term, the holder's CPF in place of a phone PIX
key."""

from decimal import Decimal

from providers.banks.jatoba import WITHOUT_GEOLOCATION
from providers.operation import BankClient
from providers.types.query import QueryStatus
from tests.processes import Simulator
from tests.providers.samples import a_query

# --- query


def test_without_geolocation_there_is_no_offer_and_the_reason_says_so(bank: BankClient, simulator: Simulator) -> None:
    result = bank.query(a_query(geolocation=None))
    assert (result.status, result.offers, result.reasons) == (QueryStatus.NO_OFFERS, (), (WITHOUT_GEOLOCATION,))
    assert "geolocalização" in WITHOUT_GEOLOCATION
    assert simulator.sent("jatoba", "query")["termo"]["latitude"] is None
    assert len(simulator.calls("jatoba", "query")) == 1


def test_the_rate_is_percent_and_the_cost_is_kept(bank: BankClient) -> None:
    plain, insured = bank.query(a_query()).offers
    assert (plain.interest_rate, plain.native) == (Decimal("2.15"), {"cetMonthlyPercent": "2.15"})
    assert insured.native["cetMonthlyPercent"] > "2.15"
    assert (plain.iof, plain.insurance_value) == (Decimal("354.17"), 0)
    assert insured.insurance_value == insured.total_amount - plain.total_amount
