"""Finds out what the cluster's DNS is, and which object tells it of stub domains."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tsoperator.api.objects import CONFIGMAP, Key, Object, Resource, key_of
from tsoperator.desired.clusterdns.results import DNSObjects, Refusal

NAMESPACE: Final = "kube-system"
COREFILES: Final = ("coredns", "rke2-coredns-rke2-coredns")
CUSTOM: Final = "coredns-custom"
KUBE_DNS: Final = "kube-dns"
NODE_CACHE: Final = "node-local-dns"
CONFIGMAPS: Final = (*COREFILES, CUSTOM, KUBE_DNS, NODE_CACHE)
"""The ConfigMaps of NAMESPACE that say what the cluster's DNS is."""
COREFILE: Final = "Corefile"
CUSTOM_KEY: Final = "tailnet.server"
STUB_DOMAINS: Final = "stubDomains"


class Kind(StrEnum):
    """What the cluster's DNS reads, as spec.clusterDNS.platform of a DNSConfig calls it."""

    CORE_DNS = "CoreDNS"
    CORE_DNS_CUSTOM = "CoreDNSCustom"
    KUBE_DNS = "KubeDNS"
    OPENSHIFT = "OpenShift"


@dataclass(frozen=True, slots=True)
class Platform:
    """What the cluster's DNS is."""

    kind: Kind
    resource: Resource
    key: Key
    """The object to write; for CoreDNSCustom it may not be there yet."""
    entry: str
    """The key in its data, or the field."""
    restart: str = ""
    """What has to be restarted by hand after a change; empty if the cluster's DNS loads it by itself."""
    node_cache: str = ""
    """Why Pods that use NodeLocal DNSCache don't get to the stub domain, and the cure; empty if they do."""

    @property
    def where(self) -> str:
        """Say where the stub domain belongs, for people."""
        return f"key {self.entry} of ConfigMap {self.key}"


def find_platform(objects: DNSObjects, wanted: str | None = None, zones: Sequence[str] = ()) -> Platform | Refusal:
    """Return what the cluster's DNS is, or *wanted* of spec.clusterDNS.platform if that is set and there."""
    for name in COREFILES:
        if configmap(objects, name) is not None:
            return Platform(Kind.CORE_DNS, CONFIGMAP, Key(NAMESPACE, name), COREFILE)
    message = (
        "the cluster's DNS isn't known: kube-system has none of the ConfigMaps coredns and kube-dns; "
        "set spec.clusterDNS.platform, or tell your DNS of the nameserver by hand"
    )
    return Refusal("UnknownPlatform", message)


def configmap(objects: DNSObjects, name: str) -> Object | None:
    """Return the ConfigMap of kube-system that is called *name*."""
    return next((each for each in objects.configmaps if key_of(each) == Key(NAMESPACE, name)), None)
