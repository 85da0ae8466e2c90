from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from providers import registry
from providers.base import Bank, Connection
from providers.breaker import Breaker
from providers.shared import redis
from providers.tokens import forget_all
from tests.processes import Simulator
from tests.providers.samples import CREDENTIALS

Connect = Callable[..., Bank]


@pytest.fixture(autouse=True)
def nothing_remembered_of_banks() -> Iterator[None]:
    """No token and no breaker's count passes from one test to the next."""
    yield
    forget_all()
    Breaker.forget()
    for key in redis().scan_iter("breaker:*"):
        redis().delete(key)


@pytest.fixture
def simulator(simulator: Simulator) -> Simulator:
    """The simulator of this test run, with nothing in its memory."""
    simulator.reset()
    return simulator


@pytest.fixture
def connect(simulator: Simulator) -> Connect:
    """The adapter of a bank, connected to its simulated bank for `seconds` seconds from now."""

    def connected(name: str, **options: Any) -> Bank:
        return at(name, f"{simulator.url}/{name}", **options)

    return connected


def at(name: str, url: str, *, seconds: float = 10, **settings: Any) -> Bank:
    """The adapter of a bank, connected to that address."""
    adapter = registry.get(name)
    assert adapter is not None
    account = Connection(url, **{"credentials": CREDENTIALS[name], **settings})
    return adapter(account, deadline=time.monotonic() + seconds, request_id="request-1")
