"""ipe's peculiarities: rates as fractions beside percents, microseconds in every date, auctions, cancellation."""

from datetime import timedelta
from decimal import Decimal

import pytest

from foundation.errors import InvalidState, NotFound
from providers.errors import ProviderUnavailable
from providers.operation import BankClient
from providers.types.answer import BankOffer
from providers.types.proposal import ProposalStatus
from tests.processes import Simulator
from tests.providers.samples import FULL_FLOW, a_submission

FOUND, BANK_FAILS = "lk_7Qm2vXo4Tn8sZr1KpW5eYdHc3JbUfGa9", "lk_5Fz8cRw1Lh6yNt3QxV0aMkGp7DsEuBj2"


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
    assert offer.valid_until is not None
    assert timedelta(hours=23) < offer.valid_until - offer.quoted_at <= timedelta(hours=24)
    assert offer.first_due_date is not None
    assert offer.first_due_date.day == 10


# --- auction


def test_an_auctions_record_is_passed_through_as_it_is(bank: BankClient, simulator: Simulator) -> None:
    record = bank.auction_proposal(FOUND)
    assert record == bank.auction_proposal(FOUND) | {
        name: record[name] for name in ("event_datetime", "expiration_datetime", "inclusion_limit_datetime")
    }
    assert (record["proposal_key"], record["rank_position"], record["alerts"]) == (FOUND, None, [])
    assert (record["disbursed_issue_amount"], record["consigned_credit_balance"]) == (10000, 1850)
    assert record["proposal"]["proposal_data"]["disbursed_issue_amount"] == 9000
    assert {call["operation"] for call in simulator.calls("ipe")} <= {"token", "auction"}


@pytest.mark.parametrize("key", ["lk_unknown", "../debts", "a b?c=d&e", "ç", "{}"])
def test_an_unknown_auction_key_is_not_found_whatever_it_looks_like(bank: BankClient, key: str) -> None:
    with pytest.raises(NotFound):
        bank.auction_proposal(key)


def test_an_auction_whose_institution_fails_is_an_outage(bank: BankClient) -> None:
    with pytest.raises(ProviderUnavailable):
        bank.auction_proposal(BANK_FAILS)


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
