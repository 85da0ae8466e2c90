"""Queries of every bank: offers, limits, the evidence of the acceptance, and no personal data in logs."""

import json
from datetime import date
from decimal import ROUND_HALF_UP, Decimal
from importlib import import_module
from typing import Any

import pytest

from providers.errors import BankFailure, ProviderUnavailable
from providers.operation import BankClient
from providers.reasons import ReasonCode
from providers.types.query import AppAuthorization, AppEvidence, BankOffer, QueryStatus
from tests.processes import Simulator
from tests.providers.conftest import Connect
from tests.providers.manuals import banks_with, manual_of
from tests.providers.samples import (
    FULL_FLOW,
    HOLDERS,
    SIMULATED,
    STRANGER,
    a_query,
    a_submission,
    a_whole_query,
    ceiling,
)
from tests.simulator.dialect import leaves

RATES = {name: bank.rate for name, bank in SIMULATED.items()}
TABLES = {name: bank.tables for name, bank in SIMULATED.items()}


def priced(amount: Decimal, term: int, rate: Decimal, insured: bool) -> dict[str, Any]:
    """The linear model: installment = amount × (1 + rate × n) / n; 2 % more with insurance."""
    factor = (1 + rate / 100 * term) * (Decimal("1.02") if insured else 1)
    installment = (amount * factor / term).quantize(Decimal("0.01"), ROUND_HALF_UP)
    return {
        "loan_value": amount,
        "installment_value": installment,
        "installments": term,
        "total_amount": installment * term,
        "interest_rate": rate,
        "with_insurance": insured,
    }


def told_by(bank: BankClient, template: str, field: str) -> bool:
    """True if the bank's answers have a place for this field, which may lack where its manual has none."""
    return field in dict(leaves(bank.adapter.templates[template])).values()


def numbers_of(offer: BankOffer) -> dict[str, Any]:
    return {key: getattr(offer, key) for key in priced(Decimal(1), 1, Decimal(1), False)}


def test_a_query_is_one_request_and_gives_the_ceiling_once_per_table_and_the_employment(
    bank: BankClient, simulator: Simulator
) -> None:
    result = bank.query(a_query())
    [call] = simulator.calls(bank.name, "query")
    assert (call["cpf"], call["request_id"], call["worked"]) == (FULL_FLOW, "request-1", True)
    amount, term = ceiling(bank.name)
    assert result.status is QueryStatus.OK
    assert result.action is None
    assert [numbers_of(offer) for offer in result.offers] == [
        priced(amount, term, RATES[bank.name], insured) for insured in (False, True)
    ]
    assert tuple(offer.table_code for offer in result.offers) == TABLES[bank.name]
    assert len({offer.native_offer_id for offer in result.offers}) == 2
    for offer in result.offers:
        assert offer.cet_monthly is not None
        if told_by(bank, "offer", "cet_monthly"):
            assert offer.native["cetMonthlyPercent"] == str(offer.cet_monthly)
            assert (offer.cet_monthly == offer.interest_rate) is not offer.with_insurance
        assert offer.employer_cnpj == "11222333000181"
        assert offer.employer_name == "Metalúrgica Aurora Ltda"
        assert offer.registration == "100200"
        assert offer.first_due_date > a_query().birth_date
        assert json.loads(json.dumps(offer.native)) == offer.native, "plain JSON"
    [link] = result.employments
    assert (link.registration, link.employer_cnpj) == ("100200", "11222333000181")
    assert link.employer_name == "Metalúrgica Aurora Ltda"
    if told_by(bank, "employment", "job_title"):
        assert link.job_title == "Operador de Produção"
    if told_by(bank, "employment", "admission_date"):
        assert link.admission_date == date(2019, 3, 11)
    assert link.margin == (Decimal("1850.00") if bank.name in banks_with("margin") else None)


@pytest.mark.parametrize("name", banks_with("margin"))
def test_each_employment_has_its_margin_and_its_own_offers(bank: BankClient) -> None:
    result = bank.query(a_query(HOLDERS["two_employers"]))
    assert [(link.registration, link.employer_cnpj, link.margin) for link in result.employments] == [
        ("100200", "11222333000181", Decimal("1850.00")),
        ("B-778", "12ABC34501DE35", Decimal("920.50")),
    ]
    assert [(offer.registration, offer.employer_cnpj, offer.table_code) for offer in result.offers] == [
        (link.registration, link.employer_cnpj, table) for link in result.employments for table in TABLES[bank.name]
    ]


def test_no_offers_says_why(bank: BankClient) -> None:
    """A holder without a margin, one whom the bank's policy refuses, and a few cents over many months."""
    few_cents = a_query(loan_value=Decimal("0.05"), installments=60)
    results = [bank.query(query) for query in (a_query(HOLDERS["no_offers"]), a_query(STRANGER), few_cents)]
    assert {(result.status, result.offers) for result in results} == {(QueryStatus.NO_OFFERS, ())}
    assert results[0].reasons == ("margem consignavel insuficiente",)
    assert [reason.code for reason in bank.adapter.reasons_for(results[1])] == [ReasonCode.CREDIT_POLICY]
    assert results[2].reasons


