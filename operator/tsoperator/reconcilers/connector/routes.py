"""A Connector's routes: their errors, and the routes that its proxies advertise."""

import re
from collections.abc import Iterable
from ipaddress import IPv4Interface, IPv4Network, IPv6Interface, IPv6Network, ip_interface
from typing import Final

_ALL_IPV4: Final = IPv4Network("0.0.0.0/0")
_ALL_IPV6: Final = IPv6Network("::/0")
_SITES: Final = IPv6Network("fd7a:115c:a1e0:b1a::/64")
"""The prefix of 4via6 addresses. The number of a site follows it in 32 bits, and then the IPv4 address."""
_SITE_BITS: Final = 96
_SITE_MAX: Final = 0xFFFF
_CIDR = re.compile(r"[0-9A-Fa-f.:]+/(0|[1-9][0-9]*)")


def route_error(value: str) -> str | None:
    """Return why *value* is not a network in CIDR notation that can be advertised; None if it is one."""
    interface = _parsed_route(value)
    if interface is None:
        return f'"{value}" is not a network in CIDR notation: write one such as 10.40.0.0/14 or 2001:db8::/32'
    network = interface.network
    if interface.ip != network.network_address:
        return f'"{value}" has bits set beyond its prefix: write {network}'
    if network.network_address not in _SITES:
        return None
    if network.prefixlen < _SITE_BITS:
        return f'"{value}" is in the range of 4via6, but leads to no one site: give it a prefix of {_SITE_BITS} or more'
    site = int(network.network_address) >> 32 & 0xFFFFFFFF
    if site > _SITE_MAX:
        return f'"{value}" is of the 4via6 site {site}: sites are numbered from 0 to {_SITE_MAX}'
    return None


def default_route_error(routes: Iterable[str]) -> str | None:
    """Return an error if *routes* have a default route for only one of IPv4 and IPv6; None if not."""
    found = sorted({"0.0.0.0/0", "::/0"} & set(advertised_routes(routes, exit_node=False)))
    if len(found) != 1:
        return None
    return f'"{found[0]}" alone leaves one address family out: set exitNode to true instead, which advertises both'


def advertised_routes(routes: Iterable[str], *, exit_node: bool) -> tuple[str, ...]:
    """Return the valid *routes* without repetitions, larger networks first.

    With *exit_node*, the result also has the default routes of IPv4 and IPv6.
    """
    found = {interface.network for route in routes if (interface := _parsed_route(route))}
    if exit_node:
        found |= {_ALL_IPV4, _ALL_IPV6}
    ranked = sorted(found, key=lambda each: (each.prefixlen, each.version, int(each.network_address)))
    return tuple(map(str, ranked))


def _parsed_route(value: str) -> IPv4Interface | IPv6Interface | None:
    try:
        return ip_interface(value) if _CIDR.fullmatch(value) else None
    except ValueError:
        return None
