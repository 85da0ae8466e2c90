"""Checks of a bank's signed callback: the signature, the age and the body."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import msgspec

from foundation.errors import Unauthorized

T = TypeVar("T")

#: An older callback is refused, even if its signature is right.
MAX_AGE = timedelta(seconds=300)


def read(
    body: bytes, shape: type[T], *, secret: str, expected: bytes, signature: str, sent_at: Callable[[], datetime]
) -> T:
    """Read the JSON body of a callback as `shape`, if its `signature` equals `expected`.

    `sent_at` returns the time at which the bank signed the callback; it may raise ValueError. A time later than our
    clock is accepted, because clocks differ. Raises Unauthorized, also if `secret` is empty.
    """
    refused = Unauthorized("Assinatura do aviso do banco inválida.")
    if not secret or not hmac.compare_digest(expected, signature.encode()):
        raise refused
    try:
        age = datetime.now(UTC) - sent_at()
        callback = msgspec.json.decode(body, type=shape)
    except (ValueError, TypeError, OverflowError):  # TypeError: a time without an offset
        raise refused from None
    if age > MAX_AGE:
        raise refused
    return callback
