"""The routes of a simulated bank: which method of it serves which address, and where the request names its holder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from aiohttp import web

from providers.simulator.messages import Request

Handler = Callable[[Any, Request], web.Response]
H = TypeVar("H", bound=Handler)


@dataclass(frozen=True)
class Route:
    """A route of a bank: `operation` is its name in the controls, `handler` the method's name.

    `cpf`, `reference` and `contract` say where the request bears those (dotted names, see `Request.look_up`),
    so that a call is recorded with its holder also where a fault keeps the handler from running. `when` tells
    operations of one path apart (see `Request.matches`); None takes whatever the others leave.
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
    """Mark a method as the handler of a route below `/<bank>`. `public`: `authenticate` is not asked (token
    routes). `when`: which bodies it takes, where one path serves several operations.
    """

    def mark(handler: H) -> H:
        made = Route(method, path, operation, handler.__name__, public, cpf, reference, contract, when)
        handler.__dict__.setdefault("routes", []).append(made)
        return handler

    return mark
