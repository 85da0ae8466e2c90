"""peroba's peculiarities: two headers, decimals in text, meaning in the HTTP status, a chat that is polled."""

from __future__ import annotations

import json
from typing import Any

import pytest
from structlog.testing import capture_logs

from providers.banks.peroba import Peroba
from providers.http import Reply
from providers.operation import BankClient
from providers.types.answer import BankOffer, QueryStatus
from providers.types.steps import StepOutcome
from tests.providers.conftest import Connect, client_of
from tests.providers.samples import HOLDERS, a_query

CHAT_PENDING = HOLDERS["chat_pending"]


@pytest.fixture
def peroba(connect: Connect) -> BankClient:
    return connect("peroba")


@pytest.fixture
def offer(peroba: BankClient) -> BankOffer:
    return peroba.query(a_query()).offers[0]


# --- query


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
