"""IP addresses that lead into this machine, its network or its cloud.

The tables follow the IANA registries of special-purpose addresses of IPv4 and IPv6, of multicast addresses, and of the
IPv6 address space (2026-11). The predicates of `ipaddress` answer another question, differently in each Python: for
``is_global``, the address 64:ff9b::7f00:1 is global, but its packets arrive at 127.0.0.1.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

_REFUSED_V4 = {
    ip_network("0.0.0.0/8"): "is This Network (RFC 1122)",
    ip_network("10.0.0.0/8"): "is Private Use (RFC 1918)",
    ip_network("100.64.0.0/10"): "is Shared Address Space of providers and clouds (RFC 6598)",
    ip_network("127.0.0.0/8"): "is Loopback (RFC 1122)",
    ip_network("168.63.129.16/32"): "tells a virtual machine of Azure about itself",
    ip_network("169.254.0.0/16"): "is Link Local, with the metadata of clouds (RFC 3927)",
    ip_network("172.16.0.0/12"): "is Private Use (RFC 1918)",
    ip_network("192.0.0.0/24"): "is reserved for protocols (RFC 6890)",
    ip_network("192.0.2.0/24"): "is Documentation (RFC 5737)",
    ip_network("192.88.99.0/24"): "is a relay of 6to4 (RFC 7526)",
    ip_network("192.168.0.0/16"): "is Private Use (RFC 1918)",
    ip_network("198.18.0.0/15"): "is Benchmarking (RFC 2544)",
    ip_network("198.51.100.0/24"): "is Documentation (RFC 5737)",
    ip_network("203.0.113.0/24"): "is Documentation (RFC 5737)",
    ip_network("224.0.0.0/4"): "is Multicast (RFC 5771)",
    ip_network("240.0.0.0/4"): "is reserved, with Broadcast (RFC 1112)",
}

_REFUSED_V6 = {
    ip_network("::/128"): "is the Unspecified Address (RFC 4291)",
    ip_network("::1/128"): "is Loopback (RFC 4291)",
    ip_network("::/96"): "is IPv4-Compatible (RFC 4291)",
    ip_network("::ffff:0:0:0/96"): "is translated into IPv4 (RFC 2765)",
    ip_network("64:ff9b:1::/48"): "is translated into IPv4 (RFC 8215)",
    ip_network("2001::/23"): "is reserved for protocols, with Teredo (RFC 2928, RFC 4380)",
    ip_network("2001:db8::/32"): "is Documentation (RFC 3849)",
    ip_network("2002::/16"): "is 6to4, which leads to IPv4 (RFC 3056)",
    ip_network("3fff::/20"): "is Documentation (RFC 9637)",
    ip_network("fc00::/7"): "is Unique Local (RFC 4193)",
    ip_network("fe80::/10"): "is Link Local (RFC 4291)",
    ip_network("fec0::/10"): "is Site Local (RFC 3879)",
    ip_network("ff00::/8"): "is Multicast (RFC 4291)",
}

_GLOBAL_V6 = ip_network("2000::/3")
"""The IPv6 address space from which public addresses are assigned (RFC 4291)."""

_CARRIES_V4 = (ip_network("::ffff:0:0/96"), ip_network("64:ff9b::/96"))
"""Networks whose packets arrive at the IPv4 address in their last 32 bits: mapped (RFC 4291), NAT64 (RFC 6052)."""

_ISATAP = {0x0000_5EFE, 0x0200_5EFE}
"""Beginnings of an interface identifier that ends with an IPv4 address (RFC 5214)."""


def refusal(address: str) -> str:
    """Return the reason why an IP address is not public; empty for a public one.

        print(refusal("::ffff:10.0.0.1"))  # ::ffff:10.0.0.1 leads to 10.0.0.1, and 10.0.0.0/8 is Private Use (RFC 1918)

    Args:
        address: The address as `socket.getaddrinfo` returns it, for IPv6 perhaps with a zone.
    """
    if "%" in address:
        return f"{address[:80]} has a zone, which names an interface of this machine"
    try:
        ip = ip_address(address)
    except ValueError:
        return f"{address[:80]} is not an IP address"
    if isinstance(ip, IPv4Address):
        return next((f"{network} {reason}" for network, reason in _REFUSED_V4.items() if ip in network), "")
    carried = _carried(ip)
    if carried is not None and (reason := refusal(str(carried))):
        return f"{ip} leads to {carried}, and {reason}"
    if any(ip in network for network in _CARRIES_V4):
        return ""
    for network, reason in _REFUSED_V6.items():
        if ip in network:
            return f"{network} {reason}"
    return "" if ip in _GLOBAL_V6 else f"{ip} is outside of {_GLOBAL_V6}, the public addresses of IPv6"


def _carried(ip: IPv6Address) -> IPv4Address | None:
    """Return the IPv4 address at which packets to an IPv6 address arrive; None if there is none."""
    bits = int(ip)
    if any(ip in network for network in _CARRIES_V4) or (bits >> 32) & 0xFFFF_FFFF in _ISATAP:
        return IPv4Address(bits & 0xFFFF_FFFF)
    return None
