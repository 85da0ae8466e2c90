"""ipe's peculiarities: rates as fractions beside percents, microseconds in every date, cancellation. Auctions:
tests/consultas/test_auction.py."""

from datetime import timedelta
from decimal import Decimal

import pytest

from foundation.errors import InvalidState
from providers.operation import BankClient
from providers.types.proposal import ProposalStatus
from providers.types.query import BankOffer
from tests.processes import Simulator
from tests.providers.samples import FULL_FLOW, a_submission


@pytest.fixture
def native_id(bank: BankClient, offer: BankOffer) -> str:
    """The bank's id of a new debt."""
    return bank.submit(a_submission(offer)).native_id


# --- query


def test_an_offer_has_all_that_the_bank_tells_of_its_price(offer: BankOffer) -> None:
    """The rate is a fraction, the cost beside it a percentage."""
    assert (offer.interest_rate, offer.cet_monthly, offer.cet_annual) == (
        Decimal("1.99"),
        Decimal("1.99"),
        Decimal("23.88"),
    )
    assert (offer.iof, offer.insurance_value) == (Decimal("404.76"), Decimal(0))
    assert timedelta(hours=23) < offer.valid_until - offer.quoted_at <= timedelta(hours=24)
    assert offer.first_due_date.day == 10


# --- the debt


@pytest.mark.parametrize(("reason", "sent"), [("Desistiu.", "Desistiu."), (None, "Cancelamento a pedido do titular.")])
def test_cancel_gives_a_reason_and_may_be_repeated(
    bank: BankClient, native_id: str, simulator: Simulator, reason: str | None, sent: str
) -> None:
    for _ in range(2):
        cancelled = bank.cancel(native_id, reason)
        assert (cancelled.native_status, cancelled.status) == ("canceled", ProposalStatus.CANCELLED)
    assert simulator.sent("ipe", "cancel") == {"reason": sent}


def test_a_signed_debt_can_be_cancelled_and_a_paid_one_not(
    bank: BankClient, offer: BankOffer, simulator: Simulator
) -> None:
    for advance, forbidden in ((0, False), (6, True)):
        debt = bank.submit(a_submission(offer, reference=f"reference-{advance}")).native_id
        bank.formalize(debt, None)
        simulator.complete(FULL_FLOW, "ipe", "signature")
        simulator.advance(advance)
        if forbidden:
            with pytest.raises(InvalidState):
                bank.cancel(debt, None)
        else:
            assert bank.cancel(debt, None).status is ProposalStatus.CANCELLED
