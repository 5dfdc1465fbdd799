"""Finds out where the configuration of the cluster's DNS sends questions for a zone."""

from collections.abc import Iterator, Sequence

from tsoperator.desired.clusterdns.corefile import CorefileError, parse
from tsoperator.desired.clusterdns.forwards import Forward, block_forwards, nearest, stub_forwards
from tsoperator.desired.clusterdns.platforms import KUBE_DNS, STUB_DOMAINS, configmap, corefiles, data_of
from tsoperator.desired.clusterdns.results import DNSObjects


def targets(objects: DNSObjects, zone: str) -> Sequence[str]:
    """Return the servers that are asked for names in *zone*; none if that isn't known, or if it is so for all names."""
    found = nearest([*_forwards(objects, zone)])
    return found.to if found is not None and found.zone else ()


def _forwards(objects: DNSObjects, zone: str) -> Iterator[Forward]:
    texts = [text for _, text in corefiles(objects)]
    for text in texts:
        try:
            yield from block_forwards(zone, parse(text).blocks)
        except CorefileError:
            continue  # what CoreDNS can't read it doesn't follow
    if not texts:
        yield from stub_forwards(zone, data_of(configmap(objects, KUBE_DNS)).get(STUB_DOMAINS, "{}"))
