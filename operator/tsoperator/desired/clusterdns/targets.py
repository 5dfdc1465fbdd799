"""Finds out where the configuration of the cluster's DNS sends questions for a zone."""

from collections.abc import Sequence

from tsoperator.desired.clusterdns.corefile import CorefileError, parse
from tsoperator.desired.clusterdns.forwards import block_forwards, nearest, stub_forwards
from tsoperator.desired.clusterdns.platforms import KUBE_DNS, STUB_DOMAINS, configmap, corefiles, data_of
from tsoperator.desired.clusterdns.results import DNSObjects


def targets(objects: DNSObjects, zone: str) -> Sequence[str] | None:
    """Return the servers that are asked for names in *zone*, but not for all names; None if that isn't known."""
    texts = [text for _, text in corefiles(objects)]
    stub_domains = configmap(objects, KUBE_DNS)
    try:
        found = [forward for text in texts for forward in block_forwards(zone, parse(text).blocks)]
    except CorefileError:
        return None
    if not texts:
        if stub_domains is None:
            return None
        found = [*stub_forwards(zone, data_of(stub_domains).get(STUB_DOMAINS, "{}"))]
    best = nearest(found)
    return best.to if best is not None and best.zone else ()
