"""Finds the servers to which the configuration of the cluster's DNS forwards queries for a zone."""

from collections.abc import Sequence

from tsoperator.dns.cluster.corefile import CorefileError, parse
from tsoperator.dns.cluster.forwards import Forward, block_forwards, nearest, server_forwards, stub_forwards
from tsoperator.dns.cluster.openshift import servers_of
from tsoperator.dns.cluster.platforms import KUBE_DNS, STUB_DOMAINS, configmap, corefiles, data_of
from tsoperator.dns.cluster.results import DNSObjects


def targets(objects: DNSObjects, zone: str) -> Sequence[str] | None:
    """Return the servers to which the cluster's DNS forwards queries for *zone*; None if they aren't known.

    The result leaves out the servers to which the cluster's DNS forwards queries for all names.
    """
    try:
        found = _forwards(objects, zone)
    except CorefileError:
        return None
    if found is None:
        return None
    best = nearest(found)
    return best.to if best is not None and best.zone else ()


def _forwards(objects: DNSObjects, zone: str) -> Sequence[Forward] | None:
    """Return the forwards for *zone*; None if they aren't known. Raises CorefileError."""
    if objects.openshift is not None:
        return [*server_forwards(zone, servers_of(objects.openshift))]
    if texts := [text for _, text in corefiles(objects)]:
        return [forward for text in texts for forward in block_forwards(zone, parse(text).blocks)]
    stub_domains = configmap(objects, KUBE_DNS)
    return [*stub_forwards(zone, data_of(stub_domains).get(STUB_DOMAINS, "{}"))] if stub_domains else None
