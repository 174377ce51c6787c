"""Which IP addresses are public."""

from ipaddress import ip_address

import pytest

from operad.operators.web.fetch import refusal


@pytest.mark.parametrize(
    "address",
    """0.0.0.0 0.1.2.3 10.0.0.0 10.255.255.255 100.64.0.0 100.100.100.200 100.127.255.255 127.0.0.1 127.255.255.255
    168.63.129.16 169.254.0.0 169.254.169.254 169.254.170.2 172.16.0.0 172.31.255.255 192.0.0.8 192.0.0.192 192.0.2.1
    192.88.99.1 192.168.0.0 192.168.255.255 198.18.0.0 198.19.255.255 198.51.100.1 203.0.113.1 224.0.0.1 239.255.255.250
    240.0.0.1 255.255.255.255
    :: ::1 ::7f00:1 ::808:808 ::ffff:127.0.0.1 ::ffff:a9fe:a9fe ::ffff:168.63.129.16 ::ffff:0:127.0.0.1 ::ffff:0:8.8.8.8
    64:ff9b::7f00:1 64:ff9b::a9fe:a9fe 64:ff9b:1::808:808 100::1 100:0:0:1::1 2001::1 2001:0:7f00:1:: 2001:2::1 2001:db8::1
    2002:7f00:1:: 2002:808:808:: 3fff::1 4000::1 5f00::1 fc00::1 fd00:ec2::254 fe80::1 fe80::1%lo ::1%lo fec0::1 ff02::1
    2606:4700::5efe:7f00:1 2606:4700::200:5efe:a9fe:a9fe 2606:4700::1111%eth0 8.8.8.8%x 1 localhost 127.1 0x7f000001""".split(),
)
def test_an_address_that_is_not_public_is_refused_with_the_reason(address):
    assert refusal(address)


@pytest.mark.parametrize(
    "address",
    """1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 93.184.216.34 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.1
    168.63.129.15 169.253.255.255 172.15.255.255 172.32.0.0 192.0.1.1 192.167.255.255 192.169.0.0 198.17.255.255
    198.20.0.0 223.255.255.255
    2000::1 2606:4700::1111 2a00:1450:4001::200e 2001:200::1 2001:4860:4860::8888 2003::1 2606:4700::5efe:808:808
    ::ffff:8.8.8.8 64:ff9b::808:808""".split(),
)
def test_a_public_address_is_not_refused(address):
    assert refusal(address) == ""


def test_the_reason_names_the_network_and_where_the_packets_arrive():
    assert refusal("127.0.0.1") == "127.0.0.0/8 is Loopback (RFC 1122)"
    assert refusal("::1") == "::1/128 is Loopback (RFC 4291)"
    assert refusal("64:ff9b::7f00:1") == ("64:ff9b::7f00:1 leads to 127.0.0.1, and 127.0.0.0/8 is Loopback (RFC 1122)")


def test_what_python_knows_to_be_private_is_refused():
    begins = [ip_address(first << 24) for first in range(256)] + [
        ip_address(first << 112) for first in range(1, 2**16, 16)
    ]
    assert [each for each in begins if not each.is_global and not refusal(str(each))] == []
