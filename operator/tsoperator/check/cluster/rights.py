"""The operator's rights in the cluster: those that the chart gives it, and a check that the API server grants them."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from tsoperator.api.objects import OWN_KINDS, Object
from tsoperator.check.cluster.installed import Installed
from tsoperator.check.findings import Finding, failed, ok
from tsoperator.dns.cluster.platforms import CONFIGMAPS, COREDNS, CUSTOM, NODE_CACHES, OPENSHIFT_DNS, OPENSHIFT_NAME
from tsoperator.dns.cluster.platforms import NAMESPACE as DNS_NAMESPACE
from tsoperator.dns.nameserver import OWN_NAME

EVERYWHERE: Final = ""
"""The namespace in a question about all namespaces, or about objects without a namespace."""

_TAILSCALE: Final = "tailscale.com"
_RBAC: Final = "rbac.authorization.k8s.io"
_ALL: Final = "get list watch create update patch delete"
_SHOWN: Final = 5  # if there are more findings, they become one, because probably a whole role is missing


class Right(NamedTuple):
    """The right to do each of *verbs* (separated by blanks) with the objects of *resource*.

    If *named* isn't empty, the right is only for the object of that name.
    """

    group: str
    resource: str
    verbs: str
    named: str = ""


USERS: Final = (
    Right("", "services", "get list watch patch"),
    Right("", "services/status", "update"),
    Right("networking.k8s.io", "ingresses", "list watch patch"),
    Right("networking.k8s.io", "ingresses/status", "update"),
    Right("discovery.k8s.io", "endpointslices", "list watch"),
    *(Right(_TAILSCALE, kind.plural, "list watch") for kind in OWN_KINDS if kind.namespaced),
    *(Right(_TAILSCALE, f"{kind.plural}/status", "update") for kind in OWN_KINDS if kind.namespaced),
)
"""The rights in namespaces of users."""

EVENTS: Final = (Right("", "events", "create get patch"),)

_ADMISSION: Final = ("validatingadmissionpolicies", "validatingadmissionpolicybindings")
_CLUSTER_WIDE: Final = tuple(kind.plural for kind in OWN_KINDS if not kind.namespaced)

CLUSTER: Final = (
    Right("networking.k8s.io", "ingressclasses", "list watch"),
    *(Right(_TAILSCALE, plural, "list watch update") for plural in _CLUSTER_WIDE),
    *(Right(_TAILSCALE, f"{plural}/status", "update") for plural in _CLUSTER_WIDE),
    *(Right(_TAILSCALE, f"{plural}/finalizers", "update") for plural in ("dnsconfigs", "proxygroups", "recorders")),
    *(Right("admissionregistration.k8s.io", plural, "get list watch create update delete") for plural in _ADMISSION),
    Right("", "nodes", "list watch"),
    Right("apiextensions.k8s.io", "customresourcedefinitions", "list watch", "servicemonitors.monitoring.coreos.com"),
    *(Right("", "configmaps", "list watch", name) for name in CONFIGMAPS),
    *(Right("apps", plural, "list watch", COREDNS) for plural in ("deployments", "daemonsets")),
    Right(OPENSHIFT_DNS.group, OPENSHIFT_DNS.plural, "list watch", OPENSHIFT_NAME),
)
"""The rights on objects without a namespace, and on some objects in any namespace."""

CLUSTER_DNS: Final = (
    *(Right("", "configmaps", "get patch", name) for name in CONFIGMAPS if name not in NODE_CACHES),
    Right("", "configmaps", "create"),
    Right("", "configmaps", "delete", CUSTOM),
)
"""The rights in kube-system of an operator that manages the cluster's DNS.

