from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
import urllib3

from foundation.redis import redis
from providers import registry
from providers.bank import Bank, Connection, Limits
from providers.breaker import Breaker
from providers.errors import BankFailure
from providers.tokens import Token, tokens
from providers.types import given
from providers.types.query import BankOffer
from tests.conftest import CONTROL_TOKEN
from tests.processes import Simulator
from tests.providers.samples import CREDENTIALS, a_query
from tests.receiver import Received, Receiver, Reply

if TYPE_CHECKING:
    from providers.operation import BankClient

Connect = Callable[..., "BankClient"]


@pytest.fixture(autouse=True)
def nothing_remembered_of_banks() -> Iterator[None]:
    """Deletes tokens and breakers' counts before and after each test. The service of an earlier test leaves some."""
    _forget()
    yield
    _forget()


def _forget() -> None:
    tokens.cache_clear()
    Breaker.forget()
    redis().flushdb()


@pytest.fixture
def simulator(simulator: Simulator) -> Iterator[Simulator]:
    """The simulator of this test run, with nothing in its memory but the tokens; every call counts."""
    found = Simulator(simulator.url, CONTROL_TOKEN, shows_turned_away=True)
    found.reset()
    yield found
    found.close()


@pytest.fixture
def connect(simulator: Simulator) -> Connect:
    """A bank, connected to its simulated bank for `seconds` seconds from now."""

    def connected(name: str, **options: Any) -> BankClient:
        return at(name, f"{simulator.url}/{name}", **options)

    return connected


@pytest.fixture
def bank(connect: Connect, request: pytest.FixtureRequest) -> BankClient:
    """The connected bank after which the test's module is named."""
    return connect(request.module.__name__.rpartition(".test_")[2])


@pytest.fixture
def offer(bank: BankClient) -> BankOffer:
    return bank.query(a_query()).offers[0]


@contextmanager
def between(simulator: Simulator, name: str, change: Callable[[Received, Reply], Reply]) -> Iterator[str]:
    """The address of a bank whose answers are changed by `change`."""

    def relay(request: Received) -> Reply:
        headers = {key: text for key, text in request.headers.items() if key not in ("host", "content-length")}
        answer = urllib3.request(
            request.method,
            f"{simulator.url}/{name}{request.path}",
            body=request.body or None,
            headers=headers,
            retries=False,
        )
        return change(request, Reply(answer.status, answer.data, {"Content-Type": answer.headers["Content-Type"]}))

    with Receiver(relay) as bank:
        yield bank.root


#: An answer to a log-in at each bank but one, which wraps its answers.
_TOKEN = {
    **dict.fromkeys(("token", "Token", "access_token", "refresh_token"), "token-1"),
    **dict.fromkeys(("expiraEm", "expires_in", "expires_in_seconds", "ValidadeMinutos"), 600),
}


def saying(*answers: Reply | Any) -> Callable[[Received], Reply]:
    """For a Receiver: gives a token, and then these answers in turn, the last one again and again. Data are JSON."""
    rest = [each if isinstance(each, Reply) else Reply(200, json.dumps(each).encode()) for each in answers]

    def answer(request: Received) -> Reply:
        if re.search("token|login", request.path.lower()):
            return Reply(200, json.dumps(_TOKEN).encode())
        return rest.pop(0) if len(rest) > 1 else rest[0]

    return answer


@contextmanager
def answering(name: str, *answers: Reply | Any, seconds: float = 5) -> Iterator[BankClient]:
    """A bank that answers as in `saying`."""
    with Receiver(saying(*answers)) as receiver:
        yield at(name, receiver.root, seconds=seconds)


def at(name: str, url: str, *, seconds: float = 10, **settings: Any) -> BankClient:
    """A bank, connected to the given address."""
    adapter = given(registry.get(name))
    account = Connection(url, **{"credentials": CREDENTIALS[name], **settings})
    return client_of(adapter, account, seconds=seconds)


def adapter_of(bank: BankClient) -> Bank:
    """The bank's adapter alone, as during an operation."""
    from providers.operation import Operation  # needs the settings, which this file is loaded before

    return bank.adapter(bank.connection, Operation(bank, None).send, bank.deadline)


def log_in(bank: BankClient, old: Token | None = None) -> Token:
    """The token of a log-in by the bank's adapter."""
    from providers.operation import Operation  # as above

    return Operation(bank, None).log_in(adapter_of(bank), old)


def lenient(bank: BankClient) -> BankClient:
    """The same bank without its own rules, to test what only the bank refuses."""
    without_rules = {"faults": classmethod(lambda *_: []), "limits": Limits()}
    adapter = type("Lenient", (bank.adapter,), without_rules)
    return client_of(adapter, bank.connection)


def client_of(
    adapter: type[Bank], connection: Connection, *, seconds: float = 10, partner: str = "partner-1"
) -> BankClient:
    """The adapter's bank, called for `partner`."""
    from providers.operation import BankClient  # needs the settings, which this file is loaded before

    deadline = time.monotonic() + seconds
    return BankClient(adapter, connection, deadline=deadline, request_id="request-1", partner=partner)


def fail(bank: BankClient, times: int = 10) -> None:
    """Query a failing bank so many times."""
    for _ in range(times):
        with pytest.raises(BankFailure):
            bank.query(a_query())


def half_open(name: str) -> None:
    """Let the breaker's 15 s pass by moving the clock."""
    redis().set(f"breaker:{name}:opened_at", time.time() - 15, ex=300)
    Breaker.forget()
