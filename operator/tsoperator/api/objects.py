"""Objects as the API server sends them, the keys that identify them, and the resources that identify their kinds."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

Object = dict[str, Any]
"""A Kubernetes object, decoded from JSON and not changed after that."""


class Key(NamedTuple):
    """The namespace and the name of an object within its kind; *namespace* is empty for a cluster-scoped object."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind of objects, and the parts of the URL path at which the API server serves it."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    patchable: bool = True
    """True if the RBAC rules in existing installations let the operator patch the objects of this kind.

    The rules always let it replace the objects.
    """
    metadata_only: bool = False
    """True if lists and watches of this kind ask the API server only for the metadata of the objects."""
    since: str = ""
    """The version of Kubernetes that brought the kind, if the operator also runs on clusters that lack it."""

    @property
    def api_version(self) -> str:
        """The ``apiVersion`` of the objects of this kind."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def is_custom(self) -> bool:
        """True if a CRD defines the kind. The groups of Kubernetes itself are one word, or end in ``.k8s.io``."""
        return "." in self.group and not self.group.endswith(".k8s.io")

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the URL path of the object called *name*; without a *name*, that of the collection of objects."""
        parts = ["/apis", self.group, self.version] if self.group else ["/api", self.version]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        return "/".join([*parts, self.plural, *filter(None, (name, subresource))])

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural


@dataclass(frozen=True, slots=True)
class Signal:
    """A *kind* of things that are no objects of the cluster, but on which the operator's decisions depend.

    A feed shows them in the form of objects. It announces their changes as a watch announces those of real objects.
    """

    kind: str

    def __str__(self) -> str:
        return self.kind


CONFIGMAP = Resource("", "v1", "configmaps", "ConfigMap")
EVENT = Resource("", "v1", "events", "Event")
NODE = Resource("", "v1", "nodes", "Node", namespaced=False)
POD = Resource("", "v1", "pods", "Pod")
SECRET = Resource("", "v1", "secrets", "Secret")
SECRET_METADATA = Resource("", "v1", "secrets", "PartialObjectMetadata", metadata_only=True)
"""The resource of Secrets without their data.

A watch of it announces changes, but puts no credentials of users into memory.
"""
SERVICE = Resource("", "v1", "services", "Service")
SERVICEACCOUNT = Resource("", "v1", "serviceaccounts", "ServiceAccount")
DAEMONSET = Resource("apps", "v1", "daemonsets", "DaemonSet")
DEPLOYMENT = Resource("apps", "v1", "deployments", "Deployment")
STATEFULSET = Resource("apps", "v1", "statefulsets", "StatefulSet")
ENDPOINTSLICE = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", patchable=False)
INGRESS = Resource("networking.k8s.io", "v1", "ingresses", "Ingress")
INGRESSCLASS = Resource("networking.k8s.io", "v1", "ingressclasses", "IngressClass", namespaced=False)
LEASE = Resource("coordination.k8s.io", "v1", "leases", "Lease")
ROLE = Resource("rbac.authorization.k8s.io", "v1", "roles", "Role")
ROLEBINDING = Resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding")
CONNECTOR = Resource("tailscale.com", "v1alpha1", "connectors", "Connector", namespaced=False, patchable=False)
ADMISSIONPOLICY = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingadmissionpolicies",
    "ValidatingAdmissionPolicy",
    namespaced=False,
    patchable=False,
    since="1.30",
)
ADMISSIONBINDING = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingadmissionpolicybindings",
    "ValidatingAdmissionPolicyBinding",
    namespaced=False,
    patchable=False,
    since="1.30",
)
CRD = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False)
SERVICEMONITOR = Resource("monitoring.coreos.com", "v1", "servicemonitors", "ServiceMonitor", patchable=False)
DNSCONFIG = Resource("tailscale.com", "v1alpha1", "dnsconfigs", "DNSConfig", namespaced=False, patchable=False)
PROXYCLASS = Resource("tailscale.com", "v1alpha1", "proxyclasses", "ProxyClass", namespaced=False, patchable=False)
PEERRELAY = Resource("tailscale.com", "v1alpha1", "peerrelays", "PeerRelay", namespaced=False, patchable=False)
PROXYGROUP = Resource("tailscale.com", "v1alpha1", "proxygroups", "ProxyGroup", namespaced=False, patchable=False)
PROXYGROUPPOLICY = Resource("tailscale.com", "v1alpha1", "proxygrouppolicies", "ProxyGroupPolicy", patchable=False)
RECORDER = Resource("tailscale.com", "v1alpha1", "recorders", "Recorder", namespaced=False, patchable=False)
TAILNET = Resource("tailscale.com", "v1alpha1", "tailnets", "Tailnet", namespaced=False, patchable=False)

