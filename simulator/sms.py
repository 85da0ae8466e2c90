"""`POST /sms`: a text-message gateway. Its messages appear at `/phone/{number}`.

It implements the gateway protocol of docs/operations.md. No bank takes part.
"""

from __future__ import annotations

import re
from collections import OrderedDict

from aiohttp import web

from simulator.messages import answer
from simulator.orders import order, refuse
from simulator.world import World

NAME = "sms"
LONGEST_TEXT = 1_000
REFERENCES_KEPT = 10_000
_NUMBER = re.compile(r"\+55(\d{10,11})", re.ASCII)


class SmsGateway:
    """The gateway's route. A repeated reference is one message."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._taken: OrderedDict[str, None] = OrderedDict()
        world.titles[NAME] = "Originação"

    def add_to(self, app: web.Application) -> None:
        """Register the route."""
        app.router.add_post("/sms", self.take)

    async def take(self, request: web.Request) -> web.Response:
        """202 with the reference; 401 without a bearer token; 422 for an invalid message."""
        if not request.headers.get("Authorization", "").removeprefix("Bearer ").strip():
            return answer({"message": "Authorization: Bearer … is missing"}, 401)
        body = await order(request, "to", "text", "reference")
        number = _NUMBER.fullmatch(str(body.get("to")))
        if number is None:
            refuse("to", "+55 e 10 ou 11 dígitos")
        text, reference = body.get("text"), body.get("reference")
        if not isinstance(text, str) or not 0 < len(text) <= LONGEST_TEXT:
            refuse("text", f"texto de até {LONGEST_TEXT} caracteres")
        if not isinstance(reference, str) or not 0 < len(reference) <= 64:
            refuse("reference", "texto de até 64 caracteres")
        if reference not in self._taken:
            self._taken[reference] = None
            self._world.send(NAME, number[1], "sms", text)
            while len(self._taken) > REFERENCES_KEPT:
                self._taken.popitem(last=False)
        return answer({"reference": reference}, 202)
