"""ipe's peculiarities: rates as fractions beside percents, microseconds in every date, auctions, cancellation."""

from __future__ import annotations

import json
from datetime import timedelta
from decimal import Decimal

import pytest

from foundation.errors import InvalidState, NotFound
from providers.errors import ProviderRejected, ProviderUnavailable
from providers.operation import BankClient
from providers.types.answer import BankOffer
from providers.types.proposal import ProposalStatus
from tests.processes import Simulator
from tests.providers.conftest import Connect, at
from tests.providers.samples import FULL_FLOW, HOLDERS, a_query, a_submission
from tests.receiver import Received, Receiver, Reply

FOUND, BANK_FAILS = "lk_7Qm2vXo4Tn8sZr1KpW5eYdHc3JbUfGa9", "lk_5Fz8cRw1Lh6yNt3QxV0aMkGp7DsEuBj2"


@pytest.fixture
def ipe(connect: Connect) -> BankClient:
    return connect("ipe")


@pytest.fixture
def offer(ipe: BankClient) -> BankOffer:
    return ipe.query(a_query()).offers[0]


@pytest.fixture
def native_id(ipe: BankClient, offer: BankOffer) -> str:
    """The bank's id of a new debt."""
    return ipe.submit(a_submission(offer)).native_id


def answering(reply: Reply) -> Receiver:
    """A bank that gives a token and then always the same answer."""

    def answer(request: Received) -> Reply:
        if request.path == "/oauth2/token":
            return Reply(200, b'{"access_token": "token-1", "token_type": "Bearer", "expires_in": 1200}')
        return reply

    return Receiver(answer)


def fault(status: int, translation: str) -> Reply:
    """An error as the manual shows it."""
    body = {"code": f"IPE000{status}", "title": "English", "translation": translation}
    return Reply(status, json.dumps(body).encode())


# --- authentication and errors


# --- query


def test_a_rate_is_a_fraction_beside_a_cost_in_percent(offer: BankOffer) -> None:
    assert offer == BankOffer(
        native_offer_id=offer.native_offer_id,
        loan_value=Decimal("12000.00"),
        installment_value=Decimal("488.80"),
        installments=48,
        interest_rate=Decimal("1.99"),
        total_amount=Decimal("23462.40"),
        table_code="IPE-CLT-STD",
        with_insurance=False,
        first_due_date=offer.first_due_date,
        employer_cnpj="11222333000181",
        employer_name="Metalúrgica Aurora Ltda",
        registration="100200",
        native={"cetMonthlyPercent": "1.99"},
        cet_monthly=Decimal("1.99"),
        cet_annual=Decimal("23.88"),
        iof=Decimal("404.76"),
        insurance_value=Decimal(0),
        valid_until=offer.valid_until,
    )
    assert offer.valid_until is not None
    assert offer.quoted_at is not None
    assert timedelta(hours=23) < offer.valid_until - offer.quoted_at <= timedelta(hours=24)
    assert offer.first_due_date is not None
    assert offer.first_due_date.day == 10


# --- auction


def test_an_auctions_record_is_passed_through_as_it_is(ipe: BankClient, simulator: Simulator) -> None:
    record = ipe.auction_proposal(FOUND)
    assert record == ipe.auction_proposal(FOUND) | {
        name: record[name] for name in ("event_datetime", "expiration_datetime", "inclusion_limit_datetime")
    }
    assert (record["proposal_key"], record["rank_position"], record["alerts"]) == (FOUND, None, [])
    assert (record["disbursed_issue_amount"], record["consigned_credit_balance"]) == (10000, 1850)
    assert record["proposal"]["proposal_data"]["disbursed_issue_amount"] == 9000
    assert {call["operation"] for call in simulator.calls("ipe")} <= {"token", "auction"}


@pytest.mark.parametrize("key", ["lk_unknown", "../debts", "a b?c=d&e", "ç"])
def test_an_unknown_auction_key_is_not_found_whatever_it_looks_like(ipe: BankClient, key: str) -> None:
    with pytest.raises(NotFound):
        ipe.auction_proposal(key)


def test_an_auction_whose_institution_fails_is_an_outage(ipe: BankClient) -> None:
    with pytest.raises(ProviderUnavailable):
        ipe.auction_proposal(BANK_FAILS)


# --- submit


def test_submit_that_meets_a_conflict_is_a_refusal_with_the_banks_sentence(ipe: BankClient, offer: BankOffer) -> None:
    with answering(fault(409, "Já existe operação em averbação para este vínculo.")) as bank:
        with pytest.raises(ProviderRejected, match=r"^Já existe operação em averbação para este vínculo\.$"):
            at("ipe", bank.root).submit(a_submission(offer))
        with pytest.raises(InvalidState) as caught:
            at("ipe", bank.root).formalize("debt-1", None)
    assert caught.value.message == InvalidState.default_message


# --- the debt


def test_a_debt_that_nobody_signs_expires(ipe: BankClient, simulator: Simulator) -> None:
    cpf = HOLDERS["unsigned"]
    debt = ipe.submit(a_submission(ipe.query(a_query(cpf)).offers[0], cpf)).native_id
    ipe.formalize(debt, None)
    simulator.advance(31 * 24 * 3600)
    ended = ipe.status(debt)
    assert (ended.native_status, ended.status) == ("signature_expired", ProposalStatus.EXPIRED)


@pytest.mark.parametrize(("reason", "sent"), [("Desistiu.", "Desistiu."), (None, "Cancelamento a pedido do titular.")])
def test_cancel_gives_a_reason_and_may_be_repeated(
    ipe: BankClient, native_id: str, simulator: Simulator, reason: str | None, sent: str
) -> None:
    for _ in range(2):
        cancelled = ipe.cancel(native_id, reason)
        assert (cancelled.native_status, cancelled.status) == ("canceled", ProposalStatus.CANCELLED)
    assert simulator.sent("ipe", "cancel") == {"reason": sent}


def test_a_signed_debt_can_be_cancelled_and_a_paid_one_not(
    ipe: BankClient, offer: BankOffer, simulator: Simulator
) -> None:
    for advance, forbidden in ((0, False), (6, True)):
        debt = ipe.submit(a_submission(offer, reference=f"reference-{advance}")).native_id
        ipe.formalize(debt, None)
        simulator.complete(FULL_FLOW, "ipe", "signature")
        simulator.advance(advance)
        if forbidden:
            with pytest.raises(InvalidState):
                ipe.cancel(debt, None)
        else:
            assert ipe.cancel(debt, None).status is ProposalStatus.CANCELLED


def test_a_word_that_the_manual_does_not_know_moves_nothing(ipe: BankClient) -> None:
    cpf = HOLDERS["strange_status"]
    [offer, _] = ipe.query(a_query(cpf)).offers
    submitted = ipe.submit(a_submission(offer, cpf))
    assert (submitted.native_status, submitted.status) == ("em_orbita", None)