DEVICE = Signal("Device")
"""The devices of tailnets.

In the object that stands for a device, the namespace is the name of the device's Tailnet, and the name is the ID of the
device. ``aliases`` has the names and addresses by which the device is found.
"""

TAILSCALE_SERVICE = Signal("TailscaleService")
"""The Tailscale Services.

In the object that stands for a Tailscale Service, the namespace is the name of the Service's Tailnet, and the name is
the label of the Service.
"""

SUFFIXES = Signal("Suffixes")
"""The known suffixes of MagicDNS names, all of them as one object."""

IDENTITY = Signal("Identity")
"""The operator's own identity in the tailnet."""

RESOURCES = {
    (resource.api_version, resource.kind): resource
    for resource in (
        CONFIGMAP, EVENT, NODE, POD, SECRET, SERVICE, SERVICEACCOUNT, DAEMONSET, DEPLOYMENT, STATEFULSET, ENDPOINTSLICE,
        INGRESS, INGRESSCLASS, LEASE, ROLE, ROLEBINDING, ADMISSIONPOLICY, ADMISSIONBINDING, CRD, SERVICEMONITOR,
        CONNECTOR, DNSCONFIG, PROXYCLASS, PEERRELAY, PROXYGROUP, PROXYGROUPPOLICY, RECORDER, TAILNET,
    )
}  # fmt: skip
OWN_KINDS = tuple(each for each in RESOURCES.values() if each.group == CONNECTOR.group)
"""The kinds that the operator's own CRDs define, such as ProxyGroup."""

TAILNET_USERS = (CONNECTOR, PROXYGROUP, RECORDER, PEERRELAY)
"""The kinds whose objects can name a Tailnet."""


def resource_of(obj: Object) -> Resource:
    """Return the resource of *obj*, which must have the fields ``apiVersion`` and ``kind``."""
    return RESOURCES[obj["apiVersion"], obj["kind"]]


def key_of(obj: Object) -> Key:
    """Return the key of *obj*."""
    metadata = obj["metadata"]
    return Key(metadata.get("namespace", ""), metadata["name"])


def labels(obj: Object) -> Mapping[str, str]:
    """Return the labels of *obj*, empty if it has none."""
    return obj["metadata"].get("labels") or {}


def annotations(obj: Object) -> Mapping[str, str]:
    """Return the annotations of *obj*, empty if it has none."""
    return obj["metadata"].get("annotations") or {}


def spec_of(obj: Object) -> Mapping[str, Any]:
    """Return the spec of *obj*, even if the spec is invalid; an empty one if *obj* has none."""
    spec = obj.get("spec")
    return spec if isinstance(spec, Mapping) else {}


def spec_text(obj: Object, field: str) -> str:
    """Return the text in *field* of the spec of *obj*; empty if the field is missing or isn't a text."""
    value = spec_of(obj).get(field)
    return value if isinstance(value, str) else ""


def uid(obj: Object) -> str:
    """Return the UID that the API server gave *obj*."""
    value: str = obj["metadata"]["uid"]
    return value


def generation_of(obj: Object) -> int:
    """Return the generation of the spec of *obj*; 0 if it has none."""
    return int(obj["metadata"].get("generation", 0))


def by_age(obj: Object) -> tuple[str, Key]:
    """Return a value to sort objects by: older objects come first, and objects of the same age are sorted by key."""
    return obj["metadata"].get("creationTimestamp", ""), key_of(obj)


def is_deleting(obj: Object) -> bool:
    """Tell whether *obj* is being deleted."""
    return "deletionTimestamp" in obj["metadata"]


def has_finalizer(obj: Object, finalizer: str) -> bool:
    """Tell whether *obj* carries *finalizer*."""
    return finalizer in (obj["metadata"].get("finalizers") or ())
