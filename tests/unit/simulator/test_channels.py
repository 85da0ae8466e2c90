"""What the core of the simulated banks refuses, with a bank that has no dialect. External steps and callbacks:
tests/simulator/test_imbuia.py."""

import asyncio
from decimal import Decimal

import pytest

from simulator.bank import Bank
from simulator.numbers import Ask
from simulator.world import World

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
