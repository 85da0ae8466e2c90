"""peroba's peculiarities: two headers, decimals in text, meaning in the HTTP status, a chat that is polled."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from structlog.testing import capture_logs

from foundation.errors import InvalidInput
from providers import rules
from providers.banks.peroba import Peroba
from providers.errors import ProviderError, ProviderRejected
from providers.http import Reply
from providers.operation import BankClient
from providers.types.answer import BankOffer, QueryStatus
from providers.types.proposal import ProposalStatus
from providers.types.steps import ActionType, StepOutcome
from providers.types.submission import PixKey
from tests.processes import Simulator
from tests.providers.conftest import Connect, client_of
from tests.providers.manuals import StepFacts, Words, submission_body
from tests.providers.samples import CREDENTIALS, FULL_FLOW, HOLDERS, a_query, a_submission

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


def test_an_offer_is_read_from_decimals_in_text(peroba: BankClient) -> None:
    plain, insured = peroba.query(a_query()).offers
    assert plain == BankOffer(
        native_offer_id=plain.native_offer_id,
        loan_value=Decimal("7400.00"),
        installment_value=Decimal("482.23"),
        installments=24,
        interest_rate=Decimal("2.35"),
        total_amount=Decimal("11573.52"),
        table_code="PRB01",
        with_insurance=False,
        first_due_date=plain.first_due_date,
        employer_cnpj="11222333000181",
        employer_name="Metalúrgica Aurora Ltda",
        registration="100200",
        native={"cetMonthlyPercent": "2.35"},
        cet_monthly=Decimal("2.35"),
    )
    assert (insured.table_code, insured.installment_value) == ("PRB02", Decimal("491.88"))


def test_the_margin_is_not_reported(peroba: BankClient) -> None:
    [link] = peroba.query(a_query()).employments
    assert link.margin is None


def test_a_wrong_gateway_key_is_our_fault_and_not_tried_again(connect: Connect, simulator: Simulator) -> None:
    wrong = connect("peroba", credentials={**CREDENTIALS["peroba"], "gateway_key": "wrong"})
    with pytest.raises(ProviderError) as caught:
        wrong.query(a_query())
    assert caught.value.sent is False
    assert [call["operation"] for call in simulator.calls("peroba")] == ["token"]


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


@pytest.mark.parametrize("kind", ["cpf", "telefone", "email", "aleatoria"])
def test_submit_pix_is_refused_on_its_field(
    peroba: BankClient, offer: BankOffer, simulator: Simulator, kind: str
) -> None:
    submission = a_submission(offer, account=None, pix=PixKey(kind, FULL_FLOW))
    assert [fault.field for fault in rules.submission_faults(peroba.adapter, submission)] == ["recebimento.pix"]
    with pytest.raises(InvalidInput) as caught:
        peroba.submit(submission)
    assert caught.value.field == "recebimento.pix"
    assert simulator.calls("peroba", "submit") == []


def test_submit_needs_the_bank_account() -> None:
    assert Peroba.required == ("recebimento.conta_bancaria",)
    assert not Peroba.words.pix_keys


def test_a_submission_is_sent_as_the_manual_shows_it(
    peroba: BankClient, offer: BankOffer, simulator: Simulator
) -> None:
    submission = a_submission(offer, channel="whatsapp")
    peroba.submit(replace(submission, holder=replace(submission.holder, marital_status="separado")))
    assert simulator.sent("peroba", "submit") == submission_body(
        "peroba",
        {
            "CodigoSimulacao": offer.native_offer_id,
            "Cliente.NomePai": "João da Silva",
            "Cliente.EstadoCivil": "Q",
            "EnvioAssinatura": "WhatsApp",
        },
    )


def test_submit_without_what_is_optional(peroba: BankClient, offer: BankOffer) -> None:
    submission = a_submission(offer, document=None, employment=None, references=(), query=None)
    holder = replace(submission.holder, father_name=None, nationality=None, marital_status=None)
    assert peroba.submit(replace(submission, holder=holder)).status is ProposalStatus.CREATED


@pytest.mark.parametrize("text", ["NaN", "Infinity", "7.400,00", ""])
def test_an_amount_that_is_none_is_unreadable(connect: Connect, text: str) -> None:
    class Odd(Peroba):
        """A peroba that sends answers that the real one never sends."""

        def call(self, method: str, path: str, **sent: Any) -> Reply:
            reply = super().call(method, path, **sent)
            return replace(reply, body=reply.body.replace(b'"7400.00"', json.dumps(text).encode()))

    known = connect("peroba")
    with pytest.raises(ProviderError):
        client_of(Odd, known.connection).query(a_query())
