"""Where the cluster's DNS asks for a zone, as its ConfigMaps say: CoreDNS's Corefiles, and kube-dns's stub domains."""

import contextlib
import ipaddress
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from tsoperator.api.objects import Object, key_of

_CUSTOM = "coredns-custom"
_KUBE_DNS = "kube-dns"


class Forward(NamedTuple):
    """Questions for names in *zone* go to the servers *to*, which are addresses where they can be told."""

    zone: str
    to: Sequence[str]


def is_dns_config(configmap: Object) -> bool:
    """Tell whether the cluster's DNS reads *configmap*; the cache on each node (NodeLocal DNSCache) doesn't count."""
    name = key_of(configmap).name
    if name.startswith("node-local-dns"):
        return False
    return "Corefile" in (configmap.get("data") or {}) or name in (_CUSTOM, _KUBE_DNS)


def forwards_of(configmap: Object) -> list[Forward]:
    """Return what a ConfigMap of the cluster's DNS forwards."""
    data = configmap.get("data") or {}
    if "stubDomains" in data:
        return [*_stub_domains(data["stubDomains"])]
    return [forward for text in data.values() for forward in _corefile(text)]


def servers_for(zone: str, forwards: Iterable[Forward]) -> list[str]:
    """Return the servers that are asked for names in *zone*; none if only those for all names are."""
    wanted = zone.strip(".").lower()
    fitting = [each for each in forwards if each.zone and f".{wanted}".endswith(f".{each.zone}")]
    longest = max(fitting, key=lambda each: len(each.zone), default=Forward("", ()))
    return [*longest.to]


def _stub_domains(text: str) -> Iterator[Forward]:
    with contextlib.suppress(ValueError):
        found = json.loads(text)
        if isinstance(found, dict):
            yield from (Forward(_zone(zone), [*map(_host, to)]) for zone, to in found.items() if isinstance(to, list))


def _corefile(text: str) -> Iterator[Forward]:
    """Yield what the server blocks of a Corefile forward, and what is forwarded outside of any, as in an import."""
    zones: list[str] = []
    depth = 0
    for line in text.splitlines():
        words = line.partition("#")[0].split()
        if not words:
            continue
        opens = words[-1] == "{"
        if opens and depth == 0:
            zones = [_zone(word) for word in words[:-1]]
        elif words[0] == "forward" and len(words) > 2:
            yield from _forwards(zones, words[1], words[2:-1] if opens else words[2:])
        depth += opens
        depth -= words[0] == "}"


def _forwards(zones: Sequence[str], origin: str, to: Sequence[str]) -> Iterator[Forward]:
    servers = [*map(_host, to)]
    if _zone(origin):
        yield Forward(_zone(origin), servers)
    else:
        yield from (Forward(zone, servers) for zone in zones)


def _zone(text: str) -> str:
    """Return a zone without scheme and port; empty for the root."""
    name = text.rpartition("://")[2].strip(",")
    return name.partition(":")[0].strip(".").lower()


def _host(text: str) -> str:
    """Return the address of a server without scheme and port."""
    host = str(text).rpartition("://")[2]
    for candidate in (host, host.rpartition(":")[0]):
        with contextlib.suppress(ValueError):
            return str(ipaddress.ip_address(candidate.strip("[]")))
    return host
