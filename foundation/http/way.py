"""The way to a receiver: which addresses may be called, and by what TLS."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from functools import lru_cache

from foundation.http.addresses import Rules


@dataclass(frozen=True)
class Way:
    """How requests reach a receiver. Requests of different ways never share a connection.

    At most `most_idle` idle connections to an origin are kept.
    """

    rules: Rules
    most_idle: int = 8


@lru_cache(maxsize=1)
def tls() -> ssl.SSLContext:
    """A TLS context that verifies certificates and host names with the machine's certificate authorities."""
    return ssl.create_default_context()
