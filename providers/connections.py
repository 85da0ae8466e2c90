"""Connections to a bank. They are kept open, checked before each use, and read under one absolute deadline. httptools
parses the responses.

`providers/http.py` uses them and turns their exceptions into the errors of `providers.errors`.
"""

from __future__ import annotations

import contextlib
import re
import socket
import ssl
import threading
import time
import weakref
from collections import deque
from collections.abc import Mapping
from functools import lru_cache
from http import HTTPStatus
from urllib.parse import urlsplit

from httptools import HttpParserError, HttpResponseParser
from urllib3 import HTTPHeaderDict

#: A connection that was idle for longer is closed.
IDLE_S = 60.0
_PORTS = {"http": 80, "https": 443}
_CHUNK = 65536
#: The most bytes of a response, besides its body. A chunk of one byte takes six bytes more, so a body adds to them.
_MOST_AROUND = 65536
_AROUND_A_BYTE = 8
#: After this many interim responses (1xx) no final one is awaited.
_MOST_INTERIM = 10
_TARGET = re.compile(r"/[!-~]*")
_UNFIT = re.compile(r"[\r\n\0]")
_BODYLESS = ("GET", "HEAD", "DELETE")


class NeverSent(Exception):
    """No connection was made, so no part of the request reached the bank."""


class TooLarge(Exception):
    """The body is larger than the caller's limit."""


class Malformed(Exception):
    """The bank's response is not valid HTTP, or breaks off."""


