"""aroeira's peculiarities: form data, numbers as text, pages in place of answers, a second simulation at submit."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from providers import rules
from providers.banks.aroeira import CITIES, Aroeira
from providers.errors import BankClosed, OfferExpired, ProviderUnavailable
from providers.operation import BankClient
from providers.rules import UNKNOWN_CITY
from providers.types.proposal import BankSubmission, ProposalStatus
from providers.types.query import AppAuthorization, AppEvidence, BankOffer, Geolocation
from tests.processes import Simulator
from tests.providers.conftest import adapter_of
from tests.providers.samples import OFFER, a_query, a_submission, changed_submission

PLACE = Geolocation(Decimal("-23.5505"), Decimal("-46.63"), Decimal("12.5"))
APP = AppAuthorization(
    "app-1", "2026-11-21", AppEvidence("App/2.1", "Android 15", "SM-A155", "Celular da Maria", "phone", PLACE)
)


def worked(simulator: Simulator, operation: str) -> list[bool]:
    return [call["worked"] for call in simulator.calls("aroeira", operation)]


# --- query


def test_a_phone_of_ten_digits_keeps_its_mask(bank: BankClient, simulator: Simulator) -> None:
    bank.query(a_query(phone="1134567890"))
    assert simulator.sent("aroeira", "query")["celular"] == "(11) 3456-7890"


def test_the_evidence_of_an_app_raises_the_ceiling_by_a_tenth(bank: BankClient) -> None:
    offers = bank.query(a_query(app_authorization=AppAuthorization("app-1"))).offers
    assert {offer.loan_value for offer in offers} == {Decimal("10780.00")}


# --- virada de folha


def test_a_page_in_place_of_a_token_is_an_outage_and_nothing_was_asked(bank: BankClient, simulator: Simulator) -> None:
    simulator.bank("aroeira", fault="html")
    with pytest.raises(BankClosed) as caught:
        bank.query(a_query())
    assert not caught.value.sent
    assert simulator.calls("aroeira", "query") == []


# --- proposal


def test_submit_simulates_the_offers_table_and_term_again(bank: BankClient, simulator: Simulator) -> None:
    query = a_query(installment_value=Decimal("250.00"), installments=18, app_authorization=APP)
    insured = bank.query(query).offers[1]
    bank.submit(a_submission(insured, query=query, portfolio="ORIGEM-7"))
    assert worked(simulator, "query") == [True, True]
    form = simulator.sent("aroeira", "query")
    assert (form["codigo_tabela"], form["matricula"], form["prazo"], form["seguro"]) == ("60216", "100200", "18", "S")
    assert form["tipo_simulacao"] == "2"
    assert form["valor"].replace(".", "").replace(",", ".") == str(insured.loan_value)
    assert (form["tipo_evidencia"], form["app_protocolo"], form["codigo_origem"]) == ("2", "app-1", "ORIGEM-7")


def test_the_offer_id_never_expires(bank: BankClient, offer: BankOffer, simulator: Simulator) -> None:
    simulator.advance(90 * 24 * 3600)
    assert bank.submit(a_submission(offer)).status is ProposalStatus.CREATED


@pytest.mark.parametrize(
    "other",
    [
        {"table_code": "99999"},
        {"registration": "B-778"},
        {"installments": 30},
        {"loan_value": Decimal("9800.01")},
        {"installment_value": Decimal("457.43")},
        {"interest_rate": Decimal("1.79")},
        {},  # without the evidence of a query
    ],
    ids=str,
)
def test_terms_that_the_bank_would_not_give_again_are_never_submitted(
    bank: BankClient, offer: BankOffer, simulator: Simulator, other: dict[str, Any]
) -> None:
    with pytest.raises(OfferExpired):
        bank.submit(a_submission(replace(offer, **other), query=a_query() if other else None))
    assert simulator.calls("aroeira", "submit") == []


def test_a_failure_of_the_second_simulation_is_no_unknown_outcome(
    bank: BankClient, offer: BankOffer, simulator: Simulator
) -> None:
    simulator.bank("aroeira", fault="http_503", operation="query")
    with pytest.raises(ProviderUnavailable) as caught:
        bank.submit(a_submission(offer))
    assert caught.value.sent is False
    assert simulator.calls("aroeira", "submit") == []


def of_holder(**changes: Any) -> BankSubmission:
    return changed_submission(a_submission(OFFER), titular=changes)


@pytest.mark.parametrize(
    ("changes", "codes"),
    [
        ({"nacionalidade": "Brasileira"}, {"nacionalidade": "1"}),
        ({"nacionalidade": "brasileiro"}, {"nacionalidade": "1"}),
        ({"nacionalidade": "Portuguesa"}, {"nacionalidade": "2"}),
        ({"naturalidade_cidade": "  são   PAULO ", "naturalidade_uf": "SP"}, {"naturalidade_cidade": "3648"}),
        (
            {"naturalidade_cidade": "Ji-Paraná", "naturalidade_uf": "RO"},
            {"naturalidade_cidade": CITIES["RO"]["JI-PARANA"], "naturalidade_uf": "RO"},
        ),
    ],
)
def test_nationality_and_city_have_the_banks_own_codes_whatever_their_accents_and_case(
    bank: BankClient, offer: BankOffer, simulator: Simulator, changes: dict[str, str], codes: dict[str, str]
) -> None:
    submission = replace(of_holder(**changes), offer=offer)
    assert rules.submission_faults(bank.adapter, submission) == []
    bank.submit(submission)
    assert codes.items() <= simulator.sent("aroeira", "submit").items()


@pytest.mark.parametrize(
    ("city", "state", "messages"),
    [
        ("Xique-Xique", "BA", [UNKNOWN_CITY]),
        ("São Paulo", "RJ", [UNKNOWN_CITY]),
        ("Lisboa", "SP", [UNKNOWN_CITY]),
        (None, None, []),
        ("São Paulo", None, []),
        (None, "SP", []),
    ],
)
def test_a_city_that_the_bank_does_not_list_is_a_fault_and_a_missing_one_is_not_called_unknown(
    city: str | None, state: str | None, messages: list[str]
) -> None:
    found = rules.submission_faults(Aroeira, of_holder(naturalidade_cidade=city, naturalidade_uf=state))
    assert [(fault.field, fault.message) for fault in found] == [
        ("titular.naturalidade_cidade", message) for message in messages
    ]


def test_our_copy_of_the_city_codes_is_the_banks(bank: BankClient) -> None:
    theirs: dict[str, dict[str, str]] = {}
    reply = adapter_of(bank).call("GET", "/combos/cidades", safe=True)
    for code, city, state in reply.read(dict[str, Any])["cidades"]:
        theirs.setdefault(state, {})[city] = code
    assert theirs == CITIES
