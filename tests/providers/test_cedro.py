"""cedro's peculiarities: polled answers, a confirmation by the holder, two references, refresh tokens."""

import time
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs

import pytest
from structlog.testing import capture_logs

from foundation.errors import ApiError
from providers.errors import BankTimedOut, ProviderRejected, ProviderUnavailable
from providers.operation import BankClient
from providers.tokens import Token
from providers.types.query import ActionType, QueryStatus, StepOutcome
from tests.processes import Simulator
from tests.providers.conftest import adapter_of, answering, log_in
from tests.providers.samples import HOLDERS, a_query, a_submission
from tests.receiver import Reply

ACCEPTED = Reply(202, b'{"id": "consult-1"}')


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


def test_an_ended_token_is_renewed_with_the_refresh_token_or_the_password_if_that_ended_too(
    bank: BankClient, simulator: Simulator
) -> None:
    first = log_in(bank)
    second = log_in(bank, first)
    assert second.value != first.value
    assert log_in(bank, Token.lasting("old", 0, "ended")).refresh
    calls = simulator.calls("cedro", "token")
    assert [(parse_qs(call["body"])["grant_type"], call["worked"]) for call in calls] == [
        (["password"], True),
        (["refresh_token"], True),
        (["refresh_token"], False),
        (["password"], True),
    ]


# --- query


def test_a_query_is_polled_until_it_is_answered(bank: BankClient, simulator: Simulator) -> None:
    result = bank.query(a_query())
    assert result.status is QueryStatus.OK
    assert result.step is None
    assert result.term_auto_authorized is True
    assert [call["operation"] for call in simulator.calls("cedro")] == ["token", "query", "poll", "poll"]


def test_a_consent_that_is_approved_is_not_a_success() -> None:
    words = ("WAITING_CONSENT", "CONSENT_APPROVED", "WAITING_CREDIT_ANALYSIS", "SUCCESS")
    with answering("cedro", ACCEPTED, *map(consult, words)) as bank:
        assert bank.query(a_query()).status is QueryStatus.NO_OFFERS


@pytest.mark.parametrize(
    ("last", "error", "words"),
    [
        (consult("REJECTED", description="Idade fora da politica."), ProviderRejected, "Idade fora da politica."),
        (consult("FAILED"), ProviderUnavailable, ProviderUnavailable.default_message),
        (consult("CONSENT_APPROVED"), BankTimedOut, "O banco não respondeu a tempo."),
    ],
)
def test_a_consult_that_ends_badly_or_not_in_time(last: dict[str, Any], error: type[ApiError], words: str) -> None:
    with answering("cedro", ACCEPTED, last, seconds=1) as bank, pytest.raises(error) as caught:
        bank.query(a_query())
    assert caught.value.message == words


def test_a_pause_that_would_outlast_the_deadline_is_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(monotonic=time.monotonic, sleep=lambda seconds: pytest.fail("it paused"))
    monkeypatch.setattr("providers.bank.time", clock)
    with answering("cedro", {}, seconds=10) as bank, pytest.raises(BankTimedOut):
        adapter_of(bank).wait(11)


def test_a_step_whose_consult_failed_has_ended() -> None:
    with answering("cedro", consult("FAILED")) as bank:
        result = bank.check(a_query(), "consult-1")
    assert (result.status, result.step, result.action) == (QueryStatus.NO_OFFERS, StepOutcome.EXPIRED, None)
    assert result.reasons == ("O banco não conseguiu concluir a consulta. Faça uma nova consulta.",)


def test_an_unknown_word_leaves_the_consult_open_and_is_logged() -> None:
    with capture_logs() as logs, answering("cedro", ACCEPTED, consult("EM_ORBITA")) as bank:
        result = bank.query(a_query())
        again = bank.check(a_query(), "consult-1")
    assert (result.status, result.step, result.offers) == (QueryStatus.PENDING, StepOutcome.OPEN, ())
    assert (result.action.type, result.action.url) == (ActionType.PAYROLL_DATA, None)
    assert result.action.reference == "consult-1"
    assert again == result
    assert [(line["event"], line["word"]) for line in logs] == [("bank_step_unknown", "EM_ORBITA")] * 2


# --- the confirmation


def test_a_further_confirmation_is_asked_for_beside_the_automatic_term(bank: BankClient) -> None:
    assert bank.query(a_query(HOLDERS["extra_confirmation"])).term_auto_authorized is True


# --- proposal


@pytest.mark.parametrize(("degree", "word"), [(0, "spouse"), (1, "relative"), (2, "friend")])
def test_a_reference_is_a_spouse_a_relative_or_a_friend(
    bank: BankClient, simulator: Simulator, degree: int, word: str
) -> None:
    known = {"nome": "Carla Souza", "telefone": "11912345678", "grau": degree}
    bank.submit(a_submission(bank.query(a_query()).offers[0], referencias=[known, known]))
    assert simulator.sent("cedro", "submit")["references"][1]["relationship"] == word
