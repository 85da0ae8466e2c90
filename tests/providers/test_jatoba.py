"""jatoba's peculiarities: cents, errors with HTTP 200, the signed term, the holder's CPF in place of a phone PIX
key."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from foundation.errors import ApiError
from providers.banks.jatoba import WITHOUT_GEOLOCATION
from providers.errors import OfferExpired, ProviderError, ProviderRejected, ProviderUnavailable
from providers.http import Reply
from providers.operation import BankClient
from providers.types.answer import QueryStatus
from providers.types.proposal import ProposalStatus
from providers.types.submission import BankAccount
from tests.processes import Simulator
from tests.providers.conftest import Connect
from tests.providers.manuals import RANDOM_KEY, Words, submission_body
from tests.providers.samples import CREDENTIALS, FULL_FLOW, HOLDERS, a_query, a_submission

WORDS = Words(
    sex=("proponente.sexo", {"M": "1", "F": "2"}),
    sex_of_query=("cliente.sexo", [None, "1", "2"]),
    marital_status=(
        "proponente.estadoCivil",
        {"solteiro": "10", "casado": "20", "divorciado": "30", "viuvo": "40", "separado": "50", "uniao_estavel": "60"},
    ),
    account_kind=("credito.tipoConta", {"corrente": "CC", "poupanca": "CP", "salario": "CS"}),
    pix=(
        "credito",
        {
            "cpf": {"forma": "PIX", "tipoChave": "CPF", "chave": FULL_FLOW},
            "telefone": {"forma": "PIX", "tipoChave": "CPF", "chave": FULL_FLOW},
            "email": {"forma": "PIX", "tipoChave": "EMAIL", "chave": "maria@example.com"},
            "aleatoria": {"forma": "PIX", "tipoChave": "EVP", "chave": RANDOM_KEY},
        },
    ),
)


@pytest.fixture
def jatoba(connect: Connect) -> BankClient:
    return connect("jatoba")


# --- query


@pytest.mark.parametrize(
    ("wish", "modality", "value"),
    [
        ({"loan_value": Decimal("3000.5")}, "VALOR_SOLICITADO", 300050),
        ({"installment_value": Decimal("250.10")}, "VALOR_PARCELA", 25010),
    ],
)
def test_amounts_are_sent_as_whole_cents(
    jatoba: BankClient, simulator: Simulator, wish: dict[str, Any], modality: str, value: int
) -> None:
    jatoba.query(a_query(installments=24, with_insurance=False, **wish))
    assert simulator.sent("jatoba", "query")["simulacao"] == {
        "modalidade": modality,
        "valor": value,
        "prazo": 24,
        "comSeguro": False,
    }


def test_without_geolocation_there_is_no_offer_and_the_reason_says_so(jatoba: BankClient, simulator: Simulator) -> None:
    result = jatoba.query(a_query(geolocation=None))
    assert (result.status, result.offers, result.reasons) == (QueryStatus.NO_OFFERS, (), (WITHOUT_GEOLOCATION,))
    assert "geolocalização" in WITHOUT_GEOLOCATION
    assert simulator.sent("jatoba", "query")["termo"]["latitude"] is None
    assert len(simulator.calls("jatoba", "query")) == 1


def test_each_employment_link_has_its_margin_and_its_own_offers(jatoba: BankClient) -> None:
    result = jatoba.query(a_query(HOLDERS["two_employers"]))
    assert [(link.registration, link.employer_cnpj, link.margin) for link in result.employments] == [
        ("100200", "11222333000181", Decimal("1850.00")),
        ("B-778", "12ABC34501DE35", Decimal("920.50")),
    ]
    assert [(offer.registration, offer.table_code) for offer in result.offers] == [
        ("100200", "JTB0101"),
        ("100200", "JTB0102"),
        ("B-778", "JTB0101"),
        ("B-778", "JTB0102"),
    ]


def test_the_rate_is_percent_and_the_cost_is_kept(jatoba: BankClient) -> None:
    plain, insured = jatoba.query(a_query()).offers
    assert (plain.interest_rate, plain.native) == (Decimal("2.15"), {"cetMonthlyPercent": "2.15"})
    assert insured.native["cetMonthlyPercent"] > "2.15"
    assert (plain.iof, plain.insurance_value) == (Decimal("354.17"), 0)
    assert insured.insurance_value == insured.total_amount - plain.total_amount


def test_a_term_signed_with_the_wrong_key_is_no_refusal_of_the_holder(connect: Connect) -> None:
    credentials = {**CREDENTIALS["jatoba"], "term_key": "wrong"}
    with pytest.raises(ProviderError):
        connect("jatoba", credentials=credentials).query(a_query())


def test_broken_json_is_a_failure(jatoba: BankClient) -> None:
    with pytest.raises(ProviderError):
        jatoba.query(a_query(HOLDERS["garbage"]))


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("99", ProviderUnavailable),
        ("42", OfferExpired),
        ("30", ProviderRejected),
        ("12", ProviderRejected),
        ("77", ProviderError),
    ],
)
def test_a_code_tells_the_error_and_an_unknown_one_is_a_failure(
    jatoba: BankClient, code: str, error: type[ApiError]
) -> None:
    body = {"sucesso": False, "codigo": code, "mensagem": "Mensagem do banco", "dados": None}
    refusal = jatoba.adapter.refusal(Reply(200, {}, json.dumps(body).encode()))
    assert type(refusal) is error
    assert (refusal.message == "Mensagem do banco") is (error is ProviderRejected)


# --- proposal


def test_a_submission_is_sent_as_the_manual_shows_it(jatoba: BankClient, simulator: Simulator) -> None:
    offer = jatoba.query(a_query()).offers[0]
    account = BankAccount("001", "1234", "567890", "X", "corrente", branch_digit="9")
    jatoba.submit(a_submission(offer, channel="sms", account=account))
    assert simulator.sent("jatoba", "submit") == submission_body(
        "jatoba",
        {
            "idOferta": offer.native_offer_id,
            "proponente.nomePai": "João da Silva",
            "vinculo.cargo": "Operador de Produção",
            "credito.digitoConta": "X",
            "credito.digitoAgencia": "9",
            "envioLink": "SMS",
        },
    )


def test_submit_needs_the_registration_of_the_employment_link(jatoba: BankClient) -> None:
    assert "vinculo.matricula" in jatoba.adapter.required
    offer = jatoba.query(a_query()).offers[0]
    whole = a_submission(offer)
    with pytest.raises(ProviderRejected, match=r"vinculo\.matricula"):
        jatoba.submit(replace(whole, employment=replace(whole.employment, registration=None)))


def test_what_the_holder_did_not_tell_of_the_employment_is_null(jatoba: BankClient, simulator: Simulator) -> None:
    whole = a_submission(jatoba.query(a_query()).offers[0])
    told = replace(whole.employment, job_title=None, salary=None, admission_date=None)
    jatoba.submit(replace(whole, employment=told))
    assert simulator.sent("jatoba", "submit")["vinculo"] == {
        "matricula": "100200",
        "cargo": None,
        "salario": None,
        "dataAdmissao": None,
    }


def test_a_status_read_shows_the_contract_that_the_bank_issued_by_itself(
    jatoba: BankClient, simulator: Simulator
) -> None:
    proposal = jatoba.submit(a_submission(jatoba.query(a_query()).offers[0]))
    assert (proposal.status, proposal.native_status) == (ProposalStatus.CREATED, "DIGITADA")
    simulator.advance(2)
    seen = jatoba.status(proposal.native_id)
    assert (seen.status, seen.native_status) == (ProposalStatus.AWAITING_SIGNATURE, "PENDENTE_ASSINATURA")
    assert str(seen.signature_url).startswith(simulator.url)
    assert seen.signature_expires_at is not None
    assert 29 <= (seen.signature_expires_at - datetime.now(UTC)).days <= 30
