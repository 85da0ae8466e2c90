"""The partners' side of events: an endpoint for deliveries that fails at times, and readers of the ordered list."""

from __future__ import annotations

import base64
import hashlib
import hmac
import threading
import time
from dataclasses import dataclass, field
from random import Random
from typing import Any

from bench.proof.backend import Backend
from tests.receiver import Received, Receiver, Reply

#: How the endpoint fails, and for which share of the events. It takes the next attempt, so that no event waits longer
#: than for the first step of the schedule. None confirms anything: a frozen worker may find the answer after a hang.
FAILURES = ((0.02, Reply(503)), (0.03, Reply(reset=True)), (0.04, Reply(503, hang=12)))
WAIT_S = 20


@dataclass(frozen=True)
class Delivery:
    """An event that the endpoint took: its `webhook-id`, when it came, and the parsed body."""

    id: str
    at: float
    body: dict[str, Any]


@dataclass
class Endpoint:
    """Receives the events of all partners, whose ids are the paths. `forged` are deliveries with a wrong signature."""

    seed: int
    taken: list[Delivery] = field(default_factory=list)
    forged: list[str] = field(default_factory=list)
    secrets: dict[str, str] = field(default_factory=dict)
    _failed: set[str] = field(default_factory=set)

    def serve(self) -> Receiver:
        """The server, to be entered."""
        return Receiver(self._reply)

    def _reply(self, request: Received) -> Reply:
        body = request.json()
        if not _is_genuine(request, self.secrets[body["partner_id"]]):
            self.forged.append(request.id)
        draw = Random(f"{self.seed}-{request.id}").random()
        reply = next((each for limit, each in FAILURES if draw < limit), None)
        if reply and request.id not in self._failed:
            self._failed.add(request.id)
            return reply
        self.taken.append(Delivery(request.id, request.at, body))
        return Reply(keep=True)


def _is_genuine(request: Received, secret: str) -> bool:
    headers = request.headers
    own = hmac.new(secret.encode(), request.body, hashlib.sha256).hexdigest()
    signed = f"{request.id}.{headers['webhook-timestamp']}.".encode() + request.body
    key = base64.b64decode(secret.removeprefix("whsec_"))
    standard = "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return headers["x-service-signature"] == own and standard in headers["webhook-signature"].split()


class Follower(threading.Thread):
    """Reads a partner's events in order until the process ends: with the Python client or, `is_impatient`, with calls
    that it breaks off at random, going on from its last cursor."""

    def __init__(self, backend: Backend, *, is_impatient: bool) -> None:
        super().__init__(daemon=True)
        self.partner = backend.id
        self.got: list[str] = []
        self._backend, self._is_impatient, self._cursor = backend, is_impatient, ""
        self._random = Random(backend.id)

    def run(self) -> None:
        if not self._is_impatient:
            for event in self._backend.client.events():
                self.got.append(event.id)
        while True:
            self._read(self._random.uniform(0.05, 3))

    def _read(self, patience_s: float) -> None:
        reply = self._backend.call(
            "GET", f"/webhook-events?order=asc&wait_s={WAIT_S}&cursor={self._cursor}", what="events", timeout=patience_s
        )
        if reply.is_good:
            self.got += [event["id"] for event in reply.body["events"]]
            self._cursor = reply.body["next_cursor"]
        else:
            time.sleep(0.2)
