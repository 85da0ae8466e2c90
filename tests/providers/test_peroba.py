"""peroba's peculiarities: meaning in the HTTP status, and a chat's link in the field that otherwise has a remark."""

import json

import pytest

from providers.errors import ProviderError
from tests.providers.conftest import answering
from tests.providers.samples import a_query
from tests.receiver import Reply


def test_a_sentence_where_the_link_should_be_is_unreadable() -> None:
    """A link is read: tests/providers/contract/test_steps.py."""
    waiting = {"Mensagem": "Cliente em analise.", "Protocolo": "p1", "ValidoAte": "2026-11-24T12:00:00Z"}
    with answering("peroba", Reply(202, json.dumps(waiting).encode())) as bank, pytest.raises(ProviderError):
        bank.query(a_query())
