"""Which addresses may be called, by rules for the public Internet and by rules that allow private hosts."""

import ipaddress

import pytest

from foundation.http.way import Rules

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
