"""The core of the simulated banks: requests, prices, holders, the clock, and what it refuses."""

import asyncio
from datetime import date, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict

from providers import registry
from simulator import catalogue
from simulator.bank import Bank
from simulator.clock import Clock
from simulator.messages import Request, answer_xml
from simulator.numbers import TERMS, Ask, first_due_date, price, quotes
from simulator.world import World

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


# --- What tests/providers/contract/test_queries.py does not reach of prices -----------------------------------------

CEILING = Decimal(12000)

terms = st.one_of(st.none(), st.integers(1, 420))
max_terms = st.sampled_from(TERMS[2:])
rates = st.sampled_from([Decimal("1.79"), Decimal("1.99"), Decimal("2.35")])


def test_half_a_cent_is_rounded_up() -> None:
    assert price(Decimal("0.03"), 6, Decimal(0), insured=False).installment == Decimal("0.01")


@given(st.decimals("1", "100000", places=2), terms, max_terms, rates)
def test_an_installment_is_met_to_the_cent_insurance_included_or_clamped(
    installment: Decimal, term: int | None, max_term: int, rate: Decimal
) -> None:
    for quote in quotes(CEILING, max_term, rate, Ask(installment=installment, term=term)):
        if quote.amount < CEILING:
            assert quote.installment == installment
        else:
            assert quote.amount == CEILING
            assert quote.installment <= installment


@pytest.mark.parametrize(
    ("today", "due"),
    [
        (date(2026, 1, 31), date(2026, 3, 10)),
        (date(2026, 11, 21), date(2027, 1, 10)),
        (date(2026, 12, 1), date(2027, 2, 10)),
        (date(2026, 10, 31), date(2026, 12, 10)),
    ],
)
def test_the_first_installment_is_due_in_the_month_after_next(today: date, due: date) -> None:
    assert first_due_date(today, 10) == due


# --- The clock ------------------------------------------------------------------------------------------------------

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


def test_one_step_of_the_clock_runs_all_that_became_due_in_order() -> None:
    async def in_loop() -> None:
        clock, ran = Clock(), list[str]()
        for name, seconds in (("late", 20), ("early", 10)):
            clock.at(clock.now() + timedelta(seconds=seconds), lambda at, name=name: ran.append(name))
        clock.advance(30)
        assert ran == ["early", "late"]

    asyncio.run(in_loop())


# --- Holders, and a bank without a dialect --------------------------------------------------------------------------

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


FULL_FLOW = "90000000175"


class Plain(Bank):
    """A bank without a dialect."""

    rate = Decimal("1.99")
    tables = ("A", "B")
    ceiling = (12000, 48)

    def __init__(self, name: str, world: World) -> None:
        self.name = name
        super().__init__(world)


def test_a_channel_in_the_banks_own_word_is_refused_at_once_and_creates_nothing() -> None:
    """Before the fix, the submission was accepted and only the signature link failed, with a KeyError."""

    async def in_loop() -> None:
        world = World("http://simulator", "http://127.0.0.1:9")
        ipe = Plain("ipe", world)
        offer = ipe.consult(FULL_FLOW, Ask()).offers[0]
        expected = pytest.raises(ValueError, match=r"'TORPEDO' is a bank's own word: expected sms, whatsapp or None$")
        with expected:
            ipe.ledger.create("reference-1", offer, ipe.scenario(FULL_FLOW), channel="TORPEDO")
        assert ipe.ledger.all() == []
        contract = ipe.ledger.create("reference-1", offer, ipe.scenario(FULL_FLOW), channel="sms")
        with expected:
            ipe.formalized(contract, "TORPEDO")
        assert (contract.status, contract.signature, world.messages(FULL_FLOW)) == ("created", None, [])
        await world.close()

    asyncio.run(in_loop())
