"""The objects that configure the cluster's DNS, our stub domain, and the writes that change these objects."""

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tsoperator.api.objects import Object
from tsoperator.api.rules import takes_from_cluster
from tsoperator.runtime.plan import Creation, Deletion, Patch, Refusal

_ZONE: Final = re.compile(
    r"(?=.{1,253}$)[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*"
)


def covers(origin: str, zone: str) -> bool:
    """Tell whether *zone* is the same as the zone *origin*, or inside of it; an empty *origin* is the root."""
    return not origin or f".{zone}".endswith(f".{origin}")


@dataclass(frozen=True, slots=True)
class DNSObjects:
    """The existing objects that show what the cluster's DNS is."""

    configmaps: Sequence[Object] = ()
    """ConfigMaps of namespace kube-system, at least those of `platforms.CONFIGMAPS`."""
    openshift: Object | None = None
    """The object ``default`` of OpenShift's ``dns.operator.openshift.io``."""
    workloads: Sequence[Object] = ()
    """The Deployment and the DaemonSet of CoreDNS, whose Pods mount the ConfigMap with the Corefile."""
    corefile: str = ""
    """The name that the user gives for the ConfigMap with the Corefile.

    It is used if the Pods of CoreDNS don't show which ConfigMap they read.
    """

    @property
    def all(self) -> Sequence[Object]:
        """The objects that configure the cluster's DNS: the ConfigMaps, and OpenShift's DNS object if there is one."""
        return [*self.configmaps, *([self.openshift] if self.openshift else [])]


@dataclass(frozen=True, slots=True)
class StubDomain:
    """The *zones* to forward to the nameserver, and its *addresses*: at least one of each, in their canonical form."""

    zones: tuple[str, ...]
    addresses: tuple[str, ...]

    @classmethod
    def of(cls, zones: Sequence[str], addresses: Sequence[str], cluster_domain: str = "") -> "StubDomain | Refusal":
        """Return the stub domain with these *zones* and *addresses*, or a refusal if they are unfit for one.

        The order of *zones* doesn't matter. Each zone has to be a domain name, because a zone can come from a control
        server, and the operator writes it into the configuration of a program. If *cluster_domain* is given, a zone
        must not take names in that domain away from the cluster.
        """
        own = cluster_domain.strip(".").lower()
        names = tuple(sorted({zone.strip(".").lower() for zone in zones}))
        if not names:
            return Refusal("no zone of the tailnet is known yet: wait until a device of it is there", "NoZone")
        for name in names:
            if not _ZONE.fullmatch(name):
                return Refusal(f"{name!r} isn't a domain name: correct operatorConfig.zones", "InvalidZone")
            if own and takes_from_cluster(name, own):
                message = (
                    f"a stub domain for {name} would take names from the cluster, whose domain is {own}: "
                    "give the tailnet another domain, or correct operatorConfig.zones"
                )
                return Refusal(message, "InvalidZone")
        try:
            hosts = tuple(dict.fromkeys(str(ipaddress.ip_address(address)) for address in addresses))
        except ValueError as error:
            return Refusal(f"the nameserver's address can't be used: {error}", "InvalidAddress")
        if not hosts:
            return Refusal("the nameserver has no address yet: wait until its Service has a cluster IP", "NoAddress")
        return cls(names, hosts)


@dataclass(frozen=True, slots=True)
class Change:
    """A write of one object of the cluster's DNS.

    If *step* is a Patch, the caller adds the object's ``resourceVersion`` to it. So the API server refuses the Patch if
    somebody else has edited the object at the same time. The operator creates and deletes only a ConfigMap of its own.
    """

    step: Patch | Creation | Deletion
    restart: str = ""
    """The restart by hand after which the cluster's DNS uses the change; empty if no restart is needed."""


@dataclass(frozen=True, slots=True)
class Nothing:
    """The result that there is nothing to write, because the cluster's DNS has the right configuration already."""

    restart: str = ""
    """The restart by hand after which the cluster's DNS uses its configuration; empty if no restart is needed.

    The objects don't show whether somebody has restarted the DNS server since the last change.
    """
