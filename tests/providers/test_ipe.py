"""ipe's peculiarities: rates as fractions beside percents, microseconds in every date, cancellation. Auctions:
tests/consultas/test_auction.py."""

from datetime import timedelta
from decimal import Decimal

import pytest

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


def test_a_signed_debt_can_be_cancelled(bank: BankClient, native_id: str, simulator: Simulator) -> None:
    """A paid one can't: tests/proposals/test_actions.py."""
    bank.formalize(native_id, None)
    simulator.complete(FULL_FLOW, "ipe", "signature")
    assert bank.cancel(native_id, None).status is ProposalStatus.CANCELLED
