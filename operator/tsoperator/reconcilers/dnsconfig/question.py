"""Decides which question the cluster's DNS is asked (pure)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tsoperator.api.objects import Object, uid
from tsoperator.desired.canary import canary_name, service_addresses


@dataclass(frozen=True, slots=True)
class Canary:
    """A *name* in *zone* that only our nameserver knows."""

    zone: str
    name: str


@dataclass(frozen=True, slots=True)
class Question:
    """Whether *servers* know each of the *canaries*, whose address is the *nameserver*'s.

    *seen* has the versions of what the answers depend on besides: when they change, the same question is asked anew.
    *targets* are the addresses to which the cluster's DNS forwards each zone, where that is known.
    """

    servers: tuple[str, ...]
    nameserver: str
    canaries: tuple[Canary, ...]
    seen: tuple[object, ...] = ()
    targets: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def is_same(self, other: "Question | None") -> bool:
        """Tell whether the answers to *other* are answers to this question."""
        return other is not None and replace(self, seen=(), targets={}) == replace(other, seen=(), targets={})


def question_of(
    dnsconfig: Object | None,
    service: Object | None,
    deployment: Object | None,
    zones: Sequence[str],
    servers: Sequence[str],
) -> Question | None:
    """Return the question whether *servers* ask the nameserver of *dnsconfig* for *zones*; None if there is none."""
    addresses = service_addresses(service)
    if dnsconfig is None or not addresses or not servers:
        return None
    status = (deployment or {}).get("status") or {}
    return Question(
        tuple(servers),
        addresses[0],
        tuple(Canary(zone, canary_name(uid(dnsconfig), zone)) for zone in zones),
        (dnsconfig["metadata"].get("generation"), status.get("readyReplicas"), status.get("updatedReplicas")),
    )
