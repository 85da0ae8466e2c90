"""Requests over connections that are kept open and checked before each use."""

from __future__ import annotations

import re
import ssl
import threading
import time
import weakref
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple
from weakref import WeakValueDictionary

from foundation.http.connection import IDLE_S, Connection, Origin, Session, opened
from foundation.http.errors import Broken, Malformed, TooLarge
from foundation.http.response import Response
from foundation.http.way import PORTS, Way, host_of, parsed

_TARGET = re.compile(r"/[!-~]*")
_UNFIT = re.compile(r"[\r\n\0]")
_BODYLESS = ("GET", "HEAD", "DELETE")


@dataclass(frozen=True)
class Request:
    """A request to `path` below a base address, or to that address if `path` is empty. `safe` means that the caller may
    send it again if the connection breaks before an answer."""

    method: str
    path: str
    body: bytes = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    safe: bool = False


def request(call: Request, url: str, way: Way, *, end: float, connect_s: float) -> Exchange:
    """Send `call` to the base address `url`. Head and body go out in one write.

    Raises NeverSent, also if no connection could be made within `connect_s` seconds; TimeoutError at `end` (monotonic
    seconds); Broken; and ValueError for a path or a header that cannot be sent.
    """
    route = _route(url, way)
    message = _message(call, route.host, route.path + call.path if call.path else route.target)
    return route.pool.request(message, connect_s=connect_s, end=end)


def _message(call: Request, host: str, target: str) -> bytes:
    lines = [f"{call.method} {target} HTTP/1.1", f"Host: {host}"]
    lines += [f"{name}: {value}" for name, value in call.headers.items()]
    if call.body or call.method not in _BODYLESS:
        lines.append(f"Content-Length: {len(call.body)}")
    if not _TARGET.fullmatch(target) or _UNFIT.search("".join(lines)):
        raise ValueError("a path or a header that can't be sent")
    return "\r\n".join((*lines, "", "")).encode("latin-1") + call.body


class Exchange:
    """A response whose head has been read. The connection returns to the pool once all of the body has."""

    def __init__(self, pool: Pool, connection: Connection, response: Response, end: float) -> None:
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
            while response.fault is None and response.size <= most and not response.is_complete:
                response.feed(self._connection.receive(self._end))
            if response.size > most:
                raise TooLarge
            if response.fault is not None:
                raise response.fault
        except BaseException:
            self._connection.close()
            raise
        if response.is_last:
            self._connection.close()
        else:
            self._pool.give_back(self._connection)
        return self.received

    @property
    def received(self) -> bytes:
        return b"".join(self._response.body)

    def drop(self) -> None:
        """Leave the body unread and close the connection."""
        self._connection.close()


class Pool:
    """The connections to one origin by one way. The connection used last is taken first, so that surplus connections
    become idle and are closed."""

    def __init__(self, origin: Origin, way: Way) -> None:
        self._origin = origin
        self._way = way
        self._session: Session | None = None
        self._idle: deque[Connection] = deque()
        self._lock = threading.Lock()
        weakref.finalize(self, _close_all, self._idle)

    def request(self, message: bytes, *, connect_s: float, end: float) -> Exchange:
        """Send `message`, a whole request, and read the head of its response. See `request` above."""
        connection = self._taken()
        was_kept = connection is not None
        if connection is None:
            _close_idle()
            connection = opened(self._origin, self._way, self._session, min(time.monotonic() + connect_s, end))
        response = Response()
        try:
            connection.send(message, end)
            while not response.has_head:
                response.feed(connection.receive(end))
        except BaseException as fault:
            connection.close()
            if isinstance(fault, (OSError, Malformed)) and not isinstance(fault, TimeoutError):
                raise Broken(fault, was_kept=was_kept) from None
            raise
        return Exchange(self, connection, response, end)

    def give_back(self, connection: Connection) -> None:
        if connection.used_at == 0.0 and isinstance(connection.sock, ssl.SSLSocket):
            # Python copies the session, certificates included, so only once.
            self._session = connection.sock.context, connection.sock.session
        connection.used_at = time.monotonic()
        self._idle.append(connection)
        self.close_idle(connection.used_at - IDLE_S)

    def close_idle(self, since: float) -> None:
        """Close the connections that were not used since `since` (monotonic seconds), and those in excess."""
        surplus = []
        with self._lock:
            while self._idle and (len(self._idle) > self._way.most_idle or self._idle[0].used_at < since):
                surplus.append(self._idle.popleft())
        for each in surplus:
            each.close()

    def _taken(self) -> Connection | None:
        """An idle connection that is still usable, or None."""
        while True:
            with self._lock:
                if not self._idle:
                    return None
                connection = self._idle.pop()
            if connection.is_usable():
                return connection
            connection.close()


_pools: WeakValueDictionary[tuple[Origin, Way], Pool] = WeakValueDictionary()
_lock = threading.Lock()


class _Route(NamedTuple):
    """Where a base address leads. `path` begins the targets of requests below it; `target` is the address itself."""

    pool: Pool
    host: str
    path: str
    target: str


@lru_cache(maxsize=1024)
def _route(url: str, way: Way) -> _Route:
    """The route to `url` by `way`. The pool is forgotten with its last route. Raises NeverSent."""
    parts = parsed(url)
    way.rules.check(parts)
    scheme = parts.scheme or ""
    origin = Origin(scheme, host_of(parts), parts.port or PORTS[scheme])
    with _lock:
        pool = _pools.setdefault((origin, way), Pool(origin, way))
    return _Route(pool, parts.netloc or "", (parts.path or "").rstrip("/"), parts.request_uri)


def _close_idle() -> None:
    """Close idle connections of all pools, so that a receiver that is called no more leaves none open."""
    with _lock:
        pools = list(_pools.values())
    for pool in pools:
        pool.close_idle(time.monotonic() - IDLE_S)


def _close_all(connections: deque[Connection]) -> None:
    while connections:
        connections.pop().close()
