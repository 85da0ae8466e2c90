"""One connection to a receiver: how it is opened, and its reads and writes until a deadline."""

from __future__ import annotations

import contextlib
import socket
import ssl
import time
from collections.abc import Sequence
from typing import NamedTuple

from foundation.http.errors import NeverSent, left
from foundation.http.way import Way, tls

#: A connection that was idle for longer is closed.
IDLE_S = 60.0
#: An older connection is not used again, so that a name that leads elsewhere now is followed.
_OLDEST_S = 600.0
_CHUNK = 65536


class Origin(NamedTuple):
    """Where a URL leads: scheme, host (without brackets) and port."""

    scheme: str
    host: str
    port: int


class Connection:
    """One open connection."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.used_at = 0.0
        self._too_old_at = time.monotonic() + _OLDEST_S

    def is_usable(self) -> bool:
        """False if the connection is old, or the other side closed it or sent bytes that no request asked for."""
        if time.monotonic() > self._too_old_at:
            return False
        self.sock.settimeout(0)
        try:
            self.sock.recv(1)
        except (BlockingIOError, ssl.SSLWantReadError):
            return True
        except (OSError, ValueError):
            return False
        return False

    def send(self, message: bytes, end: float) -> None:
        """Send `message`. Raises TimeoutError at `end`, and OSError."""
        self.sock.settimeout(left(end))
        self.sock.sendall(message)

    def receive(self, end: float) -> bytes:
        """The next bytes, empty if the other side closed the connection. Raises TimeoutError at `end`, and OSError."""
        self.sock.settimeout(left(end))
        return self.sock.recv(_CHUNK)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.sock.close()


def opened(origin: Origin, way: Way, session: ssl.SSLSession | None, end: float) -> Connection:
    """A new connection, opened before `end` (monotonic seconds). `session` is an earlier TLS session with the origin.
    Raises NeverSent."""
    try:
        sock = _connected(way.rules.addresses(origin.host, origin.port, left(end)), origin.port, end)
        if origin.scheme == "https":
            sock = _secured(sock, origin.host, session, end)
    except OSError as fault:  # an invalid certificate is an OSError, too
        raise NeverSent.by(fault) from fault
    return Connection(sock)


def _connected(addresses: Sequence[str], port: int, end: float) -> socket.socket:
    """A connection to the first address that accepts one. The time is shared among them. Raises OSError."""
    for untried in range(len(addresses), 0, -1):
        try:
            sock = socket.create_connection((addresses[-untried], port), left(end) / untried)
        except OSError:
            if untried == 1:
                raise
        else:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return sock
    raise OSError  # getaddrinfo returns at least one address


def _secured(sock: socket.socket, host: str, session: ssl.SSLSession | None, end: float) -> ssl.SSLSocket:
    """`sock` with TLS. SNI and the check of the certificate use the name `host`. Raises OSError."""
    try:
        sock.settimeout(left(end))
        return tls().wrap_socket(sock, server_hostname=host, session=session)
    except BaseException:
        sock.close()
        raise
