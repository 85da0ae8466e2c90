"""The routes of a simulated bank: which method handles a path, and where a request names its holder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from aiohttp import web

from simulator.messages import Request

Handler = Callable[[Any, Request], web.Response]
H = TypeVar("H", bound=Handler)


@dataclass(frozen=True)
class Route:
    """A route of a bank. `operation` is its name in the controls, `handler` the name of its method.

    `cpf`, `reference` and `contract` are dotted names (see `Request.look_up`) of these values in the request, so that a
    call is recorded with its holder even if a fault prevents the handler from running. `when` distinguishes operations
    with the same path (see `Request.matches`). A route with `when` None takes all other requests.
    """

    method: str
    path: str
    operation: str
    handler: str
    public: bool
    cpf: str | None
    reference: str | None
    contract: str | None
    when: str | None = None


def route(
    method: str,
    path: str,
    operation: str,
    *,
    public: bool = False,
    cpf: str | None = None,
    reference: str | None = None,
    contract: str | None = None,
    when: str | None = None,
) -> Callable[[H], H]:
    """Mark a method as the handler of a route below `/<bank>`. A `public` route (for tokens) is not authenticated.
    `when` selects bodies if one path serves several operations."""

    def mark(handler: H) -> H:
        described = Route(method, path, operation, handler.__name__, public, cpf, reference, contract, when)
        handler.__dict__.setdefault("routes", []).append(described)
        return handler

    return mark
