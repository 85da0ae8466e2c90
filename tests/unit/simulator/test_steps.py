"""External steps, messages, the clock and callbacks: the core alone, with a bank that has no dialect."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from decimal import Decimal
from functools import wraps
from inspect import Signature, signature

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from simulator.bank import Bank
from simulator.numbers import Ask
from simulator.world import Step, World

BIOMETRIC = "90000000256"  # imbuia, approved by itself after 15 s
LIVENESS_REFUSED = "90000002461"  # imbuia, refused by itself after 15 s
FULL_FLOW = "90000000175"
HOUR = 3600


class Plain(Bank):
    """A bank without a dialect that remembers which steps ended."""

    rate = Decimal("1.99")
    tables = ("A", "B")
    ceiling = (12000, 48)

    def __init__(self, name: str, world: World) -> None:
        self.name = name
        self.ended: list[tuple[str, str]] = []
        super().__init__(world)

    def step_ended(self, step: Step) -> None:
        self.ended.append((step.kind, step.status))


def in_a_world(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run a test with a world of its own, its argument `world`, inside an event loop."""

    @wraps(test)
    def run(**parameters: object) -> None:
        async def in_loop() -> None:
            world = World("http://simulator", "http://127.0.0.1:9")
            try:
                await test(world=world, **parameters)
            finally:
                await world.close()

        asyncio.run(in_loop())

    given = signature(test).parameters.values()
    run.__signature__ = Signature([each for each in given if each.name != "world"])  # type: ignore[attr-defined]
    return run


@in_a_world
async def test_a_channel_in_the_banks_own_word_is_refused_at_once_and_creates_nothing(world: World) -> None:
    """Before the fix, the submission was accepted and only the signature link failed, with a KeyError."""
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


@pytest.mark.parametrize(("cpf", "outcome"), [(BIOMETRIC, "approved"), (LIVENESS_REFUSED, "refused")])
@in_a_world
async def test_liveness_ends_by_itself_15_s_after_the_query(world: World, cpf: str, outcome: str) -> None:
    imbuia = Plain("imbuia", world)
    step = imbuia.consult(cpf, Ask()).step
    assert step is not None
    world.clock.advance(14)
    assert step.status == "open"
    world.clock.advance(1)
    assert step.status == outcome
    assert imbuia.ended == [("liveness", outcome)]


@in_a_world
async def test_a_step_that_ended_stays_as_it_is(world: World) -> None:
    imbuia = Plain("imbuia", world)
    step = imbuia.consult(BIOMETRIC, Ask()).step
    assert step is not None
    world.end_step(step, "refused")
    world.clock.advance(15)
    assert step.status == "refused"
    assert imbuia.ended == [("liveness", "refused")]


@in_a_world
async def test_a_step_ends_by_the_wall_clock_too(world: World) -> None:
    ended = asyncio.Event()
    world.on_step_end["imbuia"] = lambda step, at: ended.set()
    world.open_step("imbuia", BIOMETRIC, "liveness", ttl_s=None, ends_after_s=0.05)
    await asyncio.wait_for(ended.wait(), 5)


@in_a_world
async def test_links_bear_no_cpf_and_192_random_bits(world: World) -> None:
    step = Plain("imbuia", world).consult(BIOMETRIC, Ask()).step
    assert step is not None
    assert step.url == f"http://simulator/links/{step.token}"
    assert len(step.token) == 32
    assert step.id not in step.token


@in_a_world
async def test_one_step_of_the_clock_runs_all_that_became_due_in_order(world: World) -> None:
    ran: list[str] = []
    start = world.clock.now()
    for name, seconds in (("late", 20), ("early", 10)):
        world.clock.at(start + timedelta(seconds=seconds), lambda at, name=name: ran.append(name))
    world.clock.advance(30)
    assert ran == ["early", "late"]


def test_a_callback_is_repeated_until_it_is_taken() -> None:
    async def run() -> None:
        arrived: list[tuple[bytes, str | None]] = []
        taken = asyncio.Event()

        async def receive(request: web.Request) -> web.Response:
            arrived.append((await request.read(), request.headers.get("X-Signature")))
            if len(arrived) == 2:
                taken.set()
            return web.Response(status=204 if len(arrived) == 2 else 500)

        app = web.Application()
        app.router.add_post("/partners/v1/bank-callbacks/imbuia", receive)
        async with TestServer(app) as service:
            world = World("http://simulator", str(service.make_url("")))
            try:
                step = world.open_step("imbuia", BIOMETRIC, "liveness", ttl_s=HOUR)
                world.call_back(step.bank, step.cpf, b"{}", {"X-Signature": "signature"})
                await asyncio.wait_for(taken.wait(), 10)
            finally:
                await world.close()
        assert arrived == [(b"{}", "signature")] * 2

    asyncio.run(run())
