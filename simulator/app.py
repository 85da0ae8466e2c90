"""The web application: every bank's routes with recorded calls, faults and latency; also the controls and the holder's
pages."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from aiohttp import web

from simulator import faults
from simulator.bank import Bank, Behaviour, Call, CallerRefused, Refusal
from simulator.banks import BANKS
from simulator.controls import Controls
from simulator.fields import Problem
from simulator.lab import Lab
from simulator.ledger import ScenarioFailure
from simulator.messages import Request
from simulator.phone import Phone
from simulator.routes import Route
from simulator.sms import SmsGateway
from simulator.world import World

LARGEST_BODY_BYTES = 1024 * 1024


@dataclass(frozen=True)
class Settings:
    """`public_url` is the simulator's base URL for holders' browsers, `callback_base_url` the service's base URL for
    callbacks. The controls answer at `control_port` only."""

    public_url: str
    callback_base_url: str
    control_token: str
    control_port: int


def create_app(settings: Settings) -> web.Application:
    """One world: banks below `/<name>`, controls below `/_control`, the laboratory below `/lab`, and the holder's
    pages."""
    world = World(settings.public_url, settings.callback_base_url)
    banks = {kind.name: kind(world) for kind in BANKS}
    controls = Controls(world, banks, settings.control_token, settings.control_port)
    app = web.Application(client_max_size=LARGEST_BODY_BYTES, middlewares=[controls.guard])
    controls.add_to(app)
    Lab(world, banks).add_to(app)
    Phone(world).add_to(app)
    SmsGateway(world).add_to(app)
    for bank in banks.values():
        shared: dict[tuple[str, str], list[Route]] = {}
        for each in bank.routes():
            shared.setdefault((each.method, each.path), []).append(each)
        for (method, path), routes in shared.items():
            app.router.add_route(method, f"/{bank.name}{path}", _handler(bank, routes))

    async def close(_: web.Application) -> None:
        await world.close()

    app.on_shutdown.append(close)
    return app


def _handler(bank: Bank, routes: list[Route]) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """The handler for the `routes` of one method and path. The body decides which of them is called."""

    async def serve(incoming: web.Request) -> web.StreamResponse:
        request = Request(
            incoming.method,
            incoming.path,
            incoming.headers,
            incoming.match_info,
            incoming.query,
            await incoming.read(),
            incoming.raw_path,
        )
        bank.world.clock.run_due()
        matched = next((each for each in routes if each.when is None or request.matches(each.when)), None)
        if matched is None:
            return bank.bad_field(None, Problem.VALUE)
        call, behaviours = _arrived(bank, matched, request)
        response = _worked(bank, matched, request, call)
        if _without_effect(bank, call, response):
            call.fault = None
        met = [each for each in behaviours if each.fault in (None, call.fault)]
        for each in met:
            each.use_up()
        if wait_ms := max(_decision_ms(bank, call), *(each.latency_ms for each in met), 0):
            await asyncio.sleep(wait_ms / 1000)
        if call.fault is None and response is not None:
            return response
        return await faults.play(str(call.fault), bank, incoming, response, call.cpf)

    return serve


def _arrived(bank: Bank, matched: Route, request: Request) -> tuple[Call, list[Behaviour]]:
    """The recorded call with the fault that it meets, and the behaviours set for it."""
    reference, cpf = bank.identify(matched, request)
    behaviours = bank.behaviours_for(matched.operation, cpf)
    fault = next((each.fault for each in behaviours if each.fault), None)
    if fault is None and matched.operation == "query" and cpf is not None:
        answer = bank.scenario(cpf).answer
        fault = answer if answer in faults.FAULTS else None
    call = Call(
        matched.operation,
        reference,
        cpf,
        request.headers.get("X-Request-Id"),
        bank.world.clock.now(),
        request.raw.decode("utf-8", "replace"),
        fault,
    )
    bank.calls.append(call)
    return call, behaviours


def _worked(bank: Bank, matched: Route, request: Request, call: Call) -> web.Response | None:
    """Do the work of the call and record the result in `call`. None if its fault keeps the bank from working.

    The work is done when the request arrives, and latency delays only the answer. As at a real bank, a request takes
    effect even if the caller stops waiting.
    """
    call.let_in = call.fault != "expired_token"
    if call.fault in faults.WITHOUT_WORK:
        return None
    try:
        response = bank.handle(matched, request)
        call.worked = True
    except ScenarioFailure as failure:
        response = web.Response()  # replaces the answer that is lost
        call.fault, call.worked = failure.fault, failure.worked
    except Refusal as refusal:
        response = refusal.response
        if isinstance(refusal, CallerRefused):
            call.let_in = False
    return response


def _without_effect(bank: Bank, call: Call, response: web.Response | None) -> bool:
    """True if the call's fault spoils what the bank does, and the bank refused the call, or its answer has no CET."""
    if call.fault not in faults.OF_WORK:
        return False
    if not call.worked or response is None:
        return True
    return call.fault == "without_cet" and bank.without_cet(response).text == response.text


def _decision_ms(bank: Bank, call: Call) -> int:
    """The time of the bank's decision about the holder of a query, in milliseconds. Zero for a refused caller."""
    if call.operation != "query" or call.cpf is None or not call.let_in:
        return 0
    return bank.scenario(call.cpf).latency_ms
