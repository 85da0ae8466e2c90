"""Sends a POST to a URL that a partner chose: limited in time, and never into our own network.

The host name is resolved once. Each address is checked, and the connection goes to a checked address. TLS and the Host
header use the name. An unusual spelling of an address, or a name server that changes its answer, therefore cannot lead
into our network. Redirects are not followed. Proxy variables and netrc are not read. One deadline covers name
resolution, connection, handshake, request and answer, however slowly the receiver sends.
"""

from __future__ import annotations

import email.utils
import http.client
import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from django.conf import settings
from django.db import models
from urllib3.exceptions import LocationParseError
from urllib3.util import Url, parse_url

MAX_ANSWER_BYTES = 64 * 1024
EXCERPT_CHARACTERS = 1000

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

# Allowed only where the deployment allows private receivers.
_PRIVATE = tuple(
    map(
        ipaddress.ip_network,
        ("127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "::1/128", "fc00::/7"),
    )
)
# Addresses outside the private ranges that are not public hosts: they lead to an IPv4 address, to a relay or nowhere
# (RFC 6890 and its updates). Also a cloud's metadata address.
_NEVER = tuple(
    map(
        ipaddress.ip_network,
        (
            "192.0.0.0/24",  # protocol assignments; all of them, although some Python versions count parts as global
            "192.88.99.0/24",  # 6to4 relays
            "2001::/23",  # Teredo, ORCHID and other assignments
            "2001:db8::/32",  # documentation
            "2002::/16",  # 6to4
            "3fff::/20",  # documentation
            "fd00:ec2::/32",  # EC2 metadata
        ),
    )
)
# The only IPv6 block assigned to the public Internet. Everything outside (mapped, compatible, NAT64, link-local,
# site-local fec0::/10, multicast, segment routing) is refused without being listed.
_GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")


class Fault(models.TextChoices):
    """Why an attempt failed: the stored word, and the text for operators."""

    STATUS = "status", "resposta fora de 2xx"
    REDIRECT = "redirect", "redirecionamento (não seguido)"
    GONE = "gone", "410: o destino pediu para não receber mais"
    TIMEOUT = "timeout", "tempo esgotado"
    REFUSED = "refused", "conexão recusada"
    CONNECTION = "connection", "falha de conexão"
    TLS = "tls", "falha de TLS ou certificado inválido"
    PROTOCOL = "protocol", "resposta ilegível"
    DNS = "dns", "nome não resolvido"
    BLOCKED = "blocked", "endereço não permitido"
    URL = "url", "URL inválida"
    INTERNAL = "internal", "falha interna do serviço"


@dataclass(frozen=True)
class Answer:
    """The result of one attempt.

    `fault` is None exactly if the receiver answered with a 2xx status. `status` is None if no status line arrived.
    `excerpt` is the beginning of the receiver's answer. `retry_after` is its `Retry-After` in seconds.
    """

    status: int | None = None
    fault: Fault | None = None
    excerpt: str = ""
    retry_after: float | None = None
    duration_ms: int = 0


class _MayNotBeCalled(Exception):
    """The URL, or an address that its host name resolves to, is forbidden."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.value)
        self.fault = fault


def post(url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
    """Send `body` to `url` within `WEBHOOK_TIMEOUT_S` seconds in all.

    A failure of the network or the receiver is returned as an `Answer` with a fault. Nothing is raised.
    """
    started = time.monotonic()
    exchange = _Exchange(started + settings.WEBHOOK_TIMEOUT_S)
    status, retry_after, excerpt, fault = None, None, b"", None
    try:
        try:
            response = exchange.send(url, body, headers)
            status, retry_after = response.status, _seconds(response.headers.get("Retry-After"))
            # The status decides. If the body then stalls or breaks off, a 2xx is still a success.
            fault = _fault_of_status(status)
            # Not read(), which would ignore its limit for a chunk whose size is given as -1.
            while len(excerpt) < MAX_ANSWER_BYTES and (part := response.read1(MAX_ANSWER_BYTES - len(excerpt))):
                excerpt += part
        finally:
            exchange.close()
    except _MayNotBeCalled as refused:
        fault = refused.fault
    except (OSError, http.client.HTTPException) as failure:
        if status is None:
            fault = Fault.TIMEOUT if exchange.expired else _fault_of_exception(failure)
    text = excerpt[: EXCERPT_CHARACTERS * 4].decode(errors="replace").replace("\0", "")[:EXCERPT_CHARACTERS]
    return Answer(status, fault, text, retry_after, round((time.monotonic() - started) * 1000))


class _Exchange:
    """One connection with a deadline in `time.monotonic()` seconds.

    A socket's time-out starts again with every byte, so a timer closes the connection at the deadline. The timer uses a
    duplicate of the socket, because TLS takes over the original.
    """

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline
        self._connection: http.client.HTTPConnection | None = None
        self._response: http.client.HTTPResponse | None = None
        self._wire: socket.socket | None = None
        self._timer: threading.Timer | None = None

    @property
    def expired(self) -> bool:
        return time.monotonic() >= self.deadline

    def remaining(self) -> float:
        """Seconds until the deadline. Raises TimeoutError after it."""
        seconds = self.deadline - time.monotonic()
        if seconds <= 0:
            raise TimeoutError
        return seconds

    def send(self, url: str, body: bytes, headers: Mapping[str, str]) -> http.client.HTTPResponse:
        """Send the request and return the response, whose body is unread. Raises `_MayNotBeCalled`, OSError or
        HTTPException."""
        parts = _checked(url)
        host = (parts.host or "").removeprefix("[").removesuffix("]")
        kind = _Tls if parts.scheme == "https" else _Plain
        self._connection = kind(self, host, parts.port or kind.default_port)
        self._connection.request("POST", parts.request_uri, body, dict(headers))
        self._response = self._connection.getresponse()
        return self._response

    def connect(self, host: str, port: int) -> socket.socket:
        """Connect to one of the addresses of `host`, all of which must be allowed."""
        addresses = _resolve(host, port, self.remaining())
        for position, address in enumerate(addresses):
            try:
                wire = socket.create_connection((str(address), port), self.remaining())
            except OSError:
                if position == len(addresses) - 1 or self.expired:
                    raise
                continue
            break
        self._wire = wire.dup()
        self._timer = threading.Timer(self.deadline - time.monotonic(), _cut, [self._wire])
        self._timer.daemon = True
        self._timer.start()
        return wire

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._response is not None:
            self._response.close()
        if self._connection is not None:
            self._connection.close()
        if self._wire is not None:
            self._wire.close()


def _cut(wire: socket.socket) -> None:
    with suppress(OSError):  # the receiver has already closed it
        wire.shutdown(socket.SHUT_RDWR)


class _Plain(http.client.HTTPConnection):
    """A connection whose socket the exchange opens. `host` stays the name, for the Host header."""

    def __init__(self, exchange: _Exchange, host: str, port: int) -> None:
        super().__init__(host, port)
        self._exchange = exchange

    def connect(self) -> None:
        self.sock = self._exchange.connect(self.host, self.port)
        # Head and body are two writes. Without this option the second would wait for the receiver's delayed
        # acknowledgement.
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


class _Tls(_Plain):
    """The same with TLS. SNI and the certificate check use the name."""

    default_port = http.client.HTTPS_PORT

    def connect(self) -> None:
        super().connect()
        self.sock = _tls_context().wrap_socket(self.sock, server_hostname=self.host)


@lru_cache(maxsize=1)
def _tls_context() -> ssl.SSLContext:
    return ssl.create_default_context()


def _checked(url: str) -> Url:
    """The parts of `url`, normalized. Raises `_MayNotBeCalled` for a forbidden URL."""
    try:
        parts = parse_url(url)
    except LocationParseError:
        raise _MayNotBeCalled(Fault.URL) from None
    if parts.scheme not in ("http", "https") or not parts.host or parts.auth is not None:
        raise _MayNotBeCalled(Fault.URL)
    if not settings.WEBHOOKS_ALLOW_PRIVATE:
        allowed, port = settings.WEBHOOK_PORTS, parts.port or http.client.HTTPS_PORT
        if parts.scheme != "https" or (allowed and port not in allowed):
            raise _MayNotBeCalled(Fault.BLOCKED)
    return parts


def _resolve(host: str, port: int, seconds: float) -> list[Address]:
    """The addresses of `host`, best first. Raises `_MayNotBeCalled` if there is none, or if any of them is forbidden: a
    name with both public and private addresses is an attack or a mistake. Raises TimeoutError after `seconds`."""
    try:
        entries = _look_up(host, port, seconds)
    except (socket.gaierror, UnicodeError):
        raise _MayNotBeCalled(Fault.DNS) from None
    # A scoped address ("fe80::1%eth0") is link-local and is refused without its scope, too.
    addresses = [ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in entries]
    if not all(may_be_called(address) for address in addresses):
        raise _MayNotBeCalled(Fault.BLOCKED)
    return addresses


def _look_up(host: str, port: int, seconds: float) -> list[Any]:
    """The result of `getaddrinfo` within `seconds`. Raises TimeoutError and the exceptions of `getaddrinfo`.

    The system's resolver cannot be interrupted. Its thread continues until the resolver gives up; the delivery does not
    wait for it.
    """
    result: Future[list[Any]] = Future()

    def run() -> None:
        try:
            result.set_result(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except (OSError, UnicodeError) as failure:
            result.set_exception(failure)

    threading.Thread(target=run, name="webhook-name", daemon=True).start()
    return result.result(seconds)


def may_be_called(address: Address) -> bool:
    """True if a delivery may go to `address`: a public one, or a private one if the deployment allows that.

    Always refused: link-local addresses (including cloud metadata), multicast, the unspecified address, and every IPv6
    form that contains an IPv4 address.
    """
    if any(address in network for network in _NEVER):
        return False
    if any(address in network for network in _PRIVATE):
        return bool(settings.WEBHOOKS_ALLOW_PRIVATE)
    if isinstance(address, ipaddress.IPv6Address):
        return address in _GLOBAL_UNICAST
    return address.is_global and not address.is_multicast


def _fault_of_status(status: int) -> Fault | None:
    if 200 <= status < 300:
        return None
    if 300 <= status < 400:
        return Fault.REDIRECT
    return Fault.GONE if status == http.client.GONE else Fault.STATUS


def _fault_of_exception(failure: Exception) -> Fault:
    """The fault for an exception of the socket, TLS or HTTP layer. Subclasses are tested before their bases."""
    for kind, fault in (
        (TimeoutError, Fault.TIMEOUT),
        (ssl.SSLError, Fault.TLS),
        (ConnectionRefusedError, Fault.REFUSED),
        (OSError, Fault.CONNECTION),
        (http.client.InvalidURL, Fault.URL),
    ):
        if isinstance(failure, kind):
            return fault
    return Fault.PROTOCOL


def _seconds(retry_after: str | None) -> float | None:
    """`Retry-After`, a number or an HTTP date, as seconds from now. None if absent or unreadable."""
    if retry_after is None:
        return None
    if retry_after.isascii() and retry_after.isdigit():
        return float(retry_after)
    try:
        moment = email.utils.parsedate_to_datetime(retry_after)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return max(0.0, (moment - datetime.now(UTC)).total_seconds())
    except (ValueError, OverflowError):
        return None
