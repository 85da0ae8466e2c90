"""What the manual of a simulated bank says of its dialect, as data, and a caller that follows it. Written from the
manuals, independent of the service's adapters."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import requests

from tests.processes import Simulator
from tests.providers.manuals import Changes, changed, query_body, submission_body
from tests.providers.samples import FULL_FLOW, SIMULATED

MISSING, TYPE = "campo obrigatorio nao informado", "tipo invalido"
FORMAT, VALUE = "formato invalido", "valor nao permitido"
#: A field's dotted path, a value that the bank refuses there, and the fault. `...` leaves the field out. A fourth item
#: is the field that the bank names, if that is another one.
Fault = tuple[str, Any, str] | tuple[str, Any, str, str]
#: The status and the JSON of an answer.
Refusal = tuple[int, Any]
MASKED_CPF = "900.000.001-75"


def bearer(token: str, call: str, raw: bytes) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def authorizations(*values: str) -> list[dict[str, Any]]:
    """No `Authorization` header, and one of each value."""
    return [{}, *({"Authorization": value} for value in values)]


NO_BEARER = authorizations("Bearer wrong", "{token}", "Basic {token}")
NO_JSON = [
    ("application/x-www-form-urlencoded", b"a=b"),
    ("text/plain", b"{}"),
    ("application/json", b"{"),
    ("application/json", b"[]"),
]


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """One bank. Calls are "METHOD /path", behind the bank's name."""

    name: str
    #: How a token is asked for: arguments of a request. The token in the answer.
    login: dict[str, Any] = field(default_factory=dict)
    token: Callable[[Any], str] = lambda told: ""
    #: The headers of a call, from the token, the call and the body.
    headers: Callable[[str, str, bytes], dict[str, str]] = bearer
    #: Headers without a good token; "{token}" stands for a good one. What the bank answers to them on every route.
    bad_headers: list[dict[str, Any]] = field(default_factory=lambda: NO_BEARER)
    turned_away: Refusal

    #: Where the body of a submission names the simulation.
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

    #: The answer that refuses a field for this fault.
    refusal: Callable[[str, str], Refusal]
    #: The field's name for the whole body, and bodies that are no JSON object or no form, by media type.
    body: str = "corpo"
    no_bodies: list[tuple[str, bytes]] = field(default_factory=lambda: NO_JSON)
    #: Fields that may be left out, with spaces between them. Those with null in the manual's body are not tried.
    may_lack_in_query: str = ""
    may_lack_in_submission: str = ""
    #: Faults by the bank's own rules.
    query_faults: list[Fault] = field(default_factory=list)
    submit_faults: list[Fault] = field(default_factory=list)

    def routes(self) -> list[str]:
        """Each call of the simulated bank except that for a token, with "x" for what varies in its path."""
        routes = [route for route in SIMULATED[self.name].routes() if route.operation != "token"]
        return [f"{route.method} {re.sub('{.*?}', 'x', route.path)}" for route in routes]

    def call_to(self, operation: str) -> str:
        """The bank's only call of this operation: "query" asks for offers, "submit" submits."""
        [route] = [route for route in SIMULATED[self.name].routes() if route.operation == operation]
        return f"{route.method} {route.path}"


class Caller:
    """Takes a token at once and uses it for every call."""

    def __init__(self, simulator: Simulator, dialect: Dialect) -> None:
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
        body = changed(of_holder(cpf, query_body(self.dialect.name)), changes or {})
        return self.call(self.dialect.call_to("query"), self.dialect.complete(body))

    def simulate(self, cpf: str = FULL_FLOW) -> str:
        """The id of the first simulation of a fresh query."""
        return self.dialect.offered(self, self.query(cpf, self.dialect.fresh).json())

    def submission(self, changes: Changes | None = None, cpf: str = FULL_FLOW) -> dict[str, Any]:
        """A valid submission of a fresh simulation, with these changes."""
        body = submission_body(self.dialect.name, {self.dialect.simulation: self.simulate(cpf)})
        return changed(of_holder(cpf, body), changes or {})

    def submit(self, body: dict[str, Any]) -> requests.Response:
        return self.call(self.dialect.call_to("submit"), body)


def of_holder(cpf: str, body: dict[str, Any]) -> dict[str, Any]:
    """A body of a manual, for another holder than the manual's."""
    return changed(body, {path: cpf for path, value in leaves(body) if value == FULL_FLOW})


def slips(dialect: Dialect, body: Mapping[str, Any], may_lack: str) -> Iterable[Fault]:
    """Faults of each object and field of the body that is not null: left out, of another type, a CPF with a mask."""
    for path, value in parts(body):
        if value is None:
            continue
        if path not in may_lack.split():
            yield path, ..., MISSING
        if dialect.media_type == "application/json":
            yield path, 7 if isinstance(value, str | bool) else "7", TYPE
        if value == FULL_FLOW:
            yield path, MASKED_CPF, FORMAT


def parts(body: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    """The dotted paths of a body's objects and values, with these. A list is a value."""
    for key, value in body.items():
        yield prefix + key, value
        if isinstance(value, dict):
            yield from parts(value, f"{prefix}{key}.")


def leaves(body: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    """The same of its values only. Null is none."""
    return ((path, value) for path, value in parts(body) if value is not None and not isinstance(value, dict))
