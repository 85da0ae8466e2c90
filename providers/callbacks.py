"""Reading a bank's signed callback: the comparison of the signature, the age, and the body."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import msgspec

from foundation.errors import Unauthorized

T = TypeVar("T")

#: A callback that is older is refused, signed or not.
MAX_AGE = timedelta(seconds=300)


def read(body: bytes, shape: type[T], *, secret: str, expected: bytes, told: str, sent_at: Callable[[], datetime]) -> T:
    """The JSON body of a callback whose signature `told` is the `expected` one.

    `sent_at` reads the moment that the bank signed with the body; it may raise ValueError. A moment ahead of our clock
    is accepted, since it says only that the clocks differ. Raises Unauthorized, also where `secret` is empty.
    """
    refused = Unauthorized("Assinatura do aviso do banco inválida.")
    if not secret or not hmac.compare_digest(expected, told.encode()):
        raise refused
    try:
        age = datetime.now(UTC) - sent_at()
        found = msgspec.json.decode(body, type=shape)
    except (ValueError, TypeError, OverflowError):  # TypeError: a moment without an offset
        raise refused from None
    if age > MAX_AGE:
        raise refused
    return found
