"""Finds out which servers CoreDNS and kube-dns ask for a zone."""

import contextlib
import ipaddress
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from tsoperator.api.objects import Object
from tsoperator.dns.cluster.corefile import Address, Block, Directive
from tsoperator.dns.cluster.results import covers


class Forward(NamedTuple):
    """A rule by which the cluster's DNS sends queries for names in *zone* to the servers *to*.

    An empty zone stands for all names. A server is an IP address, or else the text in the configuration.
    """

    zone: str
    to: Sequence[str]


def block_forwards(zone: str, blocks: Iterable[Block]) -> Iterator[Forward]:
    """Yield the forwards for *zone* in the server blocks that get queries for it."""
    for block in blocks:
        origins = [each.zone for each in block.addresses if each.scheme == "dns" and covers(each.zone, zone)]
        if origins:
            yield from plugin_forwards(zone, block.directives, max(origins, key=len))


def plugin_forwards(zone: str, plugins: Iterable[Directive], origin: str = "") -> Iterator[Forward]:
    """Yield the forward of the first plugin in *plugins* that forwards queries for *zone*; nothing if none does.

    *plugins* are those of a server block for the zone *origin*.
    """
    for plugin in plugins:
        if plugin.name == "forward" and len(plugin.args) > 1:
            own = Address.parse(plugin.args[0]).zone
            if covers(own, zone):
                yield Forward(own or origin, [*map(_host, plugin.args[1:])])
                return


def stub_forwards(zone: str, text: str) -> Iterator[Forward]:
    """Yield the forwards for *zone* in *text*, the stub domains of kube-dns; nothing if *text* is no JSON object."""
    with contextlib.suppress(ValueError, RecursionError):
        found = json.loads(text)
        for name, to in found.items() if isinstance(found, dict) else ():
            own = name.lower().removesuffix(".")
            if isinstance(to, list) and covers(own, zone):
                yield Forward(own, [*map(_host, to)])


def server_forwards(zone: str, servers: Iterable[Object]) -> Iterator[Forward]:
    """Yield the forwards for *zone* in the *servers* of OpenShift's DNS operator."""
    for server in servers:
        upstreams = (server.get("forwardPlugin") or {}).get("upstreams") or ()
        for name in server.get("zones") or ():
            own = str(name).lower().strip(".")
            if covers(own, zone):
                yield Forward(own, [*map(_host, upstreams)])


def nearest(forwards: Iterable[Forward]) -> Forward | None:
    """Return the forward with the longest zone, because DNS servers use that one; None if there is none."""
    return max(forwards, key=lambda each: len(each.zone), default=None)


def _host(text: object) -> str:
    """Return the address in *text*, which names a server, without its scheme and port."""
    host = str(text).rpartition("://")[2]
    for candidate in (host, host.rpartition(":")[0]):
        with contextlib.suppress(ValueError):
            return str(ipaddress.ip_address(candidate.strip("[]")))
    return host
