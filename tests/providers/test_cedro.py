"""cedro's peculiarities: polled answers, a confirmation by the holder, two references, refresh tokens."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from urllib.parse import parse_qs

import pytest
from structlog.testing import capture_logs

from foundation.errors import InvalidInput
from providers import rules
from providers.errors import OfferExpired, ProviderError, ProviderRejected, ProviderUnavailable
from providers.operation import BankClient
from providers.tokens import Token
from providers.types.answer import QueryStatus
from providers.types.steps import ActionType, StepOutcome
from providers.types.submission import BankAccount, PersonalReference, PixKey
from tests.processes import Simulator
from tests.providers.conftest import Connect, adapter_of, at, lenient
from tests.providers.manuals import query_body, submission_body
from tests.providers.samples import CREDENTIALS, FULL_FLOW, HOLDERS, a_query, a_submission, a_whole_query
from tests.receiver import Received, Receiver, Reply

CONFIRMATION = HOLDERS["extra_confirmation"]


@pytest.fixture
def cedro(connect: Connect) -> BankClient:
    return connect("cedro")


def messages(simulator: Simulator, cpf: str) -> int:
    """How many messages the bank sent to the holder's phone."""
    return simulator.phone(cpf).count('class="message chat" data-bank="cedro"')


@contextmanager
def answering(*consults: dict[str, Any], seconds: float = 5) -> Iterator[BankClient]:
    """The adapter at a bank that answers polls of a consult with these words in turn, and then always with the last."""
    looks = list(consults)

    def reply(request: Received) -> Reply:
        if request.path == "/oauth/token":
            return _json({"access_token": "a", "refresh_token": "r", "expires_in": 900})
        if request.method == "POST":
            return _json({"id": "consult-1"}, 202)
        return _json(looks.pop(0) if len(looks) > 1 else looks[0])

    with Receiver(reply) as bank:
        yield at("cedro", bank.root, seconds=seconds)


def _json(body: Any, status: int = 200) -> Reply:
    return Reply(status, json.dumps(body).encode(), {"Content-Type": "application/json"})


def consult(status: str, **changes: Any) -> dict[str, Any]:
    return {
        "id": "consult-1",
        "status": status,
        "termAutoAuthorized": True,
        "description": None,
        "confirmation": None,
        "employmentLinks": [],
        "simulations": [],
        **changes,
    }


# --- authentication


def test_an_ended_token_is_renewed_with_the_refresh_token(cedro: BankClient, simulator: Simulator) -> None:
    first = adapter_of(cedro).login(None)
    second = adapter_of(cedro).login(first)
    assert second.value != first.value
    grants = [parse_qs(call["body"])["grant_type"] for call in simulator.calls("cedro", "token")]
    assert grants == [["password"], ["refresh_token"]]


def test_a_refresh_token_that_ended_is_replaced_with_the_password(cedro: BankClient, simulator: Simulator) -> None:
    token = adapter_of(cedro).login(Token.lasting("old", 0, "ended"))
    assert token.refresh
    calls = simulator.calls("cedro", "token")
    assert [(parse_qs(call["body"])["grant_type"], call["worked"]) for call in calls] == [
        (["refresh_token"], False),
        (["password"], True),
    ]


def test_wrong_credentials_are_an_error_of_ours_that_sent_nothing(connect: Connect) -> None:
    bank = connect("cedro", credentials={**CREDENTIALS["cedro"], "password": "wrong"})
    with pytest.raises(ProviderError) as caught:
        bank.query(a_query())
    assert caught.value.sent is False


# --- query


def test_a_query_is_polled_until_it_is_answered(cedro: BankClient, simulator: Simulator) -> None:
    result = cedro.query(a_query())
    assert result.status is QueryStatus.OK
    assert result.step is None
    assert result.term_auto_authorized is True
    assert [call["operation"] for call in simulator.calls("cedro")] == ["token", "query", "poll", "poll"]


