"""How a simulated bank reads a request, and distinguishes operations with the same path."""

from decimal import Decimal

import pytest
from multidict import CIMultiDict

from simulator.messages import Request, answer_xml

XML = b"""<?xml version="1.0"?>
<s:Simular xmlns:s="urn:x"><Ticket> t-1 </Ticket><Cliente><Cpf>90000000175</Cpf><Nome/></Cliente>
<Ref>1</Ref><Ref>2</Ref></s:Simular>"""


def request(raw: bytes, media_type: str) -> Request:
    return Request("POST", "/ws", CIMultiDict({"Content-Type": media_type}), {}, {}, raw, "/ws")


def test_xml_is_read_without_namespaces() -> None:
    found = request(XML, "text/xml; charset=utf-8")
    assert found.xml() == {
        "Simular": {"Ticket": "t-1", "Cliente": {"Cpf": "90000000175", "Nome": None}, "Ref": ["1", "2"]}
    }
    assert found.look_up("Simular.Cliente.Cpf") == "90000000175"
    assert found.look_up("Simular.Cliente") is None


@pytest.mark.parametrize("raw", [b"", b"{}", b"<a>", b'<!DOCTYPE a [<!ENTITY n "x">]><a>&n;</a>'])
def test_what_is_no_xml_is_a_value_error_and_names_nothing(raw: bytes) -> None:
    found = request(raw, "text/xml")
    with pytest.raises(ValueError):
        found.xml()
    assert found.look_up("a") is None
    assert not found.matches("a")


@pytest.mark.parametrize(
    ("raw", "media_type", "condition", "is_met"),
    [
        (XML, "text/xml", "Simular", True),
        (XML, "text/xml", "Consultar", False),
        (XML, "text/xml", "Simular.Ticket=t-1", True),
        (XML, "text/xml", "Simular.Ticket=t-2", False),
        (b'{"operacao": "SIMULAR"}', "application/json", "operacao=SIMULAR", True),
        (b"operacao=SIMULAR", "application/x-www-form-urlencoded", "operacao=CONSULTAR", False),
    ],
)
def test_the_body_tells_the_operation(raw: bytes, media_type: str, condition: str, is_met: bool) -> None:
    assert request(raw, media_type).matches(condition) is is_met


def test_an_xml_answer() -> None:
    answer = answer_xml("Resposta", {"Valor": Decimal("1.50"), "Nada": None, "Item": [{"N": 1}, {"N": 2}]}, 500)
    assert (answer.status, answer.content_type) == (500, "text/xml")
    assert isinstance(answer.body, bytes)
    assert answer.body.endswith(
        b"<Resposta><Valor>1.50</Valor><Nada /><Item><N>1</N></Item><Item><N>2</N></Item></Resposta>"
    )