The right on the object of OpenShift's DNS operator isn't among them.
"""

OWN_DNSCONFIG: Final = (
    Right(_TAILSCALE, "dnsconfigs", "create"),
    Right(_TAILSCALE, "dnsconfigs", "delete", OWN_NAME),
)
"""The rights of an operator that makes a DNSConfig by itself."""

OWN: Final = (
    *(Right("apps", plural, _ALL) for plural in ("statefulsets", "deployments")),
    Right("", "services", "create update delete"),
    *(Right("", plural, _ALL) for plural in ("secrets", "configmaps", "serviceaccounts")),
    *(Right(_RBAC, plural, _ALL) for plural in ("roles", "rolebindings")),
    Right("", "pods", "get list watch patch delete"),
    Right("", "pods/status", "update"),
    Right("discovery.k8s.io", "endpointslices", "get create update delete"),
    Right("monitoring.coreos.com", "servicemonitors", "get list watch create update delete"),
    Right("", "services/finalizers", "update"),
    Right("coordination.k8s.io", "leases", "get create update"),
)
"""The rights in the operator's own namespace. The right to ask for tokens of its ServiceAccount isn't among them."""


class AccessQuestion(NamedTuple):
    """The question whether the operator is allowed to do *verb* with objects of a *resource* in a *namespace*.

    If *named* isn't empty, the question is only about the object of that name.
    """

    namespace: str
    group: str
    resource: str
    verb: str
    named: str = ""

    def review(self, user: str) -> Object:
        """Return the SubjectAccessReview with this question about *user*."""
        resource, _, subresource = self.resource.partition("/")
        attributes = {
            "namespace": self.namespace,
            "group": self.group,
            "resource": resource,
            "subresource": subresource,
            "verb": self.verb,
            "name": self.named,
        }
        given = {name: value for name, value in attributes.items() if value}
        kind = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "metadata": {}}
        return {**kind, "spec": {"user": user, "resourceAttributes": given}}


def questions(installed: Installed) -> list[AccessQuestion]:
    """Return a question for each act that the operator must be allowed to do."""
    watched = installed.watched or [EVERYWHERE]
    token = Right("", "serviceaccounts/token", "create", installed.service_account)
    events = dict.fromkeys([*watched, "default"] if installed.watched else watched)
    places: list[tuple[Iterable[str], Sequence[Right]]] = [
        (watched, USERS),
        (events, EVENTS),
        ((EVERYWHERE,), CLUSTER),
        ((installed.namespace,), (*OWN, token)),
    ]
    if corefile := installed.cluster_dns_configmap:
        places.append(((EVERYWHERE,), (Right("", "configmaps", "list watch", corefile),)))
        if installed.manages_cluster_dns:
            places.append(((DNS_NAMESPACE,), (Right("", "configmaps", "get patch", corefile),)))
    if installed.manages_cluster_dns:
        places.append(((DNS_NAMESPACE,), CLUSTER_DNS))
        places.append(((EVERYWHERE,), (Right(OPENSHIFT_DNS.group, OPENSHIFT_DNS.plural, "get patch", OPENSHIFT_NAME),)))
    if installed.makes_dnsconfig:
        places.append(((EVERYWHERE,), OWN_DNSCONFIG))
    return [
        AccessQuestion(namespace, right.group, right.resource, verb, right.named)
        for namespaces, rights in places
        for namespace in namespaces
        for right in rights
        for verb in right.verbs.split()
    ]


def check_rights(missing: Sequence[AccessQuestion]) -> Iterator[Finding]:
    """Yield the findings about the operator's rights, of which *missing* are those that it doesn't have."""
    found = [
        (f"{', '.join(dict.fromkeys(each.verb for each in of_one))} {_plural(resource)}", namespace)
        for (namespace, *resource), of_one in groupby(missing, key=lambda each: (each[0], each.group, each.resource))
    ]
    cure = (
        "`helm upgrade` puts the chart's roles and bindings back; without Helm, apply charts/manifests/operator.yaml. "
        "Look for a policy of the cluster that takes them away"
    )
    if not found:
        yield ok("rights", "the operator has all rights that it needs in the cluster")
    elif len(found) > _SHOWN:
        some = "; ".join(words for words, _ in found[:_SHOWN])
        yield failed("rights", f"the operator lacks {len(missing)} rights in the cluster, among them to {some}", cure)
    else:
        for words, namespace in found:
            where = f" in namespace {namespace}" if namespace else ""
            yield failed("rights", f"the operator may not {words}{where}", cure)


def _plural(resource: Sequence[str]) -> str:
    group, plural = resource
    return f"{plural}.{group}" if group else plural
