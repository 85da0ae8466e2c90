"""Connections to a bank, built on http.client. They are kept open, checked before each use, and read under one absolute
deadline.

`providers/http.py` uses them and turns their exceptions into the errors of `providers.errors`.
"""

from __future__ import annotations

import contextlib
import io
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
from http.client import BadStatusLine, HTTPResponse, IncompleteRead, RemoteDisconnected
from typing import Any
from urllib.parse import urlsplit

#: A connection that was idle for longer is closed.
IDLE_S = 60.0
_PORTS = {"http": 80, "https": 443}
_CHUNK = 65536
#: How many responses to one request are read: interim ones (1xx) and the final one.
_MOST_INTERIM = 10
_TARGET = re.compile(r"/[!-~]*")
_UNFIT = re.compile(r"[\r\n\0]")
_BODYLESS = ("GET", "HEAD", "DELETE")


class NeverSent(Exception):
    """No connection was made, so no part of the request reached the bank."""


class TooLarge(Exception):
    """The body is larger than the caller's limit."""


class _Raw(io.RawIOBase):
    """A socket's bytes, read until the time `end`: no read waits longer than the time that is left."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self.end = 0.0
        self.is_looking = False
        self.has_ended = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        """Read into `buffer` and return the number of bytes. Raises TimeoutError at `end`."""
        if self.is_looking:
            self._sock.settimeout(0)
            try:
                count = self._sock.recv_into(buffer)
            except (BlockingIOError, ssl.SSLWantReadError):
                return None
        else:
            self._sock.settimeout(_left(self.end))
            count = self._sock.recv_into(buffer)
        self.has_ended = self.has_ended or count == 0
        return count


class _Reader(io.BufferedReader):
    """A reader that stays open for its connection's next response. http.client closes its reader after each
    response."""

    def close(self) -> None:
        pass

    def makefile(self, mode: str) -> _Reader:
        """http.client calls this on a socket."""
        return self


class _Connection:
    """One connection to a bank."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.used_at = 0.0
        self._raw = _Raw(sock)
        self._reader = _Reader(self._raw, _CHUNK)

    def is_usable(self) -> bool:
        """False if the bank closed the connection or sent bytes that no request asked for."""
        self._raw.is_looking = True
        try:
            return not self._reader.peek(1) and not self._raw.has_ended
        except (OSError, ValueError):
            return False
        finally:
            self._raw.is_looking = False

    def exchange(self, method: str, message: bytes, end: float) -> HTTPResponse:
        """Send `message` and return the response, of which only the head has been read."""
        self._raw.end = end
        self.sock.settimeout(_left(end))
        self.sock.sendall(message)
        for _ in range(_MOST_INTERIM):
            response = HTTPResponse(self._reader, method=method)  # type: ignore[arg-type]  # only makefile() is used
            response.begin()
            if self._raw.has_ended:  # http.client takes a head that breaks off for a complete one
                raise RemoteDisconnected("the head breaks off")
            # RFC 9110, 15.2: any number of interim responses may come before the final one. http.client skips only
            # status 100.
            if response.status >= HTTPStatus.OK:
                return response
            if response.status == HTTPStatus.SWITCHING_PROTOCOLS:
                break
        raise BadStatusLine("no final answer")

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.sock.close()


class Exchange:
    """A response whose head has been read. The connection returns to the pool once the body has been read
    completely."""

    def __init__(self, pool: Pool, connection: _Connection, response: HTTPResponse) -> None:
        self.status = response.status
        self.headers = response.headers
        self._pool = pool
        self._connection = connection
        self._response = response

    def read(self, most: int) -> bytes:
        """Read the body. Raises TooLarge beyond `most` bytes, and TimeoutError, OSError or HTTPException."""
        try:
            body = self._whole_body(most)
        except BaseException:
            self._connection.close()
            raise
        if self._response.will_close:
            self._connection.close()
        else:
            self._pool.give_back(self._connection)
        return body

    def drop(self) -> None:
        """Leave the body unread and close the connection."""
        self._connection.close()

    def _whole_body(self, most: int) -> bytes:
        chunks: list[bytes] = []
        size = 0
        while chunk := self._response.read1(_CHUNK):
            size += len(chunk)
            if size > most:
                raise TooLarge
            chunks.append(chunk)
        if self._response.length:  # http.client takes an early end of the connection for the end of the body
            raise IncompleteRead(b"", self._response.length)
        return b"".join(chunks)


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
        seconds); OSError or HTTPException; and ValueError for a path or a header that cannot be sent.
        """
        message = self._message(method, path, body, headers)
        connection = self._taken() or self._opened(min(connect_s, _left(end)))
        try:
            response = connection.exchange(method, message, end)
        except BaseException:
            connection.close()
            raise
        return Exchange(self, connection, response)

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
