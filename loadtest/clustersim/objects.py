"""Objects in their JSON form, and the kinds that the simulated cluster knows."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Object = dict[str, Any]
"""A Kubernetes object, decoded from JSON. The code never changes an object; it builds changed copies."""


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind of objects, with the parts of its URL path; *status* tells whether it has a status subresource."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    status: bool = False

    @property
    def api_version(self) -> str:
        """The ``apiVersion`` of the kind's objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def singular(self) -> str:
        """The singular name of the kind, as kubectl accepts it."""
        return self.kind.lower()

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural


CONFIGMAP = Resource("", "v1", "configmaps", "ConfigMap", short_names=("cm",))
EVENT = Resource("", "v1", "events", "Event", short_names=("ev",))
NAMESPACE = Resource("", "v1", "namespaces", "Namespace", namespaced=False, short_names=("ns",), status=True)
NODE = Resource("", "v1", "nodes", "Node", namespaced=False, short_names=("no",), status=True)
POD = Resource("", "v1", "pods", "Pod", short_names=("po",), status=True)
SECRET = Resource("", "v1", "secrets", "Secret")
SERVICE = Resource("", "v1", "services", "Service", short_names=("svc",), status=True)
SERVICEACCOUNT = Resource("", "v1", "serviceaccounts", "ServiceAccount", short_names=("sa",))

DAEMONSET = Resource("apps", "v1", "daemonsets", "DaemonSet", short_names=("ds",), status=True)
DEPLOYMENT = Resource("apps", "v1", "deployments", "Deployment", short_names=("deploy",), status=True)
REPLICASET = Resource("apps", "v1", "replicasets", "ReplicaSet", short_names=("rs",), status=True)
STATEFULSET = Resource("apps", "v1", "statefulsets", "StatefulSet", short_names=("sts",), status=True)
ENDPOINTSLICE = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
INGRESS = Resource("networking.k8s.io", "v1", "ingresses", "Ingress", short_names=("ing",), status=True)
INGRESSCLASS = Resource("networking.k8s.io", "v1", "ingressclasses", "IngressClass", namespaced=False)
LEASE = Resource("coordination.k8s.io", "v1", "leases", "Lease")
ROLE = Resource("rbac.authorization.k8s.io", "v1", "roles", "Role")
ROLEBINDING = Resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding")
ADMISSIONPOLICY = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingadmissionpolicies",
    "ValidatingAdmissionPolicy",
    namespaced=False,
    status=True,
)
"""ValidatingAdmissionPolicies. The simulated API server stores them, but applies none."""
ADMISSIONBINDING = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingadmissionpolicybindings",
    "ValidatingAdmissionPolicyBinding",
    namespaced=False,
)
WEBHOOKS = tuple(
    Resource("admissionregistration.k8s.io", "v1", f"{kind.lower()}s", kind, namespaced=False)
    for kind in ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration")
)
"""Configurations of admission webhooks. The simulated API server stores them, but calls no webhook."""
CRD = Resource(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    namespaced=False,
    short_names=("crd", "crds"),
    status=True,
)
CRD_FINALIZER = "customresourcecleanup.apiextensions.k8s.io"
"""The finalizer of a CustomResourceDefinition. It is removed when the last object of the kind is gone."""


def _tailscale(plural: str, kind: str, *short_names: str, namespaced: bool = False) -> Resource:
    return Resource("tailscale.com", "v1alpha1", plural, kind, namespaced, short_names, status=True)


CONNECTOR = _tailscale("connectors", "Connector", "cn")
DNSCONFIG = _tailscale("dnsconfigs", "DNSConfig", "dc")
PEERRELAY = _tailscale("peerrelays", "PeerRelay", "pr")
PROXYCLASS = _tailscale("proxyclasses", "ProxyClass")
PROXYGROUP = _tailscale("proxygroups", "ProxyGroup", "pg")
PROXYGROUPPOLICY = _tailscale("proxygrouppolicies", "ProxyGroupPolicy", "pgp", namespaced=True)
RECORDER = _tailscale("recorders", "Recorder", "rec")
TAILNET = _tailscale("tailnets", "Tailnet", "tn")

SERVICEMONITOR = Resource("monitoring.coreos.com", "v1", "servicemonitors", "ServiceMonitor", short_names=("smon",))
"""A kind of the Prometheus operator. Only clusters that have that operator serve it."""

CUSTOM_RESOURCES = (CONNECTOR, DNSCONFIG, PEERRELAY, PROXYCLASS, PROXYGROUP, PROXYGROUPPOLICY, RECORDER, TAILNET)
BUILTIN_RESOURCES = (
    CONFIGMAP, EVENT, NAMESPACE, NODE, POD, SECRET, SERVICE, SERVICEACCOUNT, DAEMONSET, DEPLOYMENT, REPLICASET,
    STATEFULSET, ENDPOINTSLICE, INGRESS, INGRESSCLASS, LEASE, ROLE, ROLEBINDING, ADMISSIONPOLICY, ADMISSIONBINDING,
    *WEBHOOKS, CRD,
)  # fmt: skip
RESOURCES = BUILTIN_RESOURCES + CUSTOM_RESOURCES


def clone(value: Any) -> Any:
    """Return a deep copy of a JSON value without its null fields, which the API server treats as absent."""
    if isinstance(value, dict):
        return {name: clone(item) for name, item in value.items() if item is not None}
    if isinstance(value, list):
        return [clone(item) for item in value]
    return value


def namespace_of(obj: Object) -> str:
    """Return the namespace of *obj*, or "" for a cluster-scoped object."""
    value: str = obj["metadata"].get("namespace") or ""
    return value


def name_of(obj: Object) -> str:
    """Return the name of *obj*."""
    value: str = obj["metadata"]["name"]
    return value


def labels_of(obj: Object) -> Mapping[str, str]:
    """Return the labels of *obj*, or {} if it has none."""
    return obj["metadata"].get("labels") or {}
