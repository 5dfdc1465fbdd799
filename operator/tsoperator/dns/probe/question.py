"""Chooses the question that the prober asks the nameserver and the cluster's DNS (pure)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from tsoperator.api.objects import Object, uid
from tsoperator.dns.canary import canary_name, service_addresses
from tsoperator.dns.cluster.results import DNSObjects
from tsoperator.dns.cluster.targets import targets


@dataclass(frozen=True, slots=True)
class Canary:
    """A *name* in *zone* that only the nameserver of one DNSConfig knows."""

    zone: str
    name: str


@dataclass(frozen=True, slots=True)
class CanaryQuestion:
    """The question whether the *nameserver* and the *servers* know each of the *canaries*.

    The right answer is the nameserver's address. *seen* has the versions of the objects on which the answers depend:
    when a version changes, the prober asks the same question again. *targets* has, for each zone, the addresses to
    which the cluster's DNS forwards it; None if they aren't known.
    """

    servers: tuple[str, ...]
    nameserver: str
    canaries: tuple[Canary, ...]
    seen: tuple[object, ...] = ()
    targets: Mapping[str, Sequence[str] | None] = field(default_factory=dict)

    def is_same(self, other: "CanaryQuestion | None") -> bool:
        """Tell whether *other* has the same servers and canaries, so that its answers also answer this question."""
        return other is not None and replace(self, seen=(), targets={}) == replace(other, seen=(), targets={})


class Asked(NamedTuple):
    """The *zones* about which the prober asks, and the *servers* of the cluster's DNS that it asks."""

    zones: Sequence[str]
    servers: Sequence[str]


def question_of(
    dnsconfig: Object | None,
    service: Object | None,
    deployment: Object | None,
    dns: DNSObjects | None,
    asked: Asked,
) -> CanaryQuestion | None:
    """Return the question whether the nameserver of *dnsconfig* answers, and whether the cluster's DNS forwards to it.

    Return None if the DNSConfig, an address of the nameserver or a zone is missing. *dns* is the configuration of the
    cluster's DNS; None if it isn't known.
    """
    addresses = service_addresses(service)
    if dnsconfig is None or not addresses or not asked.zones:
        return None
    status = (deployment or {}).get("status") or {}
    configuration = dns.all if dns else ()
    return CanaryQuestion(
        tuple(asked.servers),
        addresses[0],
        tuple(Canary(zone, canary_name(uid(dnsconfig), zone)) for zone in asked.zones),
        (
            dnsconfig["metadata"].get("generation"),
            status.get("readyReplicas"),
            status.get("updatedReplicas"),
            *(each["metadata"].get("resourceVersion") for each in configuration),
        ),
        {zone: targets(dns, zone) for zone in asked.zones} if dns else {},
    )
