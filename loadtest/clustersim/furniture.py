"""The objects that a cluster has before the operator starts: those of kubeadm, and those of the operator's chart."""

from collections.abc import Iterable

from clustersim.kinds import Kinds
from clustersim.objects import (
    BUILTIN_RESOURCES,
    CONFIGMAP,
    CRD,
    CRD_FINALIZER,
    INGRESSCLASS,
    ROLE,
    ROLEBINDING,
    SERVICE,
    SERVICEACCOUNT,
    Object,
    Resource,
    name_of,
)
from clustersim.store import Store

_ALL_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
_API_SERVER: Object = {
    "metadata": {"name": "kubernetes", "namespace": "default"},
    "spec": {"clusterIP": "10.96.0.1", "ports": [{"name": "https", "port": 443, "targetPort": 6443}]},
}
COREFILE = """\
.:53 {
    errors
    health {
       lameduck 5s
    }
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {
       pods insecure
       fallthrough in-addr.arpa ip6.arpa
       ttl 30
    }
    prometheus :9153
    forward . /etc/resolv.conf {
       max_concurrent 1000
    }
    cache 30 {
       disable success cluster.local
       disable denial cluster.local
    }
    loop
    reload
    loadbalance
}
"""
"""The Corefile that kubeadm writes for CoreDNS."""
COREDNS: Object = {"metadata": {"name": "coredns", "namespace": "kube-system"}, "data": {"Corefile": COREFILE}}


def furnish(store: Store, kinds: Kinds, operator_namespace: str) -> None:
    """Create the objects of kubeadm and of the operator's chart, and a definition for each custom kind."""
    store.create(SERVICE, _API_SERVER)
    store.create(CONFIGMAP, COREDNS)
    for resource, obj in chart(operator_namespace):
        store.create(resource, obj)
    for resource in kinds.all():
        if resource not in BUILTIN_RESOURCES:
            store.create(CRD, definition(resource))


def definition(resource: Resource) -> Object:
    """Return a CustomResourceDefinition for *resource* whose schema accepts objects with any fields."""
    version = {
        "name": resource.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
        "subresources": {"status": {}} if resource.status else {},
    }
    names = {
        "plural": resource.plural,
        "singular": resource.singular,
        "kind": resource.kind,
        "listKind": f"{resource.kind}List",
        "shortNames": list(resource.short_names),
    }
    scope = "Namespaced" if resource.namespaced else "Cluster"
    return {
        "metadata": {"name": f"{resource.plural}.{resource.group}", "finalizers": [CRD_FINALIZER]},
        "spec": {"group": resource.group, "scope": scope, "names": names, "versions": [version]},
    }


def chart(namespace: str) -> Iterable[tuple[Resource, Object]]:
    """Return the objects that the operator's chart makes for the operator in *namespace*."""
    yield INGRESSCLASS, {"metadata": {"name": "tailscale"}, "spec": {"controller": "tailscale.com/ts-ingress"}}
    metadata = {"name": "proxies", "namespace": namespace}
    account: Object = {"metadata": metadata}
    yield SERVICEACCOUNT, account
    yield SERVICEACCOUNT, {"metadata": {"name": "operator", "namespace": namespace}}
    rules = [
        {"apiGroups": [""], "resources": ["secrets"], "verbs": _ALL_VERBS},
        {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch", "get"]},
    ]
    yield ROLE, {"metadata": metadata, "rules": rules}
    subject = {"kind": "ServiceAccount", "name": name_of(account), "namespace": namespace}
    role = {"kind": "Role", "name": "proxies", "apiGroup": "rbac.authorization.k8s.io"}
    yield ROLEBINDING, {"metadata": metadata, "subjects": [subject], "roleRef": role}
