"""The one HTTP seam to banks: a request goes out, its answer is read completely, or an error of
`providers.errors` says what went wrong on the way."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from http.client import HTTPException
from typing import Any, TypeVar, cast
from urllib.parse import urlencode

import msgspec

from providers import xml as xml_bodies
from providers.connections import NeverSent, Pool, TooLarge
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
    headers = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "origination/1"}
    try:
        answer = _pool(base_url, connections).request(
            request.method,
            request.path,
            request.body,
            headers | dict(request.headers),
            connect_s=CONNECT_TIMEOUT_S,
            end=started + remaining,
        )
    except NeverSent:
        raise _broken(ProviderUnavailable(sent=False)) from None
    except TimeoutError:
        raise BankTimedOut from None
    except (OSError, HTTPException):
        raise _broken(ProviderUnavailable()) from None
    if answer.headers.get("Content-Encoding", "identity").lower() != "identity":
        answer.drop()
        raise ProviderError
    try:
        body = answer.read(MAX_REPLY_BYTES)
    except TooLarge:
        raise ProviderError from None
    except TimeoutError:
        raise BankTimedOut from None
    except (OSError, HTTPException):
        raise ProviderUnavailable from None
    # Names in any case of letters, as http.client has them.
    return Reply(answer.status, cast("Mapping[str, str]", answer.headers), body)


def _broken(failure: ProviderUnavailable) -> ProviderUnavailable:
    """The failure of a connection that broke before an answer began."""
    failure.broken = True
    return failure


@lru_cache(maxsize=256)
def _pool(base_url: str, connections: int) -> Pool:
    """The connections kept to one bank."""
    return Pool(base_url, connections)
