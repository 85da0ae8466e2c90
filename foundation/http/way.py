"""The way to a receiver: which addresses may be called, and by which certificate, authorities and proxy.

A host's name is resolved once, each of its addresses is checked, and the connection goes to a checked one. An unusual
spelling of an address, or a name server that changes its answer, therefore cannot lead into our own network.
"""

import ipaddress
import os
import socket
import ssl
import threading
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from urllib3.exceptions import LocationParseError
from urllib3.util import Url, parse_url

from foundation.http.errors import NeverSent, Why

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

PORTS = {"http": 80, "https": 443}
# Allowed only for hosts that may be private.
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


@dataclass(frozen=True)
class Rules:
    """Which URLs and addresses may be called: https to public addresses, at one of `ports` if there are any.

    The hosts in `private_hosts` may also have private addresses, any port and plain http; None means all hosts.
    """

    private_hosts: frozenset[str] | None = frozenset()
    ports: tuple[int, ...] = ()

    def may_be_private(self, host: str) -> bool:
        """True if `host` may have private addresses and speak plain http."""
        return self.private_hosts is None or host in self.private_hosts

    def check(self, parts: Url) -> None:
        """Raises NeverSent if `parts`, a result of `parsed`, may not be called. Resolves no name."""
        port = parts.port or PORTS[parts.scheme or ""]
        if not self.may_be_private(host_of(parts)) and (
            parts.scheme != "https" or (self.ports and port not in self.ports)
        ):
            raise NeverSent(Why.BLOCKED)
        with suppress(ValueError):  # the host is a name
            if not self.allows(ipaddress.ip_address(host_of(parts)), host_of(parts)):
                raise NeverSent(Why.BLOCKED)

    def addresses(self, host: str, port: int, seconds: float) -> list[str]:
        """The addresses of `host`, best first. Raises NeverSent if there is none, or if any of them is forbidden: a
        name with both public and private addresses is an attack or a mistake. Raises TimeoutError after `seconds`."""
        try:
            entries = _look_up(host, port, seconds)
        except (socket.gaierror, UnicodeError):
            raise NeverSent(Why.DNS) from None
        # A scoped address ("fe80::1%eth0") is link-local and is refused without its scope, too.
        addresses = [str(entry[4][0]).partition("%")[0] for entry in entries]
        if not all(self.allows(ipaddress.ip_address(address), host) for address in addresses):
            raise NeverSent(Why.BLOCKED)
        return addresses

    def allows(self, address: Address, host: str) -> bool:
        """True if `address` of `host` may be called.

        Always refused: link-local addresses (including cloud metadata), multicast, the unspecified address, and every
        IPv6 form that contains an IPv4 address.
        """
        if any(address in network for network in _NEVER):
            return False
        if any(address in network for network in _PRIVATE):
            return self.may_be_private(host)
        if isinstance(address, ipaddress.IPv6Address):
            return address in _GLOBAL_UNICAST
        return address.is_global and not address.is_multicast


@dataclass(frozen=True)
class Way:
    """How requests reach a receiver. Requests of different ways never share a connection.

    At most `most_idle` idle connections to an origin are kept. `identity` is our client certificate, with those of its
    issuers, and its private key (PEM). `authorities` are the certificates of the authorities that may issue the
    receiver's (PEM); if empty, those that the machine trusts. `proxy` is the URL of a proxy that opens tunnels
    (CONNECT), with user and password if it wants them; it may be private, and it resolves the receiver's name.
    """

    rules: Rules
    most_idle: int = 8
    identity: str = field(default="", repr=False)
    authorities: str = field(default="", repr=False)
    proxy: str = field(default="", repr=False)

    def tls(self) -> ssl.SSLContext:
        """The TLS context of this way: TLS 1.2 at least; certificates and host names are verified."""
        return _context(self.identity, self.authorities)


@lru_cache(maxsize=64)
def _context(identity: str, authorities: str) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=authorities or None)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if identity:
        load_identity(context, identity)
    return context


def load_identity(context: ssl.SSLContext, identity: str) -> None:
    """Have `context` show the certificate in `identity`. Raises ssl.SSLError if the key is not the certificate's.

    Python loads keys from files only. This one is in memory, so that the key never reaches a disk.
    """
    file = os.memfd_create("identity", os.MFD_CLOEXEC)
    try:
        os.write(file, identity.encode())
        context.load_cert_chain(f"/proc/self/fd/{file}", password="")
    finally:
        os.close(file)


def parsed(url: str) -> Url:
    """The parts of an http or https URL without a user, normalized. Raises NeverSent."""
    try:
        parts = parse_url(url)
    except LocationParseError:
        raise NeverSent(Why.URL) from None
    if parts.scheme not in PORTS or not parts.host or parts.auth is not None:
        raise NeverSent(Why.URL)
    return parts


def origin_of(url: str) -> str:
    """The scheme, host and port of `url`, as in `https://api.example:443`. Empty if it is none that may be called."""
    try:
        parts = parsed(url)
    except NeverSent:
        return ""
    return f"{parts.scheme}://{parts.host}:{parts.port or PORTS[parts.scheme or '']}"


def host_of(parts: Url) -> str:
    """The host without the brackets of an IPv6 address."""
    return (parts.host or "").removeprefix("[").removesuffix("]")


def _look_up(host: str, port: int, seconds: float) -> list[Any]:
    """The result of `getaddrinfo` within `seconds`. Raises TimeoutError and the exceptions of `getaddrinfo`.

    The system's resolver cannot be interrupted. Its thread continues; the caller does not wait for it.
    """
    result: Future[list[Any]] = Future()

    def run() -> None:
        try:
            result.set_result(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except (OSError, UnicodeError) as failure:
            result.set_exception(failure)

    threading.Thread(target=run, name="http-name", daemon=True).start()
    return result.result(seconds)
