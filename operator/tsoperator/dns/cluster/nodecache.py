"""Tells whether the stub domain also works for Pods that ask NodeLocal DNSCache, which has a Corefile of its own.

The operator only reads the configuration of the cache, and says what to write there. The configuration belongs to the
cache's installer, and no object shows which ConfigMap the caches on the nodes read. A node whose cache can't read its
Corefile has no DNS.
"""

import json
from collections.abc import Sequence
from typing import Final

from tsoperator.dns.cluster.corefile import CorefileError, parse
from tsoperator.dns.cluster.forwards import block_forwards, nearest, stub_forwards

_CLUSTER_DNS: Final = "__PILLAR__CLUSTER__DNS__"  # the cache puts the address of the cluster's DNS there
_REVERSE: Final = "in-addr.arpa"  # the cache asks the cluster's DNS for names in this zone and in the cluster's domain


def bypass(
    text: str, stub_domains: str | None, zones: Sequence[str], addresses: Sequence[str], cluster_domain: str
) -> str:
    """Say why Pods that ask the cache don't reach the stub domain for *zones*, and how to repair that.

    Return an empty text if they reach it. *text* is the Corefile of the cache. *stub_domains* are kube-dns's stub
    domains; None if the cache doesn't read them, as with Kubespray. *addresses* are those of the nameserver.
    *cluster_domain* is the cluster's own domain.
    """
    try:
        blocks = parse(text).blocks
    except CorefileError as error:
        return f"the Corefile of NodeLocal DNSCache can't be read, so whether it forwards the zone is unknown: {error}"
    inside = {_CLUSTER_DNS}
    for zone in (cluster_domain, _REVERSE):
        found = nearest(block_forwards(zone, blocks))
        inside.update(found.to if found and found.zone else ())
    ways = {zone: nearest([*block_forwards(zone, blocks), *stub_forwards(zone, stub_domains or "")]) for zone in zones}
    missed = [zone for zone, way in ways.items() if way is None or (not way.zone and not inside.issuperset(way.to))]
    if not missed:
        return ""
    first = ways[missed[0]]
    to = f"asks {', '.join(first.to)}" if first else "asks nobody"
    return (
        f"Pods that use NodeLocal DNSCache don't get to the cluster's DNS for names in {missed[0]}: the cache {to}. "
        f"Add {_kubespray(missed, addresses) if stub_domains is None else _stub_domains(missed, addresses)}"
    )


def _stub_domains(zones: Sequence[str], addresses: Sequence[str]) -> str:
    entries = json.dumps({zone: [*addresses] for zone in zones})[1:-1]
    where = "the JSON object stubDomains in ConfigMap kube-system/kube-dns"
    return f"{entries} to {where}, which the cache reads, too. Make that ConfigMap if it isn't there"


def _kubespray(zones: Sequence[str], addresses: Sequence[str]) -> str:
    entry = json.dumps({"zones": [*zones], "nameservers": [*addresses], "cache": 5})
    return (
        f"{entry} to the list nodelocaldns_external_zones of Kubespray, or a server block that forwards these zones to "
        "the Corefile in ConfigMap kube-system/nodelocaldns"
    )
