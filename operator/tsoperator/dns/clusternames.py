"""The objects that have a name in the cluster's DNS, and the addresses to which each of these names leads (pure).

A name of the tailnet has to work for Pods as it works for the tailnet's devices: with the same ports, and with TLS if
the devices get TLS. So if the proxy only passes packets on, the name leads to the backend itself. Otherwise the name
leads to the proxy. An object has no name if neither of the two would work for Pods.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from tsoperator.api.names import (
    ANNOTATION_CLUSTER_DNS,
    ANNOTATION_LAST_CLUSTER_IP,
    LABEL_PARENT_TYPE,
    PARENT_INGRESS,
    PROXY_GROUP,
)
from tsoperator.api.objects import Object, annotations, key_of, labels
from tsoperator.dns.nameserver import elected
from tsoperator.runtime.plan import Note


class Way(Enum):
    """The way in which an object of a user connects the cluster and the tailnet."""

    EGRESS = auto()
    """A proxy of its own leads Pods to a device."""
    EGRESS_GROUP = auto()
    """The proxies of a ProxyGroup lead Pods to a device. They listen at other ports than clients use."""
    FORWARDED = auto()
    """A proxy passes all packets that it gets from the tailnet on to a Service."""
    TLS_SERVICE = auto()
    """A proxy ends TLS in front of a Service, and takes no connections from the cluster."""
    INGRESS = auto()
    """A proxy ends TLS in front of an Ingress, and takes connections from the cluster if the user turns that on."""


def way_of(child: Object) -> Way:
    """Return the way in which the proxies behind the Service *child* connect the cluster and the tailnet."""
    if labels(child).get(PROXY_GROUP):
        return Way.EGRESS_GROUP
    if ANNOTATION_LAST_CLUSTER_IP in annotations(child):
        return Way.FORWARDED
    return Way.INGRESS if labels(child).get(LABEL_PARENT_TYPE) == PARENT_INGRESS else Way.EGRESS


class Leads(Enum):
    """The addresses to which a name leads."""

    PROXY = auto()
    """The addresses of the proxy's ready Pods."""
    GROUP = auto()
    """The cluster IPs of the Service in front of the proxies of a ProxyGroup."""
    BACKEND = auto()
    """The cluster IPs of the user's own Service."""


@dataclass(frozen=True, slots=True)
class Naming:
    """The addresses to which the name of an object in the cluster's DNS leads.

    If the object has no name, *leads* is None, *why* is the reason, and *instead* is a name that Pods can use. If the
    user knows the reason, *why* and *instead* are empty.
    """

    leads: Leads | None
    why: str = ""
    instead: str = ""


NO_NAME = Naming(None)


def naming(obj: Object, way: Way) -> Naming:
    """Return the addresses to which the name of *obj* in the cluster's DNS leads, or why *obj* has no name."""
    if is_opted_out(obj):
        return NO_NAME
    if way is Way.FORWARDED:
        return _forwarded_naming(obj)
    if way is Way.TLS_SERVICE:
        key = key_of(obj)
        why = "TLS ends at its proxy, which takes connections from the tailnet only"
        return Naming(None, why, f"{key.name}.{key.namespace}.svc")
    return Naming(Leads.GROUP if way is Way.EGRESS_GROUP else Leads.PROXY)


def _forwarded_naming(service: Object) -> Naming:
    spec = service["spec"]
    if spec.get("clusterIP", "") not in ("", "None"):
        return Naming(Leads.BACKEND)
    if spec.get("type") == "ExternalName":
        return Naming(None, "it has no cluster IP that the name could lead to", spec.get("externalName", ""))
    return NO_NAME


def name_notes(naming: Naming) -> list[Note]:
    """Return a list with the Event that says why an object has no name.

    The list is empty if the object has a name, or if the user knows the reason.
    """
    if not naming.why:
        return []
    words = (
        f"Pods can't use its name of the tailnet, because {naming.why}: let them use {naming.instead}, or set "
        f'annotation {ANNOTATION_CLUSTER_DNS} to "false" if none needs the name'
    )
    return [Note("Normal", "NoClusterName", words, once=True)]


def is_opted_out(obj: Object) -> bool:
    """Tell whether the user of *obj* has turned off its name in the cluster's DNS."""
    return annotations(obj).get(ANNOTATION_CLUSTER_DNS) == "false"


def names_ingresses(dnsconfigs: Sequence[Object]) -> bool:
    """Tell whether the DNSConfig in force lets Pods reach Ingresses by their names (``clusterDNS.ingressNames``).

    The operator uses this field even if another field of the DNSConfig is invalid, so that such a mistake restarts no
    proxy.
    """
    spec = (elected(dnsconfigs) or {}).get("spec") or {}
    return (spec.get("clusterDNS") or {}).get("ingressNames") is True
