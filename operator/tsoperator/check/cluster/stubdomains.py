"""The servers that the cluster's DNS asks for a zone, from the Corefiles of CoreDNS or the stub domains of kube-dns."""

from collections.abc import Iterable, Iterator, Sequence

from tsoperator.api.objects import Object, key_of
from tsoperator.dns.cluster.corefile import parse, parse_plugins
from tsoperator.dns.cluster.forwards import Forward, block_forwards, nearest, plugin_forwards, stub_forwards
from tsoperator.dns.cluster.platforms import COREFILE, CUSTOM, KUBE_DNS, NODE_CACHES, OVERRIDES, STUB_DOMAINS


def is_dns_config(configmap: Object) -> bool:
    """Tell whether the cluster's DNS reads *configmap*; the cache on each node (NodeLocal DNSCache) doesn't count."""
    name = key_of(configmap).name
    if name.startswith(NODE_CACHES):
        return False
    return COREFILE in (configmap.get("data") or {}) or name in (CUSTOM, KUBE_DNS)


def servers_for(zone: str, configmaps: Iterable[Object]) -> Sequence[str]:
    """Return the servers that are asked for names in *zone*; none if only those for all names are.

    Raises:
        CorefileError: a Corefile, or a file for one, can't be read.
    """
    wanted = zone.strip(".").lower()
    found = nearest(each for configmap in configmaps for each in _forwards(wanted, configmap) if each.zone)
    return found.to if found else ()


def _forwards(zone: str, configmap: Object) -> Iterator[Forward]:
    for key, text in (configmap.get("data") or {}).items():
        if key == STUB_DOMAINS:
            yield from stub_forwards(zone, text)
        elif key == COREFILE or key.endswith(".server"):
            yield from block_forwards(zone, parse(text).blocks)
        elif key.endswith(OVERRIDES):
            yield from plugin_forwards(zone, parse_plugins(text))
