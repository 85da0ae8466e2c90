"""XML bodies, written and read."""

from decimal import Decimal
from typing import Any

import pytest
from msgspec import Struct

from providers import xml
from providers.errors import ProviderError
from providers.http import Reply as BankReply


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
    assert xml.decode(with_notes, Answer, "Resposta") == Answer('Ç<&"', Items([item, item]))


@pytest.mark.parametrize("text", ["<Itens/>", "<Itens></Itens>", "<Itens><outro/></Itens>"])
def test_no_element_is_an_empty_list(text: str) -> None:
    assert xml.decode(f'<a xmlns="urn:x"><Nome>x</Nome>{text}</a>'.encode(), Answer, "a") == Answer("x", Items([]))


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
@pytest.mark.control("API10")
def test_what_is_no_such_xml_is_unreadable(body: bytes) -> None:
    reply = BankReply(200, {}, body)
    with pytest.raises(ProviderError):
        reply.read(Answer, root="a")
    assert reply.peek(Answer, root="a") is None


@pytest.mark.parametrize("body", [b"<html><body>manutencao</body></html>", b"<Recusa><Codigo>7</Codigo></Recusa>"])
def test_another_root_is_unreadable_and_not_an_answer_without_content(body: bytes) -> None:
    """Before the fix, it was read as an empty list: a proposal that the bank has would have been "not found"."""
    reply = BankReply(200, {}, body)
    with pytest.raises(ProviderError):
        reply.read(Items, root="Itens")
    assert reply.peek(Items, root="Itens") is None
    assert BankReply(200, {}, b'<x:Itens xmlns:x="urn:x"/>').read(Items, root="Itens") == Items([])
