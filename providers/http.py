"""Requests to banks, sent by `foundation.http`. Each ends with an answer that was read completely, or with an error of
`providers.errors`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypedDict, TypeVar
from urllib.parse import quote, urlencode

import msgspec
import structlog

from foundation.http.client import Exchange, Request, request
from foundation.http.errors import Broken, Malformed, NeverSent, TooLarge, Why
from foundation.http.way import Way
from providers import xml as xml_bodies
from providers.errors import BankTimedOut, ProviderError, ProviderUnavailable

log = structlog.get_logger(__name__)
T = TypeVar("T")

MAX_REPLY_BYTES = 2 * 1024 * 1024
CONNECT_TIMEOUT_S = 5.0
#: How long a new certificate that the bank refused is left alone, in seconds. The one before it serves meanwhile.
REFUSED_S = 30.0
_refused_at: dict[Way, float] = {}
_HEADERS = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "origination/1"}
# Decimals become JSON numbers with the same digits. No value is converted to a binary float.
_encoder = msgspec.json.Encoder(decimal_format="number")


@dataclass(frozen=True)
class Reply:
    """A bank's HTTP answer, read completely. It must be mapped before any part of it reaches a log or a partner. Names
    of `headers` are compared without case."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)
    #: By which way the bank answered.
    way: Way | None = field(default=None, repr=False)

    def read(self, shape: type[T], *, root: str | None = None) -> T:
        """The JSON body as `shape` (a msgspec Struct or any other type of msgspec), or with `root`, the name of the
        root element, the XML body (see `providers.xml`). Raises ProviderError."""
        try:
            if root is None:
                return msgspec.json.decode(self.body, type=shape)
            return xml_bodies.decode(self.body, shape, root)
        except Exception:  # the XML parser's exceptions have no common base class
            raise ProviderError from None

    def peek(self, shape: type[T], *, root: str | None = None) -> T | None:
        """Like `read`, but None if the body has another shape or root. Used to tell kinds of answers apart."""
        try:
            return self.read(shape, root=root)
        except ProviderError:
            return None


class Content(TypedDict, total=False):
    """A request's body: JSON data, where Decimals become numbers, a form's fields, or XML data."""

    json: Any
    form: Mapping[str, str]
    xml: Mapping[str, Any]


def _encode_form(fields: Mapping[str, str]) -> bytes:
    """Raises TypeError for None, which `urlencode` would write as a word."""
    if None in fields.values():
        raise TypeError("a form cannot hold None")
    return urlencode(fields).encode()


class _Kind(NamedTuple):
    """A kind of body: its media type, what encodes it, and what its request accepts."""

    media_type: str
    encode: Callable[[Any], bytes]
    accept: str = "application/json"


_KINDS = {
    "json": _Kind("application/json", _encoder.encode),
    "form": _Kind("application/x-www-form-urlencoded", _encode_form),
    "xml": _Kind("text/xml; charset=utf-8", xml_bodies.encode, "text/xml, application/xml"),
}


@dataclass(frozen=True)
class Draft:
    """A request as the adapter describes it, before it is encoded. `body` is a `Content` with one entry or none. `safe`
    means that the request may be sent again if the connection breaks before an answer."""

    method: str
    path: str
    body: Mapping[str, Any] = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    safe: bool = False

    @property
    def content(self) -> Any:
        """The body before it is encoded, as plain data, or None."""
        return next(iter(self.body.values()), None)

    def headed(self, headers: Mapping[str, str]) -> Draft:
        """This request with `headers` besides its own."""
        return replace(self, headers={**self.headers, **headers})

    def carrying(self, content: Any) -> Draft:
        """This request with other `content`."""
        return replace(self, body=dict.fromkeys(self.body, content))

    def encoded(self) -> Request:
        """The request as it is sent. The adapter's own Content-Type header, if given, is kept."""
        for name, content in self.body.items():
            kind = _KINDS[name]
            headers = {"Content-Type": kind.media_type, "Accept": kind.accept, **self.headers}
            return Request(self.method, self.path, kind.encode(content), headers, self.safe)
        return Request(self.method, self.path, b"", self.headers, self.safe)


def path_to(base: str, names: Iterable[str], params: Mapping[str, str] | None) -> str:
    """The path `base/name/…?params`, with every name and value quoted, so that none of them can change the path."""
    path = "/".join((base, *(quote(each, safe="") for each in names)))
    return f"{path}?{urlencode(params, quote_via=quote, safe='')}" if params else path


def repeated(attempt: Callable[[], T], *, safe: bool) -> T:
    """The result of `attempt`, which sends a request. If the request is safe and its connection broke before an answer,
    `attempt` is called once more. Raises what `attempt` raises."""
    try:
        return attempt()
    except ProviderUnavailable as failure:
        if not (safe and failure.broken):
            raise
        # The bank may have closed a pooled connection in the meantime. One more attempt opens a new connection.
        return attempt()


def send(call: Request, base_url: str, ways: Sequence[Way], *, deadline: float, timeout_s: float) -> Reply:
    """Send `call` once, by the first of `ways` whose certificate the bank does not refuse.

    Returns the bank's answer before `deadline` (monotonic seconds) and within `timeout_s` seconds. Raises
    ProviderUnavailable or ProviderError.
    """
    started = time.monotonic()
    remaining = min(deadline - started, timeout_s)
    if remaining <= 0:
        raise BankTimedOut(sent=False, held_back=True)
    call = Request(call.method, call.path, call.body, {**_HEADERS, **call.headers}, call.safe)
    try:
        way, answer = _begun(call, base_url, ways, started + remaining)
    except NeverSent as failure:
        if failure.why in (Why.TLS, Why.PROXY, Why.BLOCKED):  # waiting does not cure it
            log.warning("bank_not_reached", address=base_url, why=failure.why, detail=failure.detail)
        raise _broken(ProviderUnavailable(sent=False)) from None
    except TimeoutError:
        raise BankTimedOut from None
    except Broken:
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
    except (OSError, Malformed):
        raise ProviderUnavailable from None
    return Reply(answer.status, answer.headers, body, way)


def _begun(call: Request, base_url: str, ways: Sequence[Way], end: float) -> tuple[Way, Exchange]:
    """The way that served, and the head of the answer. A way that was refused is not tried for REFUSED_S."""
    *preferred, last = ways
    for way in preferred:
        if _refused_at.get(way, -REFUSED_S) > time.monotonic() - REFUSED_S:
            continue
        try:
            return way, request(call, base_url, way, end=end, connect_s=CONNECT_TIMEOUT_S)
        except NeverSent as failure:
            if failure.why is not Why.TLS:
                raise
            detail = failure.detail
        except Broken as failure:  # some gateways refuse a certificate without an alert, which looks like this
            if failure.was_kept or not call.safe:
                raise
            detail = "closed"
        _refused_at[way] = time.monotonic()
        log.warning("bank_certificate_not_accepted", address=base_url, detail=detail)
    return last, request(call, base_url, last, end=end, connect_s=CONNECT_TIMEOUT_S)


def _broken(failure: ProviderUnavailable) -> ProviderUnavailable:
    """`failure`, marked as a connection that broke before an answer."""
    failure.broken = True
    return failure
