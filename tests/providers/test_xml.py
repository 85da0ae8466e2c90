"""XML bodies, both ways; and a bank that speaks XML with a ticket in the body."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from msgspec import Struct

from providers import xml
from providers.bank import Bank, Connection
from providers.errors import ProviderError
from providers.http import Reply as BankReply
from providers.tokens import Token
from providers.types import BankProposal
from tests.providers.conftest import client_of
from tests.receiver import Received, Receiver, Reply


class Item(Struct):
    valor: Decimal
    parcelas: int
    seguro: bool
    nota: str | None


class Items(Struct):
    item: list[Item]


class Answer(Struct, rename="pascal"):
    nome: str
    itens: Items | None


ITEM = {"valor": Decimal("1234.50"), "parcelas": 12, "seguro": True, "nota": None}


def test_what_is_written_is_read_again() -> None:
    written = xml.encode({"Resposta": {"@versao": "1", "Nome": 'Ç<&"', "Itens": {"item": [ITEM, ITEM]}}})
    assert written.startswith(b"<?xml version='1.0' encoding='utf-8'?>\n<Resposta versao=\"1\">")
    assert b"<nota" not in written
    with_notes = written.replace(b"</item>", b"<nota> x </nota></item>")
    item = Item(Decimal("1234.50"), 12, True, "x")
    assert xml.decode(with_notes, Answer) == Answer('Ç<&"', Items([item, item]))


@pytest.mark.parametrize("text", ["<Itens/>", "<Itens></Itens>", "<Itens><outro/></Itens>"])
def test_no_element_is_an_empty_list(text: str) -> None:
    assert xml.decode(f'<a xmlns="urn:x"><Nome>x</Nome>{text}</a>'.encode(), Answer) == Answer("x", Items([]))


@pytest.mark.parametrize("value", [1.5, object()])
def test_what_is_no_plain_data_is_not_written(value: Any) -> None:
    with pytest.raises(TypeError):
        xml.encode({"a": {"b": value}})


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"<a><Nome>x</Nome>",
        b"<a><Itens/></a>",
        b"<a><Nome/><Itens/></a>",
        b"<a><Nome>x</Nome><Nome>y</Nome><Itens/></a>",
        b"<a><Nome><b/></Nome><Itens/></a>",
        b"<a><Nome>x</Nome><Itens><item><valor>1,5</valor></item></Itens></a>",
        b'<?xml version="1.0" encoding="no-such"?><a><Nome>x</Nome></a>',
        b'<!DOCTYPE a [<!ENTITY n "x">]><a><Nome>&n;</Nome><Itens/></a>',
        b"<a>" * 100_000,
    ],
    ids=range(11),
)
def test_what_is_no_such_xml_is_unreadable(body: bytes) -> None:
    reply = BankReply(200, {}, body)
    with pytest.raises(ProviderError):
        reply.read_xml(Answer)
    assert reply.peek_xml(Answer) is None


class Ticket(Struct, rename="pascal"):
    ticket: str


class Situation(Struct, rename="pascal"):
    numero: str
    situacao: str


class Posted(Bank):
    """One address for all operations, and the ticket in the body."""

    name = "posted"
    label = "Posted"

    def login(self, old: Token | None) -> Token:
        reply = self.exchange("POST", "/ws", xml={"Entrar": {"Usuario": "u"}})
        return Token.lasting(reply.read_xml(Ticket).ticket, 600)

    def authorize(self, token: Token | None, method: str, path: str, body: bytes) -> dict[str, str]:
        return {}

    def authorize_body(self, token: Token | None, content: Any) -> Any:
        [(operation, fields)] = content.items()
        return {operation: {"Ticket": token.value if token else None, **fields}}

    def token_refused(self, reply: BankReply) -> bool:
        return b"ticket invalido" in reply.body

    def status(self, native_id: str) -> BankProposal:
        found = self.call("POST", "/ws", xml={"Situacao": {"Numero": native_id}}, safe=True).read_xml(Situation)
        return self.proposal(found.numero, found.situacao)


def test_a_ticket_stands_in_the_body_and_a_fresh_one_replaces_a_refused_one() -> None:
    tickets = iter(["first", "second"])
    seen: list[Received] = []

    def bank(request: Received) -> Reply:
        seen.append(request)
        kind = {"Content-Type": "text/xml"}
        if b"<Entrar>" in request.body:
            return Reply(200, f"<Sessao><Ticket>{next(tickets)}</Ticket></Sessao>".encode(), kind)
        if b"<Ticket>first</Ticket>" in request.body:
            return Reply(200, b"<Erro>ticket invalido</Erro>", kind)
        return Reply(200, b"<S><Numero>7</Numero><Situacao>nova</Situacao></S>", kind)

    with Receiver(bank) as server:
        found = client_of(Posted, Connection(server.root, {})).status("7")
    assert (found.native_id, found.native_status, found.status) == ("7", "nova", None)
    assert [request.path for request in seen] == ["/ws"] * 4
    assert seen[-1].body.endswith(b"<Situacao><Ticket>second</Ticket><Numero>7</Numero></Situacao>")
    assert seen[-1].headers["content-type"] == "text/xml; charset=utf-8"
    assert seen[-1].headers["accept"] == "text/xml, application/xml"
    assert "authorization" not in seen[-1].headers
