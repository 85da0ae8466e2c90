"""jatoba's peculiarities: cents, errors with HTTP 200, the signed term, the holder's CPF in place of a phone PIX
key."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from foundation.errors import ApiError
from providers.banks.jatoba import WITHOUT_GEOLOCATION
from providers.errors import OfferExpired, ProviderError, ProviderRejected, ProviderUnavailable
from providers.http import Reply
from providers.operation import BankClient
from providers.types.answer import QueryStatus
from providers.types.proposal import ProposalStatus
from tests.processes import Simulator
from tests.providers.conftest import Connect
from tests.providers.manuals import RANDOM_KEY, Words
from tests.providers.samples import CREDENTIALS, FULL_FLOW, a_query, a_submission

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
    whole={
        "codigoOrigem": "CARTEIRA-1",
        "proponente.nomePai": "João da Silva",
        "proponente.estadoCivil": "60",
        "proponente.endereco.complemento": "Sala 1",
        "vinculo.cargo": "Operador de Produção",
        "credito.digitoConta": "X",
        "credito.digitoAgencia": "5",
        "credito.tipoConta": "CP",
        "envioLink": "WHATSAPP",
    },
)


@pytest.fixture
def jatoba(connect: Connect) -> BankClient:
    return connect("jatoba")


# --- query


def test_without_geolocation_there_is_no_offer_and_the_reason_says_so(jatoba: BankClient, simulator: Simulator) -> None:
    result = jatoba.query(a_query(geolocation=None))
    assert (result.status, result.offers, result.reasons) == (QueryStatus.NO_OFFERS, (), (WITHOUT_GEOLOCATION,))
    assert "geolocalização" in WITHOUT_GEOLOCATION
    assert simulator.sent("jatoba", "query")["termo"]["latitude"] is None
    assert len(simulator.calls("jatoba", "query")) == 1


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
