"""aroeira's peculiarities: form data, numbers as text, pages in place of answers, a second simulation at submit."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from structlog.testing import capture_logs

from foundation.errors import ApiError, NotFound
from providers import rules
from providers.banks.aroeira import CITIES, Aroeira
from providers.errors import BankClosed, Conflict, OfferExpired, ProviderRejected, ProviderUnavailable
from providers.http import Reply
from providers.operation import BankClient
from providers.rules import UNKNOWN_CITY
from providers.types.answer import BankOffer, QueryStatus
from providers.types.proposal import ProposalStatus
from providers.types.query import AppAuthorization, AppEvidence, Geolocation
from providers.types.submission import BankAccount, BankSubmission
from tests.processes import Simulator
from tests.providers.conftest import Connect, adapter_of, client_of, lenient
from tests.providers.manuals import RANDOM_KEY, Words, submission_body
from tests.providers.samples import FULL_FLOW, HOLDERS, a_query, a_submission

PLACE = Geolocation(Decimal("-23.5505"), Decimal("-46.63"), Decimal("12.5"))
APP = AppAuthorization(
    "app-1", "2026-11-21", AppEvidence("App/2.1", "Android 15", "SM-A155", "Celular da Maria", "phone", PLACE)
)


WORDS = Words(
    sex=("sexo", {"M": "M", "F": "F"}),
    sex_of_query=("sexo", [None, "M", "F"]),
    marital_status=(
        "estado_civil",
        {"solteiro": "4", "casado": "3", "divorciado": "2", "viuvo": "5", "separado": "1", "uniao_estavel": "6"},
    ),
    account_kind=("tipo_conta", {"corrente": "1", "poupanca": "2", "salario": "3"}),
    pix=(
        "",
        {
            "cpf": {"forma_credito": "X", "tipo_chave_pix": "1", "chave_pix": FULL_FLOW},
            "telefone": {"forma_credito": "X", "tipo_chave_pix": "2", "chave_pix": "(11) 98765-4321"},
            "email": {"forma_credito": "X", "tipo_chave_pix": "3", "chave_pix": "maria@example.com"},
            "aleatoria": {"forma_credito": "X", "tipo_chave_pix": "4", "chave_pix": RANDOM_KEY},
        },
    ),
)


@pytest.fixture
def aroeira(connect: Connect) -> BankClient:
    return connect("aroeira")


@pytest.fixture
def offer(aroeira: BankClient) -> BankOffer:
    return aroeira.query(a_query()).offers[0]


def worked(simulator: Simulator, operation: str) -> list[bool]:
    return [call["worked"] for call in simulator.calls("aroeira", operation)]


# --- query


def test_a_cost_below_zero_is_read(aroeira: BankClient) -> None:
    class Cheap(Aroeira):
        def call(self, method: str, path: str, **sent: Any) -> Reply:
            reply = super().call(method, path, **sent)
            body = re.sub(rb'("cet_mensal": ?)"[^"]*"', rb'\1"-1.234,56"', reply.body)
            return replace(reply, body=body)

    cheap = client_of(Cheap, aroeira.connection)
    assert {offer.native["cetMonthlyPercent"] for offer in cheap.query(a_query()).offers} == {"-1234.56"}


def test_a_phone_of_ten_digits_keeps_its_mask(aroeira: BankClient, simulator: Simulator) -> None:
    aroeira.query(a_query(phone="1134567890"))
    assert simulator.sent("aroeira", "query")["celular"] == "(11) 3456-7890"


@pytest.mark.parametrize(
    ("wish", "mode", "value"),
    [
        ({"loan_value": Decimal("3000.5")}, "2", "3.000,50"),
        ({"installment_value": Decimal("250.10")}, "3", "250,10"),
    ],
)
def test_amounts_are_sent_as_brazilian_text(
    aroeira: BankClient, simulator: Simulator, wish: dict[str, Any], mode: str, value: str
) -> None:
    aroeira.query(a_query(installments=24, with_insurance=False, **wish))
    form = simulator.sent("aroeira", "query")
    assert (form["tipo_simulacao"], form["valor"], form["prazo"], form["seguro"]) == (mode, value, "24", "N")


def test_the_evidence_of_an_app_raises_the_ceiling_by_a_tenth(aroeira: BankClient) -> None:
    offers = aroeira.query(a_query(app_authorization=AppAuthorization("app-1"))).offers
    assert {offer.loan_value for offer in offers} == {Decimal("10780.00")}


@pytest.mark.parametrize("empty", [AppAuthorization(), AppAuthorization(evidence=AppEvidence())])
def test_an_app_authorization_that_says_nothing_is_no_evidence(
    aroeira: BankClient, simulator: Simulator, empty: AppAuthorization
) -> None:
    offers = aroeira.query(a_query(app_authorization=empty)).offers
    assert {offer.loan_value for offer in offers} == {Decimal("9800.00")}
    assert simulator.sent("aroeira", "query")["tipo_evidencia"] == "1"


def test_numbers_as_text_are_read_and_no_margin_is_made_up(aroeira: BankClient) -> None:
    result = aroeira.query(a_query())
    assert [link.margin for link in result.employments] == [None]
    assert result.employments[0].admission_date == date(2019, 3, 11)
    plain, insured = result.offers
    assert (plain.loan_value, plain.installment_value, plain.total_amount, plain.interest_rate) == (
        Decimal("9800.00"),
        Decimal("457.44"),
        Decimal("16467.84"),
        Decimal("1.89"),
    )
    assert plain.native == {"cetMonthlyPercent": "1.89"}
    assert insured.native["cetMonthlyPercent"] > "1.89"


# --- virada de folha


def test_a_page_in_place_of_an_answer_is_an_outage(aroeira: BankClient, simulator: Simulator) -> None:
    with pytest.raises(ProviderUnavailable) as caught:
        aroeira.query(a_query(HOLDERS["garbage"]))
    assert caught.value.sent
    assert "<" not in caught.value.message
    simulator.bank("aroeira", fault="html", operation="query", times=1)
    with pytest.raises(ProviderUnavailable):
        aroeira.query(a_query())
    assert aroeira.query(a_query()).status is QueryStatus.OK


def test_a_page_in_place_of_a_token_is_an_outage_and_nothing_was_asked(
    aroeira: BankClient, simulator: Simulator
) -> None:
    simulator.bank("aroeira", fault="html")
    with pytest.raises(ProviderUnavailable) as caught:
        aroeira.query(a_query())
    assert not caught.value.sent
    assert simulator.calls("aroeira", "query") == []


@pytest.mark.parametrize("operation", ["submit", "formalize", "status"])
def test_a_page_on_any_route_is_an_outage(
    aroeira: BankClient, offer: BankOffer, simulator: Simulator, operation: str
) -> None:
    proposal = aroeira.submit(a_submission(offer))
    simulator.bank("aroeira", fault="html", operation=operation)
    calls = {
        "submit": lambda: aroeira.submit(a_submission(offer, reference="reference-2")),
        "formalize": lambda: aroeira.formalize(proposal.native_id, None),
        "status": lambda: aroeira.status(proposal.native_id),
    }
    with pytest.raises(ProviderUnavailable) as caught:
        calls[operation]()
    assert caught.value.sent


@pytest.mark.parametrize(
    ("message", "error"),
    [
        ("Sistema em VIRADA DE FOLHA, tente mais tarde", BankClosed),
        ("Nenhuma proposta localizada", NotFound),
        ("Situacao da proposta nao permite a operacao", Conflict),
        ("Simulacao vencida", OfferExpired),
        ("Cliente com restricao interna", ProviderRejected),
    ],
)
def test_the_sentence_tells_the_error(aroeira: BankClient, message: str, error: type[ApiError]) -> None:
    refusal = aroeira.adapter.refusal(Reply(200, {}, json.dumps({"erro": True, "mensagem": message}).encode()))
    assert type(refusal) is error
    assert (refusal.message == message) is (error is ProviderRejected)


def test_a_field_that_the_bank_refuses_is_passed_on_in_its_own_words(aroeira: BankClient, offer: BankOffer) -> None:
    whole = a_submission(offer)
    with pytest.raises(ProviderRejected, match=r"^Campo rg_numero: formato invalido$"):
        lenient(aroeira).submit(replace(whole, document=replace(whole.document, number="1" * 21)))


# --- proposal


def test_a_submission_is_sent_as_the_manual_shows_it(
    aroeira: BankClient, offer: BankOffer, simulator: Simulator
) -> None:
    account = BankAccount("001", "1234", "567890", "X", "corrente", branch_digit="9")
    aroeira.submit(a_submission(offer, channel="whatsapp", portfolio="ORIGEM-7", account=account))
    form = simulator.sent("aroeira", "submit")
    assert form.pop("id_simulacao") != offer.native_offer_id
    assert form == submission_body(
        "aroeira",
        {
            "id_simulacao": ...,
            "envio": "W",
            "conta_dv": "X",
            "agencia_dv": "9",
            "nome_pai": "João da Silva",
            "codigo_origem": "ORIGEM-7",
        },
    )


def test_submit_simulates_the_offers_table_and_term_again(aroeira: BankClient, simulator: Simulator) -> None:
    query = a_query(installment_value=Decimal("250.00"), installments=18, app_authorization=APP)
    insured = aroeira.query(query).offers[1]
    aroeira.submit(a_submission(insured, query=query, portfolio="ORIGEM-7"))
    assert worked(simulator, "query") == [True, True]
    form = simulator.sent("aroeira", "query")
    assert (form["codigo_tabela"], form["matricula"], form["prazo"], form["seguro"]) == ("60216", "100200", "18", "S")
    assert form["tipo_simulacao"] == "2"
    assert form["valor"].replace(".", "").replace(",", ".") == str(insured.loan_value)
    assert (form["tipo_evidencia"], form["app_protocolo"], form["codigo_origem"]) == ("2", "app-1", "ORIGEM-7")


def test_an_offer_of_the_raised_ceiling_can_be_submitted(aroeira: BankClient, simulator: Simulator) -> None:
    query = a_query(app_authorization=AppAuthorization("app-1"))
    aroeira.submit(a_submission(aroeira.query(query).offers[0], query=query))
    assert len(simulator.contracts("aroeira")) == 1


def test_the_offer_id_never_expires(aroeira: BankClient, offer: BankOffer, simulator: Simulator) -> None:
    simulator.advance(90 * 24 * 3600)
    assert aroeira.submit(a_submission(offer)).status is ProposalStatus.CREATED


def test_submit_with_a_table_that_is_no_longer_eligible_is_offer_expired(
    aroeira: BankClient, simulator: Simulator
) -> None:
    cpf = HOLDERS["offer_expired"]
    offer = aroeira.query(a_query(cpf)).offers[0]
    with pytest.raises(OfferExpired):
        aroeira.submit(a_submission(offer, cpf))
    assert simulator.calls("aroeira", "submit") == []


@pytest.mark.parametrize(
    "other",
    [
        {"table_code": "99999"},
        {"registration": "B-778"},
        {"installments": 30},
        {"loan_value": Decimal("9800.01")},
        {"installment_value": Decimal("457.43")},
        {"interest_rate": Decimal("1.79")},
    ],
    ids=lambda other: next(iter(other)),
)
def test_terms_that_the_bank_would_not_give_again_are_never_submitted(
    aroeira: BankClient, offer: BankOffer, simulator: Simulator, other: dict[str, Any]
) -> None:
    with pytest.raises(OfferExpired):
        aroeira.submit(a_submission(replace(offer, **other)))
    assert simulator.calls("aroeira", "submit") == []


def test_without_the_evidence_of_a_query_nothing_is_submitted(
    aroeira: BankClient, offer: BankOffer, simulator: Simulator
) -> None:
    with pytest.raises(OfferExpired):
        aroeira.submit(a_submission(offer, query=None))
    assert simulator.calls("aroeira", "submit") == []


def test_a_failure_of_the_second_simulation_is_no_unknown_outcome(
    aroeira: BankClient, offer: BankOffer, simulator: Simulator
) -> None:
    simulator.bank("aroeira", fault="http_503", operation="query")
    with pytest.raises(ProviderUnavailable) as caught:
        aroeira.submit(a_submission(offer))
    assert caught.value.sent is False
    assert simulator.calls("aroeira", "submit") == []


def test_a_repeated_reference_makes_a_second_proposal_and_find_gives_the_first_and_says_so(
    aroeira: BankClient, offer: BankOffer, simulator: Simulator
) -> None:
    first, second = (aroeira.submit(a_submission(offer)) for _ in range(2))
    assert first.native_id != second.native_id
    with capture_logs() as lines:
        found = aroeira.find("reference-1")
    assert found is not None
    assert found.native_id == first.native_id
    assert [(line["event"], line["count"]) for line in lines] == [("bank_submission_doubled", 2)]
    assert len(simulator.contracts("aroeira")) == 2


@pytest.mark.parametrize(("told", "code"), [("Brasileira", "1"), ("brasileiro", "1"), ("Portuguesa", "2")])
def test_nationality_has_the_banks_own_code(
    aroeira: BankClient, offer: BankOffer, simulator: Simulator, told: str, code: str
) -> None:
    whole = a_submission(offer)
    aroeira.submit(replace(whole, holder=replace(whole.holder, nationality=told)))
    assert simulator.sent("aroeira", "submit")["nacionalidade"] == code


def born_in(offer: BankOffer, city: str | None, state: str | None) -> BankSubmission:
    whole = a_submission(offer)
    return replace(whole, holder=replace(whole.holder, birth_city=city, birth_state=state))


@pytest.mark.parametrize(
    ("city", "state", "code"),
    [("São Paulo", "SP", "3648"), ("  são   PAULO ", "SP", "3648"), ("Ji-Paraná", "RO", CITIES["RO"]["JI-PARANA"])],
)
def test_a_city_is_found_whatever_its_accents_and_case(
    aroeira: BankClient, offer: BankOffer, simulator: Simulator, city: str, state: str, code: str
) -> None:
    submission = born_in(offer, city, state)
    assert rules.submission_faults(aroeira.adapter, submission) == []
    aroeira.submit(submission)
    assert simulator.sent("aroeira", "submit")["naturalidade_cidade"] == code


@pytest.mark.parametrize(("city", "state"), [("Xique-Xique", "BA"), ("São Paulo", "RJ"), ("Lisboa", "SP")])
def test_a_city_that_the_bank_does_not_list_is_a_fault_of_its_field(
    aroeira: BankClient, offer: BankOffer, city: str, state: str
) -> None:
    [fault] = rules.submission_faults(aroeira.adapter, born_in(offer, city, state))
    assert (fault.field, fault.message) == ("titular.naturalidade_cidade", UNKNOWN_CITY)


@pytest.mark.parametrize(("city", "state"), [(None, None), ("São Paulo", None), (None, "SP")])
def test_a_city_that_is_missing_is_not_called_unknown(
    aroeira: BankClient, offer: BankOffer, city: str | None, state: str | None
) -> None:
    assert rules.submission_faults(aroeira.adapter, born_in(offer, city, state)) == []
    assert {"titular.naturalidade_cidade", "titular.naturalidade_uf"} <= set(aroeira.adapter.required)


def test_our_copy_of_the_city_codes_is_the_banks(aroeira: BankClient) -> None:
    theirs: dict[str, dict[str, str]] = {}
    reply = adapter_of(aroeira).call("GET", "/combos/cidades", safe=True)
    for code, city, state in reply.read(dict[str, Any])["cidades"]:
        theirs.setdefault(state, {})[city] = code
    assert theirs == CITIES


def test_an_ended_signature_link_is_replaced_by_a_fresh_one(
    aroeira: BankClient, offer: BankOffer, simulator: Simulator
) -> None:
    proposal = aroeira.submit(a_submission(offer))
    assert (proposal.native_status, proposal.signature_url) == ("DIGITADA", None)
    first = aroeira.formalize(proposal.native_id, "sms")
    assert simulator.sent("aroeira", "formalize") == {"ade": proposal.native_id, "envio": "S"}
    assert first.signature_expires_at is not None
    assert 29 <= (first.signature_expires_at - datetime.now(UTC)).days <= 30
    simulator.advance(31 * 24 * 3600)
    assert aroeira.status(proposal.native_id).signature_url is None
    assert aroeira.formalize(proposal.native_id, None).signature_url not in (None, first.signature_url)