def test_percents_and_terms_in_text_become_numbers(cedro: BankClient) -> None:
    offer = cedro.query(a_query()).offers[1]
    assert (offer.interest_rate, offer.installments) == (Decimal("2.25"), 36)
    assert offer.native == {"cetMonthlyPercent": "2.35"}


def test_a_consent_that_is_approved_is_not_a_success() -> None:
    with answering(
        *map(consult, ("WAITING_CONSENT", "CONSENT_APPROVED", "WAITING_CREDIT_ANALYSIS", "SUCCESS"))
    ) as bank:
        assert bank.query(a_query()).status is QueryStatus.NO_OFFERS


def test_an_answer_that_does_not_come_before_the_deadline_is_a_time_out() -> None:
    with answering(consult("CONSENT_APPROVED"), seconds=1) as bank, pytest.raises(ProviderUnavailable) as caught:
        bank.query(a_query())
    assert caught.value.message == "O banco não respondeu a tempo."
    assert time.monotonic() <= bank.deadline


def test_a_refusal_by_policy_passes_on_the_banks_reason() -> None:
    refused = consult("REJECTED", description="Idade fora da politica.")
    with answering(refused) as bank, pytest.raises(ProviderRejected, match=r"^Idade fora da politica\.$"):
        bank.query(a_query())


def test_a_consult_that_failed_at_the_bank_is_a_failure_of_the_bank() -> None:
    with answering(consult("FAILED")) as bank, pytest.raises(ProviderUnavailable):
        bank.query(a_query())


def test_a_step_whose_consult_failed_has_ended() -> None:
    with answering(consult("FAILED")) as bank:
        result = bank.check(a_query(), "consult-1")
    assert (result.status, result.step, result.action) == (QueryStatus.NO_OFFERS, StepOutcome.EXPIRED, None)
    assert result.reasons == ("O banco não conseguiu concluir a consulta. Faça uma nova consulta.",)


def test_an_unknown_word_leaves_the_consult_open_and_is_logged() -> None:
    with capture_logs() as logs, answering(consult("EM_ORBITA")) as bank:
        result = bank.query(a_query())
        again = bank.check(a_query(), "consult-1")
    assert (result.status, result.step, result.offers) == (QueryStatus.PENDING, StepOutcome.OPEN, ())
    assert result.action is not None
    assert (result.action.type, result.action.url) == (ActionType.PAYROLL_DATA, None)
    assert result.action.reference == "consult-1"
    assert again == result
    assert [(line["event"], line["word"]) for line in logs] == [("bank_step_unknown", "EM_ORBITA")] * 2


def test_what_was_collected_of_the_holder_reaches_the_bank(cedro: BankClient, simulator: Simulator) -> None:
    cedro.query(a_whole_query())
    app = {
        "consentId": "app-1",
        "signedAt": "2026-11-21T11:59:58Z",
        "userAgent": "App/1",
        "operatingSystem": "Android 15",
        "deviceModel": "Pixel 8",
        "deviceName": "Telefone",
        "deviceType": "phone",
        "latitude": -23.5,
        "longitude": -46,
    }
    assert simulator.sent("cedro", "query") == query_body("cedro", {"gender": "male", "consent.appConsent": app})


def test_what_was_not_collected_is_left_out(cedro: BankClient, simulator: Simulator) -> None:
    cedro.query(a_query(sex=0, geolocation=None))
    body = simulator.sent("cedro", "query")
    assert body["consent"] == {"acceptedAt": "2026-11-21T12:00:00Z", "ipAddress": "203.0.113.7"}
    assert "gender" not in body
    assert "originatorCode" not in body


# --- the confirmation


def test_a_further_confirmation_is_an_action_with_its_link(cedro: BankClient, simulator: Simulator) -> None:
    result = cedro.query(a_query(CONFIRMATION))
    assert (result.status, result.step, result.offers) == (QueryStatus.REQUIRES_ACTION, StepOutcome.OPEN, ())
    assert result.term_auto_authorized is True
    assert result.action is not None
    assert result.action.type is ActionType.CHAT_LINK
    assert str(result.action.url).startswith(f"{simulator.url}/links/")
    assert result.action.expires_at is not None
    assert timedelta(hours=71) < result.action.expires_at - datetime.now(UTC) <= timedelta(hours=72)


