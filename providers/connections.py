"""Connections to a bank, on http.client: kept open, looked at before each use, and read under one absolute deadline.

`providers/http.py` uses them and turns what goes wrong into the errors of `providers.errors`.
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

#: A connection that was not used for so long is closed.
IDLE_S = 60.0
_PORTS = {"http": 80, "https": 443}
_CHUNK = 65536
#: Answers to one request that are looked at: interim ones (1xx) and the final one.
_MOST_INTERIM = 10
_TARGET = re.compile(r"/[!-~]*")
_UNFIT = re.compile(r"[\r\n\0]")
_BODYLESS = ("GET", "HEAD", "DELETE")


class NeverSent(Exception):
    """No connection was made, so nothing of the request has reached the bank."""


class TooLarge(Exception):
    """The body is larger than the caller takes."""


class _Raw(io.RawIOBase):
    """The bytes of a socket until a moment that the caller sets: each read waits for no longer than is left."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self.end = 0.0
        self.is_looking = False
        self.has_ended = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        """Raises TimeoutError when the moment has come."""
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
    """Lasts as long as its connection. http.client closes what it reads from after each response."""

    def close(self) -> None:
        pass

    def makefile(self, mode: str) -> _Reader:
        """What http.client asks a socket for."""
        return self


class _Connection:
    """One connection to a bank."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.used_at = 0.0
        self._raw = _Raw(sock)
        self._reader = _Reader(self._raw, _CHUNK)

    def is_usable(self) -> bool:
        """False where the bank closed the connection, or sent what nobody asked for."""
        self._raw.is_looking = True
        try:
            return not self._reader.peek(1) and not self._raw.has_ended
        except (OSError, ValueError):
            return False
        finally:
            self._raw.is_looking = False

    def exchange(self, method: str, message: bytes, end: float) -> HTTPResponse:
        """Send `message`; the response, of which the head has been read."""
        self._raw.end = end
        self.sock.settimeout(_left(end))
        self.sock.sendall(message)
        for _ in range(_MOST_INTERIM):
            response = HTTPResponse(self._reader, method=method)  # type: ignore[arg-type]  # it only needs makefile()
            response.begin()
            if self._raw.has_ended:  # http.client takes what there is of a head for all of it
                raise RemoteDisconnected("the head breaks off")
            # RFC 9110, 15.2: the answer comes after any number of interim ones, of which http.client knows 100 alone.
            if response.status >= HTTPStatus.OK:
                return response
            if response.status == HTTPStatus.SWITCHING_PROTOCOLS:
                break
        raise BadStatusLine("no final answer")

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.sock.close()


class Exchange:
    """A response whose head is there. Its connection is kept once the body has been read completely."""

    def __init__(self, pool: Pool, connection: _Connection, response: HTTPResponse) -> None:
        self.status = response.status
        self.headers = response.headers
        self._pool = pool
        self._connection = connection
        self._response = response

    def read(self, most: int) -> bytes:
        """The body. Raises TooLarge beyond `most` bytes, TimeoutError, OSError or HTTPException."""
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
        """Leave the body unread."""
        self._connection.close()

    def _whole_body(self, most: int) -> bytes:
        chunks: list[bytes] = []
        size = 0
        while chunk := self._response.read1(_CHUNK):
            size += len(chunk)
            if size > most:
                raise TooLarge
            chunks.append(chunk)
        if self._response.length:  # http.client takes an early end for the end
            raise IncompleteRead(b"", self._response.length)
        return b"".join(chunks)


class Pool:
    """The connections to one address. The one that was used last is taken first, so that those beyond need grow old."""

    def __init__(self, base_url: str, most: int) -> None:
        """`most` connections are kept at most. No proxy or netrc setting of the machine is read."""
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
        """Send a request below the base address; its head and body go out in one write.

        Raises NeverSent where no connection could be made within `connect_s` seconds; after that TimeoutError at `end`
        (monotonic seconds), OSError or HTTPException; ValueError for a path or a header that can't be sent.
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
        """Keep `connection` for a later request, and close what was not used for long."""
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
        """Close the connections that are kept."""
        _close_all(self._idle)

    def _taken(self) -> _Connection | None:
        """A kept connection that is still good."""
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
        except OSError as fault:  # a certificate that is not good is one, too
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
    """Certificates and names are verified, by the authorities that the machine trusts."""
    return ssl.create_default_context()


def _left(end: float) -> float:
    """Seconds until `end`. Raises TimeoutError when it has come: a socket's time-out of 0 would mean not to wait."""
    left = end - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left
