"""`/_control`: commands for tests and demonstrations. Requires the header `X-Control-Token`."""

from __future__ import annotations

import hmac
from dataclasses import asdict
from decimal import Decimal
from typing import Any

from aiohttp import web

from simulator.bank import Bank, Behaviour, iso
from simulator.faults import FAULTS, OPERATIONS
from simulator.messages import answer
from simulator.orders import integer, no_such, order, refuse, word
from simulator.world import STEPS, World

CALL_OPERATIONS = (
    "token",
    "query",
    "poll",
    "submit",
    "find",
    "save_simulation",
    "formalize",
    "status",
    "cancel",
    "auction",
)
LONGEST_LATENCY_MS = 600_000
MOST_OFFERS_TIMES = 100
LONGEST_ADVANCE_S = 10 * 365 * 24 * 3600


class Controls:
    """The routes below `/_control`."""

    def __init__(self, world: World, banks: dict[str, Bank], token: str, port: int) -> None:
        self._world = world
        self._banks = banks
        self._token = token.encode()
        self._port = port

    def add_to(self, app: web.Application) -> None:
        """Register the routes."""
        app.router.add_post("/_control/reset", self.reset)
        app.router.add_post("/_control/banks/{name}", self.behave)
        app.router.add_get("/_control/banks/{name}/calls", self.calls)
        app.router.add_get("/_control/banks/{name}/contracts", self.contracts)
        app.router.add_post("/_control/holders/{cpf}/complete", self.complete)
        app.router.add_post("/_control/clock", self.clock)

    @web.middleware
    async def guard(self, request: web.Request, handler: Any) -> web.StreamResponse:
        """For every path below `/_control`: 404 at any other port than that of the controls, 401 without the token, and
        runs the actions that are due."""
        if request.path.startswith("/_control"):
            if request.transport is None or request.transport.get_extra_info("sockname")[1] != self._port:
                return answer({"message": "no such path"}, 404)
            token = request.headers.get("X-Control-Token", "").encode("utf-8", "surrogateescape")
            if not hmac.compare_digest(token, self._token):
                return answer({"message": "X-Control-Token is missing or wrong"}, 401)
            self._world.clock.run_due()
        response: web.StreamResponse = await handler(request)
        return response

    async def reset(self, request: web.Request) -> web.Response:
        keep_tokens = (await order(request, "keep_tokens")).get("keep_tokens", False)
        if not isinstance(keep_tokens, bool):
            refuse("keep_tokens", "true or false")
        self._world.reset()
        for bank in self._banks.values():
            bank.reset(keep_tokens)
        return answer({"reset": True})

    async def behave(self, request: web.Request) -> web.Response:
        bank = self._bank(request)
        body = await order(request, "latency_ms", "fault", "operation", "times", "offers_times")
        latency = integer(body, "latency_ms", 0, LONGEST_LATENCY_MS)
        times = integer(body, "times", 1, 1_000_000)
        fault = word(body, "fault", FAULTS)
        operation = word(body, "operation", OPERATIONS)
        offers_times = integer(body, "offers_times", 1, MOST_OFFERS_TIMES)
        bank.behaviour = Behaviour(latency or 0, fault, operation or "any", times, offers_times or 1)
        return answer({"bank": bank.name, **asdict(bank.behaviour)})

    async def calls(self, request: web.Request) -> web.Response:
        bank = self._bank(request)
        operation = request.query.get("operation") or "any"
        if operation not in (*CALL_OPERATIONS, "any"):
            refuse("operation", "not an operation")
        return answer([call.as_dict() for call in bank.calls if operation in ("any", call.operation)])

    async def contracts(self, request: web.Request) -> web.Response:
        return answer(
            [
                {
                    "contract": contract.id,
                    "reference": contract.reference,
                    "cpf": contract.cpf,
                    "status": contract.status,
                    "channel": contract.channel,
                    "created_at": iso(contract.created_at),
                }
                for contract in self._bank(request).ledger.all()
            ]
        )

    async def complete(self, request: web.Request) -> web.Response:
        body = await order(request, "provider", "step", "outcome")
        provider = word(body, "provider", self._banks, required=True)
        kind = word(body, "step", STEPS, required=True)
        outcome = word(body, "outcome", ("approved", "refused")) or "approved"
        step = self._world.newest_step(str(provider), request.match_info["cpf"], str(kind), only_open=True)
        if step is None:
            return answer({"message": "no open step of that kind"}, 409)
        self._world.end_step(step, outcome)
        return answer({"provider": provider, "step": kind, "outcome": outcome})

    async def clock(self, request: web.Request) -> web.Response:
        body = await order(request, "advance_s")
        seconds = body.get("advance_s")
        if isinstance(seconds, bool) or not isinstance(seconds, int | Decimal):
            refuse("advance_s", "a number of seconds")
        if not 0 <= seconds <= LONGEST_ADVANCE_S:
            refuse("advance_s", "the clock only moves forward, by at most ten years")
        self._world.clock.advance(float(seconds))
        return answer({"now": iso(self._world.clock.now())})

    def _bank(self, request: web.Request) -> Bank:
        bank = self._banks.get(request.match_info["name"])
        if bank is None:
            raise no_such("banco")
        return bank