def test_looking_again_sends_no_second_message(cedro: BankClient, simulator: Simulator) -> None:
    query = a_query(CONFIRMATION)
    opened = cedro.query(query)
    assert opened.action is not None
    assert cedro.check(query, opened.action.reference) == opened
    assert messages(simulator, CONFIRMATION) == 1
    assert len(simulator.calls("cedro", "query")) == 1


def test_a_query_whose_connection_breaks_is_not_repeated(cedro: BankClient, simulator: Simulator) -> None:
    simulator.bank("cedro", fault="drop_after_accept", operation="query")
    with pytest.raises(ProviderUnavailable):
        cedro.query(a_query(CONFIRMATION))
    assert len(simulator.calls("cedro", "query")) == 1
    assert messages(simulator, CONFIRMATION) == 1


def test_an_approved_confirmation_gives_offers_for_the_query_that_asks(cedro: BankClient, simulator: Simulator) -> None:
    opened = cedro.query(a_query(CONFIRMATION))
    assert opened.action is not None
    simulator.complete(CONFIRMATION, "cedro", "confirmation")
    wish = a_query(CONFIRMATION, loan_value=Decimal("3000.00"), installments=12, with_insurance=False)
    result = cedro.check(wish, opened.action.reference)
    assert (result.status, result.step) == (QueryStatus.OK, StepOutcome.APPROVED)
    [offer] = result.offers
    assert (offer.loan_value, offer.installments) == (Decimal("3000.00"), 12)
    assert cedro.submit(a_submission(offer, CONFIRMATION)).native_id


def test_a_refused_confirmation_has_no_offers_and_says_why(cedro: BankClient, simulator: Simulator) -> None:
    opened = cedro.query(a_query(CONFIRMATION))
    assert opened.action is not None
    simulator.complete(CONFIRMATION, "cedro", "confirmation", "refused")
    result = cedro.check(a_query(CONFIRMATION), opened.action.reference)
    assert (result.status, result.step) == (QueryStatus.NO_OFFERS, StepOutcome.REFUSED)
    assert result.reasons == ("O titular não confirmou a autorização.",)


def test_an_expired_confirmation_has_no_offers_and_says_why(cedro: BankClient, simulator: Simulator) -> None:
    opened = cedro.query(a_query(CONFIRMATION))
    assert opened.action is not None
    simulator.advance(72 * 3600 + 1)
    result = cedro.check(a_query(CONFIRMATION), opened.action.reference)
    assert (result.status, result.step) == (QueryStatus.NO_OFFERS, StepOutcome.EXPIRED)
    assert result.reasons == ("O prazo para o titular confirmar a autorização terminou.",)


def test_a_consult_that_the_bank_forgot_counts_as_expired(cedro: BankClient) -> None:
    result = cedro.check(a_query(CONFIRMATION), "no-such/consult")
    assert (result.status, result.step) == (QueryStatus.NO_OFFERS, StepOutcome.EXPIRED)


# --- proposal


def test_submit_before_the_confirmation_names_the_offer(cedro: BankClient) -> None:
    offer = cedro.query(a_query()).offers[0]
    cedro.query(a_query(CONFIRMATION))
    with pytest.raises(InvalidInput) as caught:
        cedro.submit(a_submission(offer, CONFIRMATION))
    assert caught.value.field == "offer_ref.offer_id"


def test_submit_of_a_simulation_that_the_bank_does_not_know_is_an_expired_offer(cedro: BankClient) -> None:
    offer = cedro.query(a_query()).offers[0]
    with pytest.raises(OfferExpired):
        cedro.submit(a_submission(replace(offer, native_offer_id="sim_1")))