#: What is asked for: loan_value, installment_value and installments; and the amount and the term of the offers: None is
#: the bank's largest amount, or its longest term. An amount goes before an installment.
WISHES = (
    (Decimal("3000.50"), None, 24, Decimal("3000.50"), 24),
    (Decimal(900_000), None, 12, None, 12),
    (Decimal(3000), Decimal(999), 24, Decimal(3000), 24),
    (None, None, 20, None, 18),
    (None, None, 1, None, 6),
    (None, None, 12, None, 12),
    (None, None, 420, None, None),
)


def test_a_wish_is_priced_up_to_the_banks_ceiling(bank: BankClient) -> None:
    largest, longest = ceiling(bank.name)
    for loan_value, installment_value, installments, amount, term in WISHES:
        query = a_query(loan_value=loan_value, installment_value=installment_value, installments=installments)
        assert [numbers_of(offer) for offer in bank.query(query).offers] == [
            priced(amount or largest, term or longest, RATES[bank.name], insured) for insured in (False, True)
        ]
    offers = bank.query(a_query(installment_value=Decimal("200.00"), installments=24)).offers
    assert [(offer.with_insurance, offer.installments) for offer in offers] == [(False, 24), (True, 24)]
    assert all(abs(offer.installment_value - 200) <= Decimal("0.01") for offer in offers)
    [offer] = bank.query(a_query(with_insurance=False)).offers
    assert offer.with_insurance is False


def test_a_query_whose_connection_breaks_is_tried_again_unless_it_may_message_the_holder(
    bank: BankClient, simulator: Simulator
) -> None:
    simulator.bank(bank.name, fault="reset", operation="query", times=1)
    if bank.adapter.notifies_holder:
        with pytest.raises(ProviderUnavailable):
            bank.query(a_query())
    else:
        assert bank.query(a_query()).offers
    assert len(simulator.calls(bank.name, "query")) == (1 if bank.adapter.notifies_holder else 2)


def test_a_query_is_sent_as_the_manual_shows_it_and_what_nobody_gave_is_left_out_or_said_to_be_missing(
    bank: BankClient, simulator: Simulator
) -> None:
    """With all evidence, coordinates and amounts in the bank's own notation, and times in its own zone."""
    dialect = import_module(f"tests.simulator.test_{bank.name}").DIALECT
    assert bank.query(a_whole_query()).status is QueryStatus.OK
    assert simulator.sent(bank.name, "query") == dialect.complete(manual_of(bank.name).whole)
    bare = dialect.complete(manual_of(bank.name).bare)
    bank.query(a_query(sex=0, geolocation=None))
    assert simulator.sent(bank.name, "query") == bare
    for app in (AppAuthorization(), AppAuthorization(evidence=AppEvidence())):
        bank.query(a_query(sex=0, geolocation=None, app_authorization=app))
        assert dict(leaves(simulator.sent(bank.name, "query"))) == dict(leaves(bare)), "nothing but nulls is added"


def test_the_operators_default_portfolio_is_sent_wherever_a_portfolio_of_the_call_would_be(
    connect: Connect, name: str, simulator: Simulator
) -> None:
    bank = connect(name, portfolio="DEFAULT-1")

    def sent(operation: str) -> str:
        return simulator.calls(name, operation)[-1]["body"]  # type: ignore[no-any-return]

    offer = bank.query(a_query(portfolio="CALL-1")).offers[0]
    by_query = "CALL-1" in sent("query")
    bank.submit(a_submission(offer, portfolio="CALL-1"))
    by_submission = "CALL-1" in sent("submit")
    assert "DEFAULT-1" not in "".join(call["body"] or "" for call in simulator.calls(name))
    offer = bank.query(a_query()).offers[0]
    assert ("DEFAULT-1" in sent("query")) is by_query
    bank.submit(a_submission(offer, reference="reference-2"))
    assert ("DEFAULT-1" in sent("submit")) is by_submission


def test_no_personal_data_in_a_url_or_a_log_line(
    bank: BankClient, simulator: Simulator, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level("DEBUG")
    offer = bank.query(a_query()).offers[0]
    proposal = bank.submit(a_submission(offer))
    bank.find("reference-1")
    bank.status(proposal.native_id)
    simulator.bank(bank.name, fault="garbage")
    with pytest.raises(BankFailure):
        bank.query(a_query())
    written = capsys.readouterr()
    lines = caplog.text + written.out + written.err
    for secret in (FULL_FLOW, "11987654321", "maria@example.com", "Maria da Silva", "567890"):
        assert secret not in lines
