"""Addresses of clients, of proxies, and of this machine."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network

from operad.runtime.values.errors import InputError

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
"""Host names of this machine."""

LOOPBACK_NETWORKS = ("127.0.0.0/8", "::1")
"""Addresses of this machine."""


def is_loopback(host: str) -> bool:
    """Return True if only this machine reaches a host."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def address_group(address: str) -> str:
    """Return the address that is counted for a client: its own, or for IPv6 its network of 64 bits."""
    try:
        found = _parsed(address)
    except ValueError:
        return address
    return str(found if isinstance(found, IPv4Address) else IPv6Network((found, 64), strict=False))


def is_in(address: str, network: str) -> bool:
    """Return True if an address is in a network, or is that address."""
    try:
        return _parsed(address) in ip_network(network)
    except ValueError:
        return False


def read_networks(texts: Sequence[str], where: str) -> tuple[str, ...]:
    """Return addresses and networks, in their usual form.

    Raises:
        InputError: A text is neither.
    """
    try:
        networks = [ip_network(text) for text in texts]
    except ValueError as error:
        raise InputError(
            f"{where}: {error}; expected an address such as 10.0.0.2, or a network such as 10.0.0.0/8"
        ) from error
    return tuple(str(each.network_address if each.num_addresses == 1 else each) for each in networks)


def _parsed(address: str) -> IPv4Address | IPv6Address:
    """Return an address; for an IPv4 address in the form of IPv6, the IPv4 address."""
    found = ip_address(address)
    return found.ipv4_mapped or found if isinstance(found, IPv6Address) else found
