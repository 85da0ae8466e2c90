"""What can go wrong with a request, and whether the receiver may have it."""

from __future__ import annotations

import ssl
import time
from enum import StrEnum


class Why(StrEnum):
    URL = "url"
    BLOCKED = "blocked"
    DNS = "dns"
    TIMEOUT = "timeout"
    REFUSED = "refused"
    CONNECTION = "connection"
    TLS = "tls"
    PROXY = "proxy"


class NeverSent(Exception):
    """No part of the request can have been worked on. `detail` is for operators: what TLS says, or a proxy's status.
    It holds no personal data and no secrets."""

    def __init__(self, why: Why, detail: str = "") -> None:
        super().__init__(why.value)
        self.why = why
        self.detail = detail

    @classmethod
    def by(cls, fault: OSError) -> NeverSent:
        """The error for a connection that failed with `fault`."""
        if isinstance(fault, ssl.SSLError) and not isinstance(fault, TimeoutError):
            return cls(Why.TLS, getattr(fault, "verify_message", "") or fault.reason or "")
        if isinstance(fault, TimeoutError):
            return cls(Why.TIMEOUT)
        return cls(Why.REFUSED if isinstance(fault, ConnectionRefusedError) else Why.CONNECTION)


class Broken(Exception):
    """The connection broke before an answer. The receiver may have the request. `was_kept` is True if the connection
    had served an earlier request."""

    def __init__(self, fault: Exception, *, was_kept: bool) -> None:
        super().__init__(type(fault).__name__)
        self.fault = fault
        self.was_kept = was_kept


class TooLarge(Exception):
    """The body is larger than the caller's limit."""


class Malformed(Exception):
    """The response is not valid HTTP, or breaks off."""


def left(end: float) -> float:
    """Seconds until `end` (monotonic seconds). Raises TimeoutError after it: a socket time-out of 0 does not wait."""
    seconds = end - time.monotonic()
    if seconds <= 0:
        raise TimeoutError
    return seconds
