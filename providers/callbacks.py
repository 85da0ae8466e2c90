"""Checks of a bank's signed callback: the signature, the age and the body."""

import hmac
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import msgspec

from foundation.errors import Unauthorized

T = TypeVar("T")

#: An older callback is refused, even if its signature is right.
MAX_AGE = timedelta(seconds=300)


def check(secret: str, expected: bytes, signature: str) -> None:
    """Raises Unauthorized if the `signature` of a callback is not the `expected` one, or `secret` is empty."""
    if not secret or not hmac.compare_digest(expected, signature.encode()):
        raise _refused()


def read(body: bytes, shape: type[T], sent_at: Callable[[], datetime]) -> T:
    """Read the JSON body of a callback, whose signature was checked, as `shape`.

    `sent_at` returns the time at which the bank signed the callback; it may raise ValueError. A time later than our
    clock is accepted, because clocks differ. Raises Unauthorized for an old callback and one that is no such JSON.
    """
    try:
        age = datetime.now(UTC) - sent_at()
        callback = msgspec.json.decode(body, type=shape)
    except (ValueError, TypeError, OverflowError):  # TypeError: a time without an offset
        raise _refused() from None
    if age > MAX_AGE:
        raise _refused()
    return callback


def _refused() -> Unauthorized:
    return Unauthorized("Assinatura do aviso do banco inválida.")
