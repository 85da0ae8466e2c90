"""What has landed of a request that is under way, for every process to read: sealed, in Redis, until it is stored.

A worker that dies leaves here what it had found. A lost Redis costs a copy: the worker that found it stores it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import structlog

from foundation import replies, sending
from foundation.encryption import WrongKey
from foundation.redis import redis
from foundation.sealing import seal, unseal

log = structlog.get_logger(__name__)

#: What nobody could store, as the database was away, is kept for so long after the last of it landed.
_TTL_S = 900


def keep(request: str, landed: Mapping[str, Any], patience_s: float, tell: str | None = None) -> None:
    """From a worker: keep what has `landed` for `request`, by name anything that msgspec encodes. The request that
    waits at the address `tell` gets each as an ANSWER too.

    While Redis is away it is tried again for `patience_s` seconds. Raises RedisError.
    """
    sealed = {name: seal(msgspec.json.encode(payload), request.encode()) for name, payload in landed.items()}
    commands: list[tuple[Any, ...]] = []
    if tell is not None:
        answer = replies.ANSWER
        commands += [replies.message(tell, request, answer, landed[name], each) for name, each in sealed.items()]
    commands.append(("HSET", _key(request), *(part for field in sealed.items() for part in field)))
    commands.append(("EXPIRE", _key(request), _TTL_S))
    sending.send(*commands, patience_s=patience_s)


def kept(request: str, names: Iterable[str] | None = None) -> dict[str, bytes]:
    """What has landed for `request` by name, as JSON: all of it, or that of `names`. Raises RedisError."""
    if names is None:
        found: dict[bytes, bytes] = redis().hgetall(_key(request))  # type: ignore[assignment]
    else:
        wanted = sorted(names)
        values: Any = redis().hmget(_key(request), wanted) if wanted else []
        found = {name.encode(): value for name, value in zip(wanted, values, strict=True) if value is not None}
    opened: dict[str, bytes] = {}
    for name, sealed in found.items():
        try:
            opened[name.decode()] = unseal(sealed, request.encode())
        except WrongKey:
            log.error("kept_unreadable")
    return opened


def kept_names(request: str) -> set[str]:
    """The names of what has landed for `request`. Raises RedisError."""
    found: Any = redis().hkeys(_key(request))
    return {name.decode() for name in found}


def end(request: str, tell: str, payload: Any, patience_s: float) -> None:
    """From a worker: forget what has landed for `request`, since it is stored now, and send an END with `payload` to
    the request that waits at the address `tell`.

    While Redis is away it is tried again for `patience_s` seconds. Raises RedisError.
    """
    commands: list[tuple[Any, ...]] = [("DEL", _key(request))]
    if replies.knows_end(tell):
        commands.append(replies.message(tell, request, replies.END, payload))
    sending.send(*commands, patience_s=patience_s)


def _key(request: str) -> str:
    return f"kept:{request}"
