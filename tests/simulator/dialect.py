"""What the manual of a simulated bank says of its dialect, as data, and a caller that follows it. Written from the
manuals, independent of the service's adapters."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import Any

import requests

from tests.providers.manuals import Changes, query_body, submission_body
from tests.providers.samples import FULL_FLOW
from tests.simulator.http import HttpSimulator

MISSING, TYPE = "campo obrigatorio nao informado", "tipo invalido"
FORMAT, VALUE = "formato invalido", "valor nao permitido"
#: A field's dotted path, a value that the bank refuses there, and the fault. `...` leaves the field out. A fourth item
#: is the field that the bank names, if that is another one.
Fault = tuple[str, Any, str] | tuple[str, Any, str, str]
#: A call such as "GET /path", its body, and what the bank answers: an HTTP status and a body.
Unknown = tuple[str, Any, int, Any]
Refusal = tuple[str, str] | None


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """One bank. Calls are "METHOD /path", behind the bank's name."""

    name: str
    #: How a token is asked for: arguments of a request. The token in the answer, the whole answer
    #: that bears this token, its HTTP status, and for how many seconds it serves.
    login: dict[str, Any] = field(default_factory=dict)
    token: Callable[[Any], str] = lambda told: ""
    granted: Callable[[Any], Any] = lambda told: told
    granted_with: int = 200
    lifetime_s: int = 0
    #: Other arguments of that request, and what the bank answers to them.
    wrong_logins: list[tuple[dict[str, Any], int, Any]] = field(default_factory=list)
    #: The headers of a call, from the token, the call and the body.
    headers: Callable[[str, str, bytes], dict[str, str]]
    #: Headers without a good token; "{token}" stands for a good one. What the bank answers to them on every route.
    bad_headers: list[dict[str, Any]]
    routes: list[str]
    turned_away: tuple[int, Any]

    #: The calls that ask for offers and that submit, and where their bodies name the holder and the simulation.
    query: str
    submit: str
    query_cpf: str
    submit_cpf: str
    simulation: str
    #: The first simulation's id, from the answer to a query. What that query has to say for a submission.
    offered: Callable[[Caller, Any], str]
    fresh: Changes = field(default_factory=dict)
    #: Makes a changed query valid, for example by a signature.
    complete: Callable[[dict[str, Any]], dict[str, Any]] = lambda body: body
    #: Makes the document of a submission from the manual's body, for example with root and ticket.
    complete_submission: Callable[[dict[str, Any]], dict[str, Any]] = lambda body: body
    encode: Callable[[Any], bytes] = lambda body: json.dumps(body).encode()
    media_type: str = "application/json"
    #: True if a repeated reference creates a second contract.
    repeats: bool = False

    #: The field and the fault that a refusal names; None for an answer that is no refusal.
    fault: Callable[[requests.Response], Refusal]
    #: The field's name for the whole body, and bodies that are no JSON object or no form, by media type.
    body: str
    no_bodies: list[tuple[str, bytes]]
    #: Fields that may be left out. Those that the manual's body shows with null are not tried.
    may_lack_in_query: Set[str] = frozenset()
    may_lack_in_submission: Set[str] = frozenset()
    query_faults: list[Fault]
    submit_faults: list[Fault]
    #: Changes with which a query is still taken.
    taken: list[Changes] = field(default_factory=list)
    #: The change that asks for a PIX key of some kind, and keys with what the bank refuses in them.
    pix: Callable[[Any, str], Changes] = lambda kind, key: {}
    pix_keys: list[tuple[Any, str, Refusal]] = field(default_factory=list)
    unknown: list[Unknown]
    unknown_simulation: tuple[int, Any]


class Caller:
    """Takes a token at once and uses it for every call."""

    def __init__(self, simulator: HttpSimulator, dialect: Dialect) -> None:
        self.simulator = simulator
        self.dialect = dialect
        self.token = dialect.token(self.log_in().json()) if dialect.login else ""

    def log_in(self, **changes: Any) -> requests.Response:
        how = {"method": "POST", **self.dialect.login, **changes}
        return self.simulator.request(how.pop("method"), f"/{self.dialect.name}{how.pop('path')}", **how)

    def call(self, call: str, body: Any = None, headers: dict[str, Any] | None = None) -> requests.Response:
        """Send `body` as the bank wants it, with these headers instead of good ones."""
        raw = b"" if body is None else self.dialect.encode(body)
        signed = self.dialect.headers(self.token, call, raw) if headers is None else headers
        return self.send(call, data=raw, headers={"Content-Type": self.dialect.media_type, **signed})

    def send(self, call: str, **kwargs: Any) -> requests.Response:
        method, path = call.split(" ", 1)
        return self.simulator.request(method, f"/{self.dialect.name}{path}", **kwargs)

    def query(self, cpf: str = FULL_FLOW, changes: Changes | None = None) -> requests.Response:
        """Ask for offers with the manual's query, which stays valid with these changes."""
        body = query_body(self.dialect.name, {self.dialect.query_cpf: cpf, **(changes or {})})
        return self.call(self.dialect.query, self.dialect.complete(body))

    def simulate(self, cpf: str = FULL_FLOW) -> str:
        """The id of the first simulation of a fresh query."""
        return self.dialect.offered(self, self.query(cpf, self.dialect.fresh).json())

    def submission(self, changes: Changes | None = None, cpf: str = FULL_FLOW) -> dict[str, Any]:
        """A valid submission of a fresh simulation, with these changes."""
        found = {self.dialect.simulation: self.simulate(cpf), self.dialect.submit_cpf: cpf}
        return submission_body(self.dialect.name, {**found, **(changes or {})})

    def submit(self, body: dict[str, Any]) -> requests.Response:
        return self.call(self.dialect.submit, body)


def bearer(token: str, call: str, raw: bytes) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def authorizations(*values: str) -> list[dict[str, Any]]:
    """No `Authorization` header, and one of each value."""
    return [{}, *({"Authorization": value} for value in values)]


NO_BEARER = authorizations("Bearer wrong", "{token}", "Basic {token}")


def slips(dialect: Dialect, body: Mapping[str, Any], may_lack: Set[str]) -> Iterable[Fault]:
    """A fault of each kind for each field of the body that has a value: left out, blank, of another type."""
    for path, value in leaves(body):
        if path not in may_lack:
            yield path, ..., MISSING
        if isinstance(value, str):
            yield path, " ", MISSING
        if dialect.media_type == "application/json":
            yield path, 7 if isinstance(value, str) else "7", TYPE


def leaves(body: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    """The dotted paths of a body's values, with these values. Null is none; a list is one."""
    for key, value in body.items():
        if isinstance(value, dict):
            yield from leaves(value, f"{prefix}{key}.")
        elif value is not None:
            yield prefix + key, value
