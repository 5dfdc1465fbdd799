"""Tells whether Pods that ask NodeLocal DNSCache, which has a Corefile of its own, get to the stub domain."""

from collections.abc import Sequence
from typing import Final

from tsoperator.desired.clusterdns.corefile import CorefileError, parse
from tsoperator.desired.clusterdns.forwards import block_forwards, nearest, stub_forwards

_CLUSTER_DNS: Final = "__PILLAR__CLUSTER__DNS__"  # the cache puts the address of the cluster's DNS there
_STUB_DOMAINS: Final = "stubDomains in ConfigMap kube-system/kube-dns, which the cache reads, too"
_BLOCKS: Final = (
    "nodelocaldns_external_zones of Kubespray, or as a server block to the Corefile in ConfigMap "
    "kube-system/nodelocaldns"
)
_INSIDE: Final = ("cluster.local", "in-addr.arpa")  # zones that the cache asks the cluster's DNS for


def bypass(text: str, stub_domains: str | None, zones: Sequence[str]) -> str:
    """Say why Pods don't get to the stub domain for *zones*, and the cure; return "" if they do.

    *text* is the Corefile of the cache, and *stub_domains* those of kube-dns, which the cache takes over; None if it
    doesn't, as with Kubespray.
    """
    try:
        blocks = parse(text).blocks
    except CorefileError as error:
        return f"the Corefile of NodeLocal DNSCache can't be read, so whether it forwards the zone is unknown: {error}"
    inside = {_CLUSTER_DNS}
    for zone in _INSIDE:
        found = nearest(block_forwards(zone, blocks))
        inside.update(found.to if found and found.zone else ())
    for zone in zones:
        found = nearest([*block_forwards(zone, blocks), *stub_forwards(zone, stub_domains or "")])
        if found is None or (not found.zone and not inside.issuperset(found.to)):
            to = f"asks {', '.join(found.to)}" if found else "asks nobody"
            return (
                f"Pods that use NodeLocal DNSCache don't get to the cluster's DNS for names in {zone}: the cache {to}. "
                f"Add {zone} with the nameserver's address to {_BLOCKS if stub_domains is None else _STUB_DOMAINS}"
            )
    return ""