def test_submit_needs_two_references(cedro: BankClient) -> None:
    whole = a_submission(cedro.query(a_query()).offers[0])
    assert "referencias" in cedro.adapter.required
    for references in ((), whole.references[:1], whole.references * 2):
        [fault] = rules.submission_faults(cedro.adapter, replace(whole, references=references))
        assert fault.field == "referencias"
        with pytest.raises(ProviderRejected, match="references"):
            lenient(cedro).submit(replace(whole, references=references))


def test_submit_speaks_the_banks_words(cedro: BankClient, simulator: Simulator) -> None:
    offer = cedro.query(a_query()).offers[0]
    whole = a_submission(
        offer,
        account=BankAccount("001", "1234", "567890", "X", "poupanca", branch_digit="5"),
        references=(
            PersonalReference("Carla Souza", "11912345678", 0),
            PersonalReference("Pedro Lima", "1132654321", 2),
        ),
        channel="sms",
        portfolio="CARTEIRA-1",
    )
    cedro.submit(replace(whole, holder=replace(whole.holder, marital_status="separado", politically_exposed=True)))
    assert simulator.sent("cedro", "submit") == submission_body(
        "cedro",
        {
            "simulation_id": offer.native_offer_id,
            "borrower.marital_status": "legally_separated",
            "borrower.political_exposition": True,
            "bank.account_digit": "X",
            "bank.account_type": "savings",
            "bank.branch_digit": "5",
            "references.0.relationship": "spouse",
            "originator_code": "CARTEIRA-1",
            "formalization_channel": "sms",
        },
    )


def test_submit_omits_a_father_who_is_not_told(cedro: BankClient, simulator: Simulator) -> None:
    whole = a_submission(cedro.query(a_query()).offers[0])
    cedro.submit(replace(whole, holder=replace(whole.holder, father_name=None)))
    assert "father_name" not in simulator.sent("cedro", "submit")["borrower"]


@pytest.mark.parametrize(
    ("pix", "kind", "key"),
    [
        (PixKey("cpf", FULL_FLOW), "cpf", FULL_FLOW),
        (PixKey("telefone", "11987654321"), "phone", "5511987654321"),
        (PixKey("email", "maria@example.com"), "email", "maria@example.com"),
        (
            PixKey("aleatoria", "123e4567-e89b-42d3-a456-426614174000"),
            "random",
            "123e4567-e89b-42d3-a456-426614174000",
        ),
    ],
)
def test_submit_with_a_pix_key(cedro: BankClient, simulator: Simulator, pix: PixKey, kind: str, key: str) -> None:
    offer = cedro.query(a_query()).offers[0]
    cedro.submit(a_submission(offer, account=None, pix=pix))
    assert simulator.sent("cedro", "submit")["bank"] == {"transfer_method": "pix", "pix_key_type": kind, "pix_key": key}


def test_submit_repeated_gives_the_same_operation(cedro: BankClient, simulator: Simulator) -> None:
    submission = a_submission(cedro.query(a_query()).offers[0])
    assert cedro.submit(submission) == cedro.submit(submission)
    assert len(simulator.contracts("cedro")) == 1


def test_formalize_delivers_the_link_by_the_channel_asked_for(cedro: BankClient, simulator: Simulator) -> None:
    submitted = cedro.submit(a_submission(cedro.query(a_query()).offers[0]))
    formalized = cedro.formalize(submitted.native_id, "whatsapp")
    assert str(formalized.signature_url) in simulator.phone(FULL_FLOW)
    assert formalized.signature_expires_at is not None
    assert formalized.signature_expires_at > datetime.now(UTC) + timedelta(days=29)


def test_a_gateways_page_is_never_taken_for_not_found() -> None:
    def reply(request: Received) -> Reply:
        if request.path == "/oauth/token":
            return _json({"access_token": "a", "refresh_token": "r", "expires_in": 900})
        return Reply(404, b"<html>Not Found</html>", {"Content-Type": "text/html"})

    with Receiver(reply) as gateway:
        bank = at("cedro", gateway.root)
        with pytest.raises(ProviderError):
            bank.find("reference-1")
