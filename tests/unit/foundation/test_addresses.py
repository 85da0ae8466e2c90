"""Which address counts as the client's, and that no header can forge it. Which addresses may be called."""

import ipaddress
from typing import Any

import pytest
from django.test import RequestFactory

from foundation.audit import source_of
from foundation.client_ip import client_ip, known_ip
from foundation.http.way import Rules

PROXIES = ["10.0.0.0/8", "2001:db8:ffff::/48"]


WALKS: list[tuple[Any, ...]] = [
    ("203.0.113.9", None, "203.0.113.9"),
    ("203.0.113.9", "198.51.100.1", "203.0.113.9"),  # the peer is no proxy: its header does not count
    ("10.0.0.1", None, "10.0.0.1"),
    ("10.0.0.1", "198.51.100.1", "198.51.100.1"),
    ("10.0.0.1", "1.2.3.4, 198.51.100.1", "198.51.100.1"),  # the caller's own entries are on the left
    ("10.0.0.1", "1.2.3.4, 198.51.100.1, 10.0.0.2", "198.51.100.1"),
    ("10.0.0.1", "10.9.9.9, 10.0.0.2", "10.9.9.9"),
    ("10.0.0.1", "1.2.3.4,10.0.0.2", "1.2.3.4"),
    ("10.0.0.1", "198.51.100.1:4711", "198.51.100.1"),
    ("10.0.0.1", "2001:db8::1", "2001:db8::1"),
    ("10.0.0.1", "[2001:DB8::1]:4711", "2001:db8::1"),
    ("10.0.0.1", "::ffff:198.51.100.1", "198.51.100.1"),
    ("::ffff:10.0.0.1", "198.51.100.1", "198.51.100.1"),
    ("2001:db8:ffff::5", "198.51.100.1", "198.51.100.1"),
    ("10.0.0.1", "unknown", "10.0.0.1"),
    ("10.0.0.1", "1.2.3.4, unknown, 10.0.0.2", "10.0.0.2"),
    ("10.0.0.1", "fe80::1%eth0", "10.0.0.1"),
    ("10.0.0.1", "0x7f.1", "10.0.0.1"),
    ("10.0.0.1", "", "10.0.0.1"),
    ("10.0.0.1", ",,,", "10.0.0.1"),
]


def test_the_walk_from_right_to_left(settings: Any, rf: RequestFactory) -> None:
    for peer, forwarded, expected in WALKS:
        settings.TRUSTED_PROXIES = PROXIES
        headers = {} if forwarded is None else {"HTTP_X_FORWARDED_FOR": forwarded}
        assert client_ip(rf.get("/", REMOTE_ADDR=peer, **headers)) == expected


def test_other_headers_never_count_and_without_trusted_proxies_none(settings: Any, rf: RequestFactory) -> None:
    names = ("X_REAL_IP", "CLIENT_IP", "TRUE_CLIENT_IP", "CF_CONNECTING_IP", "FORWARDED")
    forged = {f"HTTP_{name}": "1.2.3.4" for name in names}
    settings.TRUSTED_PROXIES = PROXIES
    assert client_ip(rf.get("/", REMOTE_ADDR="10.0.0.1", **forged)) == "10.0.0.1"
    settings.TRUSTED_PROXIES = []
    request = rf.get("/", REMOTE_ADDR="203.0.113.9", **forged, HTTP_X_FORWARDED_FOR="1.2.3.4")
    assert client_ip(request) == "203.0.113.9"


def test_no_address_is_loud(rf: RequestFactory) -> None:
    """Before the fix, behind a Unix socket no operator could log in, because the audit trail wanted an address."""
    request = rf.get("/", REMOTE_ADDR="")
    with pytest.raises(ValueError, match="REMOTE_ADDR"):
        client_ip(request)
    assert known_ip(request) == source_of(request).address == ""


# --- Addresses that may be called: by rules for the public Internet, and by rules that allow private hosts ----------

PUBLIC, PRIVATE_TOO = Rules(ports=(443,)), Rules(private_hosts=None)
INSIDE = "127.0.0.1 127.8.8.8 10.0.0.1 172.16.0.1 172.31.255.255 192.168.1.1 ::1 fc00::1 fdff::1"
OUTSIDE = "8.8.8.8 177.10.0.1 200.160.2.3 2001:4860:4860::8888 2a00:1450::1 2804:10::1"
NOWHERE = """
    0.0.0.0 0.1.2.3 100.64.0.1 169.254.169.254 192.0.0.8 192.0.0.170 192.0.2.1 192.88.99.1 198.18.0.1 198.51.100.1
    203.0.113.1 224.0.0.1 239.255.255.250 240.0.0.1 255.255.255.255
    :: ::127.0.0.1 ::8.8.8.8 ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:169.254.169.254 ::ffff:8.8.8.8
    64:ff9b::127.0.0.1 64:ff9b::8.8.8.8 64:ff9b:1::10.0.0.1 100::1 2001::1 2001:20::1 2001:db8::1
    2002:7f00:1:: 2002:a9fe:a9fe:: 3fff::1 5f00::1 fd00:ec2::254 fe80::1 fec0::1 ff02::1
"""


@pytest.mark.parametrize(
    ("addresses", "public", "private_too"),
    [(INSIDE, False, True), (OUTSIDE, True, True), (NOWHERE, False, False)],
    ids=["inside", "outside", "nowhere"],
)
def test_an_address_may_be_called(addresses: str, public: bool, private_too: bool) -> None:
    for text in addresses.split():
        address = ipaddress.ip_address(text)
        allowed = [rules.allows(address, "receiver.example") for rules in (PUBLIC, PRIVATE_TOO)]
        assert allowed == [public, private_too], text
