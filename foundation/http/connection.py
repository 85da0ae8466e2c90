"""One connection to a receiver: how it is opened, and its reads and writes until a deadline."""

import contextlib
import socket
import ssl
import time
from base64 import b64encode
from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import gevent
from gevent.monkey import is_module_patched

from foundation.http.errors import Malformed, NeverSent, Why, left
from foundation.http.response import Response
from foundation.http.way import PORTS, Rules, Way
from foundation.sockets import watched

#: A TLS session, and the context by which it was opened. Another context cannot resume it.
Session = tuple[ssl.SSLContext, ssl.SSLSession | None]

#: A connection that was idle for longer is closed.
IDLE_S = 60.0
#: An older connection is not used again, so that a name that leads elsewhere now is followed.
_OLDEST_S = 600.0
_CHUNK = 16384  # of TLS, a whole record
#: Alerts by which a TLS 1.3 server ends the handshake (RFC 8446, 6.2). The client has finished its own part by then,
#: and may have sent the request. The server has not, so that it cannot have decrypted the request.
_HANDSHAKE_ALERTS = (
    "ALERT_HANDSHAKE_FAILURE",
    "ALERT_BAD_CERTIFICATE",
    "ALERT_UNSUPPORTED_CERTIFICATE",
    "ALERT_CERTIFICATE_REVOKED",
    "ALERT_CERTIFICATE_EXPIRED",
    "ALERT_CERTIFICATE_UNKNOWN",
    "ALERT_UNKNOWN_CA",
    "ALERT_ACCESS_DENIED",
    "ALERT_DECRYPT_ERROR",
    "ALERT_CERTIFICATE_REQUIRED",
)


class Origin(NamedTuple):
    """Where a URL leads: scheme, host (without brackets) and port."""

    scheme: str
    host: str
    port: int


class Connection:
    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.used_at = 0.0
        self._has_something_to_read = watched(sock.fileno())
        self._too_old_at = time.monotonic() + _OLDEST_S
        # A read of TLS before there are bytes fails, which costs a sixth of a call: gevent's event loop tells when they
        # have come. TLS holds none back, because each read takes a whole record.
        is_watched = isinstance(sock, ssl.SSLSocket) and is_module_patched("socket")
        self._readable: Any = gevent.get_hub().loop.io(sock.fileno(), 1) if is_watched else None
        # The server's part of a TLS 1.3 handshake may still be under way.
        self._is_shaking_hands = isinstance(sock, ssl.SSLSocket) and sock.version() == "TLSv1.3"

    def is_usable(self) -> bool:
        """False if the connection is old, or the other side closed it or sent bytes that no request asked for."""
        if time.monotonic() > self._too_old_at:
            return False
        if not self._has_something_to_read():
            return True  # TLS holds nothing back either: each read takes a whole record
        self.sock.settimeout(0)
        try:
            self.sock.recv(1)  # of TLS there may be a message that is no data
        except (BlockingIOError, ssl.SSLWantReadError):
            return True
        except (OSError, ValueError):
            return False
        return False

    def send(self, message: bytes, end: float) -> None:
        """Send `message`. Raises TimeoutError at `end`, NeverSent, and OSError."""
        self.sock.settimeout(left(end))
        try:
            sent = self.sock.send(message)  # nearly always all of it, for less than `sendall` costs
            if sent < len(message):
                self.sock.sendall(message[sent:])
        except TimeoutError:
            raise
        except OSError:
            self.receive(end)  # raises NeverSent if the server ended the handshake before it closed the connection
            raise

    def receive(self, end: float) -> bytes:
        """The next bytes, empty if the other side closed the connection. Raises TimeoutError at `end`, OSError, and
        NeverSent if a TLS 1.3 server ends the handshake, for instance because it refuses our certificate."""
        self.sock.settimeout(left(end))
        try:
            if self._readable is not None:
                with gevent.Timeout(left(end), TimeoutError):
                    gevent.get_hub().wait(self._readable)
            data = self.sock.recv(_CHUNK)
        except ssl.SSLError as fault:
            if self._is_shaking_hands and (fault.reason or "").endswith(_HANDSHAKE_ALERTS):
                raise NeverSent.by(fault) from None
            raise
        self._is_shaking_hands = False
        return data

    def close(self) -> None:
        if self._readable is not None:
            self._readable.close()
        with contextlib.suppress(OSError):
            self.sock.close()


def opened(origin: Origin, way: Way, earlier: Session | None, end: float) -> Connection:
    """A new connection, opened before `end` (monotonic seconds). `earlier` is a TLS session with the origin, which is
    resumed if its context is still the way's. Raises NeverSent."""
    try:
        if way.proxy:
            sock = _tunnel(origin, way.proxy, end)
        else:
            sock = _connected(way.rules.addresses(origin.host, origin.port, left(end)), origin.port, end)
        if origin.scheme == "https":
            tls = way.tls()
            session = earlier[1] if earlier is not None and earlier[0] is tls else None
            sock = _secured(sock, tls, origin.host, session, end)
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


def _tunnel(origin: Origin, proxy: str, end: float) -> socket.socket:
    """A tunnel to `origin` through `proxy`, which alone has been spoken to. Raises NeverSent."""
    parts = urlsplit(proxy)
    host, port = parts.hostname or "", parts.port or PORTS["http"]
    try:
        sock = _connected(Rules(private_hosts=None).addresses(host, port, left(end)), port, end)
        try:
            _open_tunnel(Connection(sock), origin, parts.netloc.rpartition("@")[0], end)
        except BaseException:
            sock.close()
            raise
    except Malformed:
        raise NeverSent(Why.PROXY, "malformed") from None
    except OSError as fault:
        raise NeverSent(Why.PROXY, NeverSent.by(fault).why) from None
    return sock


def _open_tunnel(connection: Connection, origin: Origin, user: str, end: float) -> None:
    """Ask a proxy for a tunnel. `user` is name and password as in a URL. Raises NeverSent, OSError, Malformed."""
    host = f"[{origin.host}]" if ":" in origin.host else origin.host
    lines = [f"CONNECT {host}:{origin.port} HTTP/1.1", f"Host: {host}:{origin.port}"]
    if user:
        lines.append(f"Proxy-Authorization: Basic {b64encode(unquote(user).encode()).decode()}")
    connection.send("\r\n".join((*lines, "", "")).encode(), end)
    response = Response()
    while not response.has_head:
        response.feed(connection.receive(end))
    if not 200 <= response.status < 300 or response.size:
        raise NeverSent(Why.PROXY, str(response.status))


def _secured(
    sock: socket.socket, tls: ssl.SSLContext, host: str, session: ssl.SSLSession | None, end: float
) -> ssl.SSLSocket:
    """`sock` with TLS. SNI and the check of the certificate use the name `host`. Raises OSError."""
    try:
        sock.settimeout(left(end))
        return tls.wrap_socket(sock, server_hostname=host, session=session)
    except BaseException:
        sock.close()
        raise
