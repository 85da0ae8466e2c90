"""The client address of a request."""

import ipaddress
from collections.abc import Iterable
from functools import lru_cache

from django.conf import settings
from django.http import HttpRequest

from foundation.formats import IPAddress, to_ip

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
#: A customer usually gets a whole IPv6 network of this size and can use any address in it.
IPV6_PREFIX = 64


def client_ip(request: HttpRequest) -> str:
    """The client's address, in canonical text.

    REMOTE_ADDR is the peer. While the address is one of TRUSTED_PROXIES, it is replaced by the rightmost unused entry
    of X-Forwarded-For, because a client may write anything further left. No other header is read. If an entry is not an
    address, the result is the proxy that sent it. Raises ValueError without REMOTE_ADDR, as behind a Unix socket:
    evidence needs the right address or none.
    """
    address = _address(request.META["REMOTE_ADDR"])
    if address is None:
        raise ValueError("REMOTE_ADDR is not an IP address: serve over TCP")
    hops = request.META.get("HTTP_X_FORWARDED_FOR", "").split(",")
    while hops and is_in(address, settings.TRUSTED_PROXIES):
        before = _address(hops.pop())
        if before is None:
            break
        address = before
    return str(address)


def known_ip(request: HttpRequest) -> str:
    """Like `client_ip`, but empty without an address, as behind a Unix socket."""
    try:
        return client_ip(request)
    except (KeyError, ValueError):
        return ""


def network_of(address: str) -> str:
    """The network of `address`: an IPv4 address itself, the first address of an IPv6 network. Raises ValueError if
    `address` is not an address."""
    parsed = ipaddress.ip_address(address)
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    return str(ipaddress.ip_network((parsed, IPV6_PREFIX), strict=False).network_address)


def is_in(address: IPAddress | None, networks: Iterable[str]) -> bool:
    return address is not None and any(address in network for network in _networks(tuple(networks)))


@lru_cache(maxsize=256)
def _networks(cidrs: tuple[str, ...]) -> tuple[Network, ...]:
    return tuple(ipaddress.ip_network(cidr.strip(), strict=False) for cidr in cidrs)


def _address(text: str) -> IPAddress | None:
    """The address in a proxy's notation (`1.2.3.4`, `1.2.3.4:5678`, `2001:db8::1`, `[2001:db8::1]:5678`). An
    IPv4-mapped address becomes IPv4. None for any other text."""
    bare = text.strip()
    if bare.startswith("["):
        bare = bare[1:].partition("]")[0]
    elif bare.count(":") == 1:
        bare = bare.partition(":")[0]
    return to_ip(bare)
