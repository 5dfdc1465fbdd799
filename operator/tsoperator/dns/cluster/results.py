"""The facts that an edit of the cluster's DNS needs, and its results."""

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tsoperator.api.objects import Object
from tsoperator.api.rules import takes_from_cluster
from tsoperator.runtime.plan import Creation, Deletion, Patch

_ZONE: Final = re.compile(
    r"(?=.{1,253}$)[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*"
)


def covers(origin: str, zone: str) -> bool:
    """Tell whether *zone* is *origin* or in it; an empty *origin* is the root."""
    return not origin or f".{zone}".endswith(f".{origin}")


@dataclass(frozen=True, slots=True)
class DNSObjects:
    """The objects that tell what the cluster's DNS is, as far as they are there."""

    configmaps: Sequence[Object] = ()
    """ConfigMaps of namespace kube-system, at least those of `platforms.CONFIGMAPS`."""
    openshift: Object | None = None
    """The object ``default`` of OpenShift's ``dns.operator.openshift.io``."""
    workloads: Sequence[Object] = ()
    """The Deployment and the DaemonSet of CoreDNS, whose Pods mount the ConfigMap with the Corefile."""
    corefile: str = ""
    """The name of the ConfigMap with the Corefile, as the user says; it counts if the Pods don't tell it."""

    @property
    def all(self) -> Sequence[Object]:
        """All of these objects."""
        return [*self.configmaps, *([self.openshift] if self.openshift else [])]


@dataclass(frozen=True, slots=True)
class StubDomain:
    """Names in *zones* are asked of the nameserver at *addresses*: at least one of each, in their usual form."""

    zones: tuple[str, ...]
    addresses: tuple[str, ...]

    @classmethod
    def of(cls, zones: Sequence[str], addresses: Sequence[str], cluster_domain: str = "") -> "StubDomain | Obstacle":
        """Return the stub domain, the same whatever the order of *zones*, or why it can't be written anywhere.

        A zone may come from a control server, and goes into the configuration of a program: it has to be a domain name.
        It must not take names in *cluster_domain* away from the cluster, if that is given.
        """
        own = cluster_domain.strip(".").lower()
        names = tuple(sorted({zone.strip(".").lower() for zone in zones}))
        if not names:
            return Obstacle("NoZone", "no zone of the tailnet is known yet: wait until a device of it is there")
        for name in names:
            if not _ZONE.fullmatch(name):
                return Obstacle("InvalidZone", f"{name!r} isn't a domain name: correct operatorConfig.zones")
            if own and takes_from_cluster(name, own):
                message = (
                    f"a stub domain for {name} would take names from the cluster, whose domain is {own}: "
                    "give the tailnet another domain, or correct operatorConfig.zones"
                )
                return Obstacle("InvalidZone", message)
        try:
            hosts = tuple(dict.fromkeys(str(ipaddress.ip_address(address)) for address in addresses))
        except ValueError as error:
            return Obstacle("InvalidAddress", f"the nameserver's address can't be used: {error}")
        if not hosts:
            return Obstacle("NoAddress", "the nameserver has no address yet: wait until its Service has a cluster IP")
        return cls(names, hosts)


@dataclass(frozen=True, slots=True)
class Change:
    """One object has to be written.

    The caller adds the object's ``resourceVersion`` to a Patch, so that somebody else's edit at the same time is kept.
    A ConfigMap that is created or deleted is one that only the operator writes to.
    """

    step: Patch | Creation | Deletion
    restart: str = ""
    """The restart by hand after which the change counts; empty if the cluster's DNS loads it by itself."""


@dataclass(frozen=True, slots=True)
class Nothing:
    """The objects are as they should be."""

    restart: str = ""
    """As for a Change: nobody can tell from the objects whether the restart has happened."""


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Nothing can be changed. *reason* suits a condition; *message* says why, and what somebody can do about it."""

    reason: str
    message: str
