"""The core of the simulated banks: requests in XML, holders, and the clock. Prices:
tests/providers/contract/test_queries.py."""

import asyncio
from datetime import timedelta
from decimal import Decimal

import pytest
from multidict import CIMultiDict

from providers import registry
from simulator import catalogue
from simulator.clock import Clock
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


EARLY = timedelta(milliseconds=30)


def test_an_action_runs_though_the_event_loop_woke_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop measures by another clock than the one that the actions are due by."""

    async def in_loop() -> None:
        clock, ran = Clock(), asyncio.Event()
        when = clock.now() + EARLY / 3
        clock.at(when, lambda at: ran.set())
        lagging = clock.now
        monkeypatch.setattr(clock, "now", lambda: lagging() - EARLY)
        await asyncio.wait_for(ran.wait(), 5)
        assert clock.now() >= when

    asyncio.run(in_loop())


#: The scenarios whose description speaks of every bank. A bank that is missing there answers "no offers" at once.
OF_EVERY_BANK = (
    "full_flow",
    "no_offers",
    "contract_in_progress",
    "bank_down",
    "slow_bank",
    "all_slow",
    "garbage",
    "submit_unknown",
    "submit_unavailable",
)


@pytest.mark.parametrize("scenario", OF_EVERY_BANK)
def test_a_scenario_of_every_bank_says_how_each_of_them_answers(scenario: str) -> None:
    [cpf] = [holder["cpf"] for holder in catalogue.HOLDERS if holder["scenario"] == scenario]
    unsaid = [bank for bank in registry.names() if catalogue.scenario(cpf, bank) is catalogue.NO_OFFERS]
    assert unsaid == []
