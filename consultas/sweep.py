"""Checks due external steps, with limits on number and time."""

import time

import gevent
import structlog
from django.db import connection as database
from gevent.lock import BoundedSemaphore
from gevent.pool import Pool

from consultas import pending
from consultas.models import Step
from foundation import later
from partners import contract
from providers import operation, registry
from providers.bank import Connection
from providers.errors import BankSwitchedOff
from providers.models import enabled_connections

#: How long one run takes up due steps, in seconds. The next run continues.
TICK_S = 2.0
#: How many steps of one bank this process checks at the same time. A hanging bank therefore delays no other bank's
#: steps.
PLACES = 64
_PAUSE_S = 0.05

_places: dict[str, Pool] = {}
_turn = BoundedSemaphore(1)


def run() -> None:
    """Check the due steps, each in its own greenlet, until none is left or the time is over. Returns when its checks
    have ended."""
    end = time.monotonic() + TICK_S
    looks: list[gevent.Greenlet] = []
    connections: dict[str, Connection] = {}

    def take() -> int:
        banks = pending.banks_due() if time.monotonic() < end else []
        if banks and not connections:
            connections.update(enabled_connections(registry.names()))
        for bank in banks:
            looks.extend(_look_at(bank, connections))
        database.close()
        if banks:
            gevent.sleep(_PAUSE_S)
        return len(banks)

    with _turn:  # the previous run may still be taking steps
        later.drain(pending.CHECK, take)
    gevent.joinall(looks)


def _look_at(bank: str, connections: dict[str, Connection]) -> list[gevent.Greenlet]:
    """Start checks of the bank's due steps, as many as there are free places."""
    places = _places.setdefault(bank, Pool(PLACES))
    steps = pending.claim_due(bank, places.free_count())
    allowed = contract.partners_with(bank, {step.partner_id for step in steps})
    return [places.spawn(_look, step, connections, step.partner_id in allowed) for step in steps]


def _look(step: Step, connections: dict[str, Connection], is_allowed: bool) -> None:
    """Check the step. If its bank has left the partner's contract (`is_allowed` is False), expire it without a call."""
    request_id = step.query.request_id
    structlog.contextvars.bind_contextvars(request_id=request_id)
    try:
        if not is_allowed:
            pending.give_up(step)
            return
        partner = str(step.partner_id)
        bank = operation.client(step.provider, request_id=request_id, partner=partner, known=connections)
        pending.check(bank, step)
    except BankSwitchedOff:
        pending.put_off(step)
    finally:
        database.close()
