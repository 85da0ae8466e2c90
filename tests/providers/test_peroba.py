"""peroba's peculiarities: two headers, decimals in text, meaning in the HTTP status, a chat that is polled."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from providers.banks.peroba import Peroba
from providers.errors import ProviderRejected
from providers.http import Reply
from providers.operation import BankClient
from providers.types.answer import BankOffer, QueryStatus
from providers.types.proposal import ProposalStatus
from providers.types.steps import ActionType, StepOutcome
from tests.providers.conftest import Connect, client_of
from tests.providers.manuals import StepFacts, Words
from tests.providers.samples import HOLDERS, a_query, a_submission

CHAT_PENDING = HOLDERS["chat_pending"]


WORDS = Words(
    sex=("Cliente.Genero", {"M": "H", "F": "M"}),
    sex_of_query=("Cliente.Genero", [None, "H", "M"]),
    marital_status=(
        "Cliente.EstadoCivil",
        {"solteiro": "S", "casado": "C", "divorciado": "D", "viuvo": "V", "separado": "Q", "uniao_estavel": "U"},
    ),
    account_kind=(
        "Pagamento.TipoConta",
        {"corrente": "ContaCorrente", "poupanca": "ContaPoupanca", "salario": "ContaSalario"},
    ),
    whole={
        "Cliente.NomePai": "João da Silva",
        "Cliente.EstadoCivil": "U",
        "Cliente.Endereco.Complemento": "Sala 1",
        "Pagamento.DigitoAgencia": "5",
        "Pagamento.DigitoConta": "X",
        "Pagamento.TipoConta": "ContaPoupanca",
        "EnvioAssinatura": "WhatsApp",
    },
)


STEP = StepFacts(
    kind="chat",
    status=QueryStatus.REQUIRES_ACTION,
    action=ActionType.CHAT_LINK,
    hours=72,
    refused="O cliente recusou a autorizacao.",
    expired="O prazo da autorizacao terminou.",
    unauthorized="autorizou",
)


@pytest.fixture
def peroba(connect: Connect) -> BankClient:
    return connect("peroba")


@pytest.fixture
def offer(peroba: BankClient) -> BankOffer:
    return peroba.query(a_query()).offers[0]


# --- query


def test_a_sentence_of_the_bank_is_passed_on(peroba: BankClient) -> None:
    with pytest.raises(ProviderRejected, match=r"^Aceite\.EnderecoIp: formato invalido\.$"):
        peroba.query(a_query(client_ip="none"))


# --- the chat


def test_an_unknown_word_of_an_authorization_leaves_it_open(connect: Connect) -> None:
    class Stranger(Peroba):
        """A peroba that sends a new word, which the real simulator can't send."""

        def call(self, method: str, path: str, **_: Any) -> Reply:
            payload = {"Mensagem": None, "Autorizacao": "EmOrbita", "Vinculos": [], "Simulacoes": []}
            return Reply(201, {}, json.dumps(payload).encode())

    known = connect("peroba")
    bank = client_of(Stranger, known.connection)
    with capture_logs() as lines:
        result = bank.check(a_query(CHAT_PENDING), "protocol")
    assert (result.status, result.step) == (QueryStatus.REQUIRES_ACTION, StepOutcome.OPEN)
    assert [(line["event"], line["word"]) for line in lines] == [("bank_step_unknown", "EmOrbita")]


# --- submit


def test_submit_without_what_is_optional(peroba: BankClient, offer: BankOffer) -> None:
    submission = a_submission(offer, document=None, employment=None, references=(), query=None)
    holder = replace(submission.holder, father_name=None, nationality=None, marital_status=None)
    assert peroba.submit(replace(submission, holder=holder)).status is ProposalStatus.CREATED
