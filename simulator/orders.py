"""Reads the bodies of the controls and the laboratory and refuses invalid ones. The messages are Portuguese, for
partners' engineers."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NoReturn

from aiohttp import web

from simulator.fields import parse_json
from simulator.messages import answer


def refuse(field: str | None, message: str) -> NoReturn:
    """Raise 422 with the field's name; None for the body as a whole."""
    raise _error(web.HTTPUnprocessableEntity, {"field": field, "message": message})


def no_such(what: str) -> web.HTTPException:
    """A 404, for the caller to raise."""
    return _error(web.HTTPNotFound, {"message": f"{what}: não existe"})


def conflict(message: str) -> web.HTTPException:
    """A 409, for the caller to raise: the current state does not allow the command."""
    return _error(web.HTTPConflict, {"message": message})


async def order(request: web.Request, *fields: str) -> dict[str, Any]:
    """The body as a JSON object with no other fields than `fields`. An empty body is an empty object. Raises 422
    otherwise."""
    raw = await request.read()
    try:
        body = parse_json(raw) if raw else {}
    except ValueError:
        refuse(None, "não é JSON")
    if not isinstance(body, dict):
        refuse(None, "não é um objeto")
    for key in body:
        if key not in fields:
            refuse(key, f"campo desconhecido; conhecidos: {', '.join(fields)}")
    return body


def integer(body: dict[str, Any], key: str, least: int, most: int) -> int | None:
    """An integer within these bounds, or None if the field is missing or null. Raises 422 otherwise."""
    value = body.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        refuse(key, f"número inteiro de {least} a {most}")
    return value


def word(body: dict[str, Any], key: str, allowed: Collection[str], *, required: bool = False) -> str | None:
    """One of the `allowed` words, or None if the field is missing or null and not `required`. Raises 422 otherwise."""
    value = body.get(key)
    if value is None and not required:
        return None
    if not isinstance(value, str) or value not in allowed:
        refuse(key, f"um de: {', '.join(sorted(allowed))}")
    return value


def sentence(body: dict[str, Any], key: str, longest: int) -> str | None:
    """Text of 1 to `longest` printable characters, or None where the field is absent or null. Else 422."""
    value = body.get(key)
    if value is None:
        return None
    if not isinstance(value, str) or not value.strip() or len(value) > longest or not value.isprintable():
        refuse(key, f"texto de 1 a {longest} caracteres")
    return value


def _error(kind: type[web.HTTPException], payload: dict[str, Any]) -> web.HTTPException:
    return kind(body=answer(payload).body, content_type="application/json")
