"""The one HTTP seam to banks: a request goes out, its answer is read completely, or an error of
`providers.errors` says what went wrong on the way."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import urlencode, urlsplit

import msgspec
import urllib3
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    NameResolutionError,
    NewConnectionError,
    ProtocolError,
    ReadTimeoutError,
)

from providers import xml as xml_bodies
from providers.errors import BankTimedOut, ProviderError, ProviderUnavailable

T = TypeVar("T")

MAX_REPLY_BYTES = 2 * 1024 * 1024
CONNECT_TIMEOUT_S = 5.0
# Decimals leave as JSON numbers, digit for digit: no binary float ever stands between.
_encoder = msgspec.json.Encoder(decimal_format="number")


@dataclass(frozen=True)
class Reply:
    """A bank's HTTP answer, read completely. Nothing of it may reach a log or a partner unmapped."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)

    def read(self, shape: type[T]) -> T:
        """The JSON body as `shape` (a msgspec Struct, or any type msgspec knows). Raises ProviderError."""
        try:
            return msgspec.json.decode(self.body, type=shape)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise ProviderError from None

    def read_xml(self, shape: type[T]) -> T:
        """The XML body's root element as `shape`, a msgspec Struct (see `providers.xml`). Raises ProviderError."""
        try:
            return xml_bodies.decode(self.body, shape)
        except Exception:  # the parser's faults have no common base
            raise ProviderError from None

    def peek(self, shape: type[T]) -> T | None:
        """Like `read`, but None where the body is not of that shape: for telling kinds of answers apart."""
        try:
            return self.read(shape)
        except ProviderError:
            return None

    def peek_xml(self, shape: type[T]) -> T | None:
        """Like `read_xml`, but None where the body is not of that shape."""
        try:
            return self.read_xml(shape)
        except ProviderError:
            return None


@dataclass(frozen=True)
class Body:
    """What a request carries, before it is encoded: JSON data, the fields of a form, or XML as plain data."""

    content: Any
    media_type: str
    encode: Callable[[Any], bytes]
    accept: str = "application/json"

    @classmethod
    def of(
        cls, *, json: Any = None, form: Mapping[str, str] | None = None, xml: Mapping[str, Any] | None = None
    ) -> Body | None:
        """The body for whichever is given, None where nothing is. Decimals become JSON numbers."""
        if xml is not None:
            return cls(xml, "text/xml; charset=utf-8", xml_bodies.encode, accept="text/xml, application/xml")
        if form is not None:
            return cls(form, "application/x-www-form-urlencoded", lambda fields: urlencode(fields).encode())
        return None if json is None else cls(json, "application/json", _encoder.encode)


@dataclass(frozen=True)
class Request:
    """A request below a bank's base address, ready to be sent."""

    method: str
    path: str
    body: bytes = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    safe: bool = False


@dataclass(frozen=True)
class Draft:
    """A request as an adapter asks for it, before it is authenticated. `safe` tells that the request may be sent again
    where a connection broke before an answer."""

    method: str
    path: str
    body: Body | None = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    safe: bool = False

    @property
    def content(self) -> Any:
        """The body before it is encoded, None where there is none."""
        return self.body.content if self.body else None

    def encoded(self, content: Any) -> Request:
        """The request with `content` as its body. A content type among the adapter's own headers goes before."""
        if self.body is None:
            return Request(self.method, self.path, b"", self.headers, self.safe)
        headers = {"Content-Type": self.body.media_type, "Accept": self.body.accept, **self.headers}
        return Request(self.method, self.path, self.body.encode(content), headers, self.safe)


def send(request: Request, base_url: str, *, connections: int, deadline: float, timeout_s: float) -> Reply:
    """The bank's answer to `request`, before `deadline` (monotonic seconds) and within `timeout_s`.

    At most `connections` connections are kept to the address. A safe request whose connection broke before an
    answer is sent once more. Raises ProviderUnavailable or ProviderError.
    """
    try:
        return _once(request, base_url, connections, deadline, timeout_s)
    except ProviderUnavailable as failure:
        if not (request.safe and failure.broken):
            raise
        # A pooled connection that the bank closed meanwhile looks like this; once is enough.
        return _once(request, base_url, connections, deadline, timeout_s)


def _once(request: Request, base_url: str, connections: int, deadline: float, timeout_s: float) -> Reply:
    started = time.monotonic()
    remaining = min(deadline - started, timeout_s)
    if remaining <= 0:
        raise BankTimedOut(sent=False, held_back=True)
    end = started + remaining
    try:
        response = _pool(base_url, connections).urlopen(
            request.method,
            urlsplit(base_url).path.rstrip("/") + request.path,
            body=request.body or None,
            headers={"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "origination/1"}
            | dict(request.headers),
            timeout=urllib3.Timeout(connect=min(CONNECT_TIMEOUT_S, remaining), read=remaining),
            retries=False,
            redirect=False,
            preload_content=False,
            decode_content=False,
        )
    except HTTPError as fault:
        raise _transport_failure(fault) from None
    try:
        content = _read_body(response, end)
    except HTTPError as fault:
        response.close()
        failure = _transport_failure(fault)
        failure.broken = False
        raise failure from None
    except BaseException:
        response.close()
        raise
    response.release_conn()
    return Reply(response.status, response.headers, content)


def _transport_failure(fault: HTTPError) -> ProviderUnavailable:
    """Our error for a failure below HTTP. `sent` is False only where no connection was ever made."""
    if isinstance(fault, ReadTimeoutError):
        return BankTimedOut()
    never_sent = isinstance(fault, NewConnectionError | ConnectTimeoutError | NameResolutionError)
    failure = ProviderUnavailable(sent=not never_sent)
    failure.broken = isinstance(fault, ProtocolError) or never_sent
    return failure


def _read_body(response: urllib3.BaseHTTPResponse, end: float) -> bytes:
    """The whole body, at most MAX_REPLY_BYTES, before `end` (monotonic) however slowly it drips.

    Raises ProviderUnavailable when the time is over, ProviderError when the body is too large or encoded.
    """
    if response.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise ProviderError
    chunks: list[bytes] = []
    size = 0
    while True:
        remaining = end - time.monotonic()
        if remaining <= 0:
            raise BankTimedOut
        socket = getattr(response.connection, "sock", None)
        if socket is not None:
            socket.settimeout(remaining)
        chunk = response.read1(65536)
        if not chunk:
            return b"".join(chunks)
        size += len(chunk)
        if size > MAX_REPLY_BYTES:
            raise ProviderError
        chunks.append(chunk)


_lock = threading.Lock()
_pools: dict[tuple[str, int], urllib3.HTTPConnectionPool] = {}


def _pool(base_url: str, connections: int) -> urllib3.HTTPConnectionPool:
    """The connections kept to one bank. urllib3 reads no proxy or netrc setting of the machine."""
    key = (base_url, connections)
    with _lock:
        if key not in _pools:
            _pools[key] = urllib3.connection_from_url(base_url, maxsize=connections)
        return _pools[key]
