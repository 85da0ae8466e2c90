"""Where a request really comes from."""

from __future__ import annotations

import ipaddress
from functools import lru_cache

from django.conf import settings
from django.http import HttpRequest

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
#: A holder of an IPv6 network changes the rest of the address at will.
IPV6_PREFIX = 64


def client_ip(request: HttpRequest) -> str:
    """The address of the holder's connection, in canonical text.

    REMOTE_ADDR is the peer. While an address is one of TRUSTED_PROXIES, what that proxy says counts, which is
    the rightmost entry of X-Forwarded-For not yet used: a caller may write anything to the left of it. No
    other header is looked at. An entry that is no address ends the walk at the proxy that passed it on.
    Raises ValueError without a REMOTE_ADDR, as behind a Unix socket: no evidence is better than a wrong one.
    """
    address = _address(request.META["REMOTE_ADDR"])
    if address is None:
        raise ValueError("REMOTE_ADDR is not an IP address: serve over TCP")
    trusted = _networks(tuple(settings.TRUSTED_PROXIES))
    hops = request.META.get("HTTP_X_FORWARDED_FOR", "").split(",")
    while hops and any(address in network for network in trusted):
        before = _address(hops.pop())
        if before is None:
            break
        address = before
    return str(address)


def network_of(address: str) -> str:
    """What `address` has in common with the others that its holder may use: an IPv4 address as it is, of IPv6 the first
    address of its network. Raises ValueError for what is no address."""
    found = ipaddress.ip_address(address)
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    return str(ipaddress.ip_network((found, IPV6_PREFIX), strict=False).network_address)


@lru_cache(maxsize=4)
def _networks(cidrs: tuple[str, ...]) -> tuple[Network, ...]:
    return tuple(ipaddress.ip_network(cidr.strip(), strict=False) for cidr in cidrs)


def _address(text: str) -> Address | None:
    """An address as a proxy may write it (`1.2.3.4`, `1.2.3.4:5678`, `2001:db8::1`, `[2001:db8::1]:5678`), an
    IPv4-mapped one as IPv4; None where it is none."""
    bare = text.strip()
    if bare.startswith("["):
        bare = bare[1:].partition("]")[0]
    elif bare.count(":") == 1:
        bare = bare.partition(":")[0]
    try:
        address = ipaddress.ip_address(bare)
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address):
        if address.scope_id is not None:
            return None
        return address.ipv4_mapped or address
    return address
