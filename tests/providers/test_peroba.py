"""peroba's peculiarities: meaning in the HTTP status, and a chat's link in the field that otherwise has a remark."""

import json

import pytest

from providers.errors import ProviderError
from tests.providers.conftest import answering
from tests.providers.samples import a_query
from tests.receiver import Reply


@pytest.mark.parametrize("message", ["https://chat.example/1", "Cliente em analise."])
def test_a_sentence_where_the_link_should_be_is_unreadable(message: str) -> None:
    waiting = {"Mensagem": message, "Protocolo": "p1", "ValidoAte": "2026-11-24T12:00:00Z"}
    with answering("peroba", Reply(202, json.dumps(waiting).encode())) as bank:
        if message.startswith("https"):
            action = bank.query(a_query()).action
            assert action is not None
            assert (action.url, action.reference) == (message, "p1")
        else:
            with pytest.raises(ProviderError):
                bank.query(a_query())