class _Connection:
    """One connection to a bank."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.used_at = 0.0

    def is_usable(self) -> bool:
        """False if the bank closed the connection or sent bytes that no request asked for."""
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
        self.sock.settimeout(_left(end))
        self.sock.sendall(message)

    def receive(self, end: float) -> bytes:
        """The next bytes, empty if the bank closed the connection. Raises TimeoutError at `end`, and OSError."""
        self.sock.settimeout(_left(end))
        return self.sock.recv(_CHUNK)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.sock.close()


class _Response:
    """The final response to one request. The methods `on_…` are called by the parser."""

    def __init__(self) -> None:
        self.status = 0
        self.headers = HTTPHeaderDict()
        self.body: list[bytes] = []
        self.size = 0
        self.has_head = False
        self.is_complete = False
        #: True if no other request may use the connection.
        self.is_last = True
        self._interim = 0
        self._received = 0
        self._parser: HttpResponseParser | None = HttpResponseParser(self)
        # RFC 9112, 2.2: a recipient may take a line feed alone for the end of a line.
        self._parser.set_dangerous_leniencies(lenient_optional_cr_before_lf=True)

    def feed(self, data: bytes) -> None:
        """Parse the bytes that arrived, empty at the end of the connection. Raises Malformed."""
        self._received += len(data)
        if not data:
            self._end()
        elif self._parser is not None:
            try:
                self._parser.feed_data(data)
            except HttpParserError:
                # What follows a complete response was sent without being asked for.
                if not self.is_complete:
                    raise Malformed from None
                self.is_last = True
        if self._received > _MOST_AROUND + self.size * _AROUND_A_BYTE:
            raise Malformed
        if not self.has_head and self._interim >= _MOST_INTERIM:
            raise Malformed
        if self.is_complete:
            self._parser = None  # parser and response refer to each other

    def _end(self) -> None:
        """The connection ended. That is the end of a body without a length."""
        if not self.has_head or "content-length" in self.headers or "transfer-encoding" in self.headers:
            raise Malformed
        self.is_complete = True

    def on_message_begin(self) -> None:
        if self.is_complete:
            self.is_last = True
        elif not self.has_head:
            self.headers = HTTPHeaderDict()

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self.has_head:  # not a field behind a body in chunks, or of another response
            self.headers.add(name.decode("latin-1"), value.decode("latin-1"))

    def on_headers_complete(self) -> None:
        """RFC 9110, 15.2: any number of interim responses (1xx) may come before the final one."""
        if self._parser is None or self.has_head:
            return
        self.status = self._parser.get_status_code()
        self.has_head = self.status >= HTTPStatus.OK
        self._interim += not self.has_head

    def on_body(self, data: bytes) -> None:
        if not self.is_complete:
            self.body.append(data)
            self.size += len(data)

    def on_message_complete(self) -> None:
        if self.has_head and not self.is_complete and self._parser is not None:
            self.is_complete, self.is_last = True, not self._parser.should_keep_alive()


class Exchange:
    """A response whose head has been read. The connection returns to the pool once the body has been read
    completely."""

    def __init__(self, pool: Pool, connection: _Connection, response: _Response, end: float) -> None:
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers
        self._pool = pool
        self._connection = connection
        self._response = response
        self._end = end

    def read(self, most: int) -> bytes:
        """Read the body. Raises TooLarge beyond `most` bytes, and TimeoutError, OSError or Malformed."""
        response = self._response
        try:
            while response.size <= most and not response.is_complete:
                response.feed(self._connection.receive(self._end))
            if response.size > most:
                raise TooLarge
        except BaseException:
            self._connection.close()
            raise
        if response.is_last:
            self._connection.close()
        else:
            self._pool.give_back(self._connection)
        return b"".join(response.body)

    def drop(self) -> None:
        """Leave the body unread and close the connection."""
        self._connection.close()


class Pool:
    """The connections to one address. The connection used last is taken first, so that surplus connections become idle
    and are closed."""

    def __init__(self, base_url: str, most: int) -> None:
        """Keep at most `most` idle connections. Proxy and netrc settings of the machine are ignored."""
        parts = urlsplit(base_url)
        self._path = parts.path.rstrip("/")
        self._host, self._port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
        self._tls = _tls() if parts.scheme == "https" else None
        self._session: ssl.SSLSession | None = None
        self._named = parts.netloc.rpartition("@")[2]
        self._idle: deque[_Connection] = deque()
        self._most = most
        self._lock = threading.Lock()
        weakref.finalize(self, _close_all, self._idle)

    def request(
        self, method: str, path: str, body: bytes, headers: Mapping[str, str], *, connect_s: float, end: float
    ) -> Exchange:
        """Send a request to `path` below the base address. Head and body go out in one write.

        Raises NeverSent if no connection could be made within `connect_s` seconds; TimeoutError at `end` (monotonic
        seconds); OSError or Malformed; and ValueError for a path or a header that cannot be sent.
        """
        message = self._message(method, path, body, headers)
        connection = self._taken() or self._opened(min(connect_s, _left(end)))
        response = _Response()
        try:
            connection.send(message, end)
            while not response.has_head:
                response.feed(connection.receive(end))
        except BaseException:
            connection.close()
            raise
        return Exchange(self, connection, response, end)

    def give_back(self, connection: _Connection) -> None:
        """Keep `connection` for a later request, and close connections that were idle for too long."""
        connection.used_at = time.monotonic()
        if isinstance(connection.sock, ssl.SSLSocket):
            self._session = connection.sock.session
        with self._lock:
            self._idle.append(connection)
            surplus = []
            while len(self._idle) > self._most or self._idle[0].used_at < connection.used_at - IDLE_S:
                surplus.append(self._idle.popleft())
        for each in surplus:
            each.close()

    def close(self) -> None:
        """Close the idle connections."""
        _close_all(self._idle)

    def _taken(self) -> _Connection | None:
        """An idle connection that is still usable, or None."""
        while True:
            with self._lock:
                if not self._idle:
                    return None
                connection = self._idle.pop()
            if connection.is_usable():
                return connection
            connection.close()

    def _opened(self, timeout_s: float) -> _Connection:
        end = time.monotonic() + timeout_s
        try:
            sock = socket.create_connection((self._host, self._port), timeout_s)
        except OSError as fault:
            raise NeverSent from fault
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is not None:
                sock.settimeout(_left(end))
                sock = self._tls.wrap_socket(sock, server_hostname=self._host, session=self._session)
        except OSError as fault:  # an invalid certificate is an OSError, too
            sock.close()
            raise NeverSent from fault
        except BaseException:
            sock.close()
            raise
        return _Connection(sock)

    def _message(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> bytes:
        target = self._path + path
        lines = [f"{method} {target} HTTP/1.1", f"Host: {self._named}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if body or method not in _BODYLESS:
            lines.append(f"Content-Length: {len(body)}")
        if not _TARGET.fullmatch(target) or any(map(_UNFIT.search, lines)):
            raise ValueError("a path or a header that can't be sent")
        return "\r\n".join((*lines, "", "")).encode("latin-1") + body


def _close_all(connections: deque[_Connection]) -> None:
    while connections:
        connections.pop().close()


@lru_cache(maxsize=1)
def _tls() -> ssl.SSLContext:
    """A TLS context that verifies certificates and host names with the machine's certificate authorities."""
    return ssl.create_default_context()


def _left(end: float) -> float:
    """Seconds until `end`. Raises TimeoutError once it has passed, because a socket time-out of 0 would mean "do not
    wait"."""
    left = end - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left
