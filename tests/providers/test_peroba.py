"""peroba's peculiarities: two headers, decimals in text, meaning in the HTTP status, a chat that is polled."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from structlog.testing import capture_logs

from foundation.errors import InvalidInput
from providers import rules
from providers.banks.peroba import Peroba
from providers.errors import OfferExpired, ProviderError, ProviderRejected, ProviderUnavailable
from providers.http import Reply
from providers.operation import BankClient
from providers.types.answer import BankOffer, QueryStatus
from providers.types.proposal import ProposalStatus
from providers.types.query import Geolocation
from providers.types.steps import ActionType, StepOutcome
from providers.types.submission import PixKey
from tests.processes import Simulator
from tests.providers.conftest import Connect, client_of
from tests.providers.manuals import submission_body
from tests.providers.samples import CREDENTIALS, FULL_FLOW, HOLDERS, a_query, a_submission

CHAT_PENDING = HOLDERS["chat_pending"]


@pytest.fixture
def peroba(connect: Connect) -> BankClient:
    return connect("peroba")


@pytest.fixture
def offer(peroba: BankClient) -> BankOffer:
    return peroba.query(a_query()).offers[0]


def messages(simulator: Simulator, cpf: str) -> int:
    """How many chat messages the holder got."""
    return simulator.phone(cpf).count('data-channel="chat"')


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


def test_the_evidence_that_was_given_is_passed_on_and_nothing_else(peroba: BankClient, simulator: Simulator) -> None:
    peroba.query(
        a_query(
            geolocation=Geolocation(Decimal("-23.5505"), Decimal("0.0000001"), Decimal(12)),
            user_agent="Mozilla/5.0",
            device_model="Pixel 8",
            platform="Android 15",
            authorization_reference="session-1",
            portfolio="CARTEIRA-7",
        )
    )
    sent = simulator.sent("peroba", "query")
    assert sent["Carteira"] == "CARTEIRA-7"
    assert sent["Aceite"] == {
        "EnderecoIp": "203.0.113.7",
        "DataHora": "2026-11-21T12:00:00Z",
        "Protocolo": "session-1",
        "Latitude": "-23.5505",
        "Longitude": "0.0000001",
        "PrecisaoMetros": "12",
        "Navegador": "Mozilla/5.0",
        "Aparelho": "Pixel 8",
        "Plataforma": "Android 15",
    }


def test_evidence_that_was_not_given_is_said_to_be_missing(peroba: BankClient, simulator: Simulator) -> None:
    peroba.query(a_query(geolocation=None))
    sent = simulator.sent("peroba", "query")["Aceite"]
    assert {key for key, value in sent.items() if value is not None} == {"EnderecoIp", "DataHora"}


@pytest.mark.parametrize(("sex", "code"), [(0, None), (1, "H"), (2, "M")])
def test_the_sex_of_a_query_is_translated(peroba: BankClient, simulator: Simulator, sex: int, code: str | None) -> None:
    peroba.query(a_query(sex=sex))
    assert simulator.sent("peroba", "query")["Cliente"]["Genero"] == code


def test_the_accounts_portfolio_is_sent_where_the_query_names_none(connect: Connect, simulator: Simulator) -> None:
    connect("peroba", portfolio="CARTEIRA-1").query(a_query())
    assert simulator.sent("peroba", "query")["Carteira"] == "CARTEIRA-1"


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


def test_a_holder_who_has_to_authorize_first_gets_one_message(peroba: BankClient, simulator: Simulator) -> None:
    result = peroba.query(a_query(CHAT_PENDING))
    assert (result.status, result.step, result.offers) == (QueryStatus.REQUIRES_ACTION, StepOutcome.OPEN, ())
    assert result.action is not None
    assert result.action.type is ActionType.CHAT_LINK
    assert str(result.action.url).startswith(f"{simulator.url}/links/")
    assert result.action.expires_at is not None
    assert timedelta(hours=71) < result.action.expires_at - datetime.now(UTC) <= timedelta(hours=72)
    assert messages(simulator, CHAT_PENDING) == 1


def test_a_query_whose_connection_broke_is_not_repeated(peroba: BankClient, simulator: Simulator) -> None:
    simulator.bank("peroba", fault="reset", operation="query", times=1)
    with pytest.raises(ProviderUnavailable):
        peroba.query(a_query(CHAT_PENDING))
    assert len(simulator.calls("peroba", "query")) == 1


def test_an_open_chat_is_looked_at_without_another_message(peroba: BankClient, simulator: Simulator) -> None:
    opened = peroba.query(a_query(CHAT_PENDING)).action
    assert opened is not None
    for _ in range(2):
        result = peroba.check(a_query(CHAT_PENDING), opened.reference)
        assert (result.status, result.step) == (QueryStatus.REQUIRES_ACTION, StepOutcome.OPEN)
        assert result.action == opened
    assert messages(simulator, CHAT_PENDING) == 1
    assert len(simulator.calls("peroba", "query")) == 1
    assert len(simulator.calls("peroba", "poll")) == 2


def test_a_look_is_repeated_where_the_connection_broke(peroba: BankClient, simulator: Simulator) -> None:
    opened = peroba.query(a_query(CHAT_PENDING)).action
    assert opened is not None
    simulator.bank("peroba", fault="reset", times=1)
    assert peroba.check(a_query(CHAT_PENDING), opened.reference).step is StepOutcome.OPEN


def test_an_approved_chat_gives_the_offers_that_are_asked_for(peroba: BankClient, simulator: Simulator) -> None:
    opened = peroba.query(a_query(CHAT_PENDING)).action
    assert opened is not None
    simulator.complete(CHAT_PENDING, "peroba", "chat")
    wish = a_query(CHAT_PENDING, loan_value=Decimal("1000.00"), installments=12, with_insurance=False)
    result = peroba.check(wish, opened.reference)
    assert (result.status, result.step) == (QueryStatus.OK, StepOutcome.APPROVED)
    assert [(offer.loan_value, offer.installments) for offer in result.offers] == [(Decimal("1000.00"), 12)]
    assert peroba.query(a_query(CHAT_PENDING)).status is QueryStatus.OK
    assert peroba.submit(a_submission(result.offers[0], CHAT_PENDING)).status is ProposalStatus.CREATED


def test_a_refused_chat_ends_and_the_next_query_opens_another(peroba: BankClient, simulator: Simulator) -> None:
    opened = peroba.query(a_query(CHAT_PENDING)).action
    assert opened is not None
    simulator.complete(CHAT_PENDING, "peroba", "chat", "refused")
    result = peroba.check(a_query(CHAT_PENDING), opened.reference)
    assert (result.status, result.step) == (QueryStatus.NO_OFFERS, StepOutcome.REFUSED)
    assert result.reasons == ("O cliente recusou a autorizacao.",)
    again = peroba.query(a_query(CHAT_PENDING)).action
    assert again is not None
    assert again.reference != opened.reference
    assert messages(simulator, CHAT_PENDING) == 2


def test_a_chat_expires(peroba: BankClient, simulator: Simulator) -> None:
    opened = peroba.query(a_query(CHAT_PENDING)).action
    assert opened is not None
    simulator.advance(72 * 3600)
    result = peroba.check(a_query(CHAT_PENDING), opened.reference)
    assert (result.status, result.step) == (QueryStatus.NO_OFFERS, StepOutcome.EXPIRED)
    assert result.reasons == ("O prazo da autorizacao terminou.",)


def test_a_chat_that_the_bank_forgot_has_expired(peroba: BankClient) -> None:
    result = peroba.check(a_query(CHAT_PENDING), "forgotten")
    assert (result.status, result.step) == (QueryStatus.NO_OFFERS, StepOutcome.EXPIRED)


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
    assert not Peroba.pix_keys


def test_submit_unauthorized_names_the_offer(peroba: BankClient, offer: BankOffer, simulator: Simulator) -> None:
    peroba.query(a_query(CHAT_PENDING))
    with pytest.raises(InvalidInput) as caught:
        peroba.submit(a_submission(offer, CHAT_PENDING))
    assert caught.value.field == "offer_ref.offer_id"
    assert "autorizou" in caught.value.message
    assert simulator.contracts("peroba") == []


def test_submit_of_a_simulation_that_the_bank_forgot_has_expired(peroba: BankClient, offer: BankOffer) -> None:
    with pytest.raises(OfferExpired):
        peroba.submit(a_submission(replace(offer, native_offer_id="forgotten")))


@pytest.mark.parametrize(("sex", "code"), [("M", "H"), ("F", "M")])
def test_submit_translates_the_sex(
    peroba: BankClient, offer: BankOffer, simulator: Simulator, sex: str, code: str
) -> None:
    submission = a_submission(offer)
    peroba.submit(replace(submission, holder=replace(submission.holder, sex=sex)))
    assert simulator.sent("peroba", "submit")["Cliente"]["Genero"] == code


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


def test_submit_with_a_reference_sent_twice_gives_one_proposal(
    peroba: BankClient, offer: BankOffer, simulator: Simulator
) -> None:
    first, again = peroba.submit(a_submission(offer)), peroba.submit(a_submission(offer))
    assert first.native_id == again.native_id
    assert len(simulator.contracts("peroba")) == 1


def test_the_signature_link_tells_its_end(peroba: BankClient, offer: BankOffer) -> None:
    issued = peroba.formalize(peroba.submit(a_submission(offer)).native_id, None)
    assert issued.signature_expires_at is not None
    assert issued.signature_expires_at - datetime.now(UTC) > timedelta(days=29)
    assert issued.native_status == "AguardandoAssinatura"


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
