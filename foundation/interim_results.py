"""Results of a running request, encrypted in Redis until they are stored in the database, for every process to read.

If a worker dies, its results so far are still here. If Redis is lost, only this copy is lost: the living worker stores
its results itself.
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

#: How long results are kept after the last of them arrived, in seconds, if nobody could store them because the database
#: was unavailable.
_TTL_S = 900


def keep(request: str, landed: Mapping[str, Any], patience_s: float, tell: str | None = None) -> None:
    """From a worker: keep the results `landed` of `request`, by name, each anything that msgspec encodes. Each is also
    sent as an ANSWER to the request that waits at the address `tell`.

    Repeated for up to `patience_s` seconds while Redis is unavailable. Raises RedisError.
    """
    sealed = {name: seal(msgspec.json.encode(payload), request.encode()) for name, payload in landed.items()}
    commands: list[tuple[Any, ...]] = []
    if tell is not None:
        answer = replies.ANSWER
        commands += [replies.message(tell, request, answer, landed[name], each) for name, each in sealed.items()]
    commands.append(("HSET", _key(request), *(part for field in sealed.items() for part in field)))
    commands.append(("EXPIRE", _key(request), _TTL_S))
    sending.send(*commands, patience_s=patience_s)


def read(request: str, names: Iterable[str] | None = None) -> dict[str, bytes]:
    """The kept results of `request` by name, as JSON: all of them, or those in `names`. Raises RedisError."""
    if names is None:
        values_by_name: dict[bytes, bytes] = redis().hgetall(_key(request))  # type: ignore[assignment]
    else:
        fields = sorted(names)
        values: Any = redis().hmget(_key(request), fields) if fields else []
        values_by_name = {name.encode(): value for name, value in zip(fields, values, strict=True) if value is not None}
    opened: dict[str, bytes] = {}
    for name, sealed in values_by_name.items():
        try:
            opened[name.decode()] = unseal(sealed, request.encode())
        except WrongKey:
            log.error("kept_results_unreadable")
    return opened


def names(request: str) -> set[str]:
    """The names of the kept results of `request`. Raises RedisError."""
    keys: Any = redis().hkeys(_key(request))
    return {name.decode() for name in keys}


def end(request: str, tell: str, payload: Any, patience_s: float) -> None:
    """From a worker: delete the kept results of `request`, which are stored in the database now, and send an END with
    `payload` to the request that waits at the address `tell`.

    Repeated for up to `patience_s` seconds while Redis is unavailable. Raises RedisError.
    """
    commands: list[tuple[Any, ...]] = [("DEL", _key(request))]
    if replies.knows_end(tell):
        commands.append(replies.message(tell, request, replies.END, payload))
    sending.send(*commands, patience_s=patience_s)


def _key(request: str) -> str:
    return f"kept:{request}"
