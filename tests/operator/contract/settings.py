"""Examples for the contract: DNSConfigs, ProxyClasses and ProxyGroupPolicies, which have no proxies."""

from collections.abc import Sequence

from tsoperator.api.objects import (
    ADMISSIONBINDING,
    ADMISSIONPOLICY,
    CONFIGMAP,
    DEPLOYMENT,
    ROLE,
    ROLEBINDING,
    SERVICE,
    SERVICEACCOUNT,
    Key,
    Object,
    Resource,
    key_of,
)

from tests.operator.contract.kind import Bad, Edit, KindExample, crd, has_reason, spec, writes
from tests.support.manifests import dnsconfig, group_policy, proxy_class


def admission_child(obj: Object, _: Resource) -> str:
    return f"ts-ingress-{key_of(obj).namespace}"


def nameserver_child(_: Object, resource: Resource) -> str:
    return "dnsrecords" if resource == CONFIGMAP else "nameserver"


_ALLOWS_ALL = {"expression": "true"}
_BAD_IMAGE = spec(statefulSet={"pod": {"tailscaleContainer": {"image": "FOO bar"}}})

SETTINGS: Sequence[KindExample] = [
    KindExample(
        {**dnsconfig("kind-dns"), "spec": {"nameserver": {}, "clusterDNS": {"mode": "Managed"}}},
        has_reason("NameserverReady", "NameserverCreated"),
        children={
            SERVICEACCOUNT: [{"metadata": {"ownerReferences": None}}],
            ROLE: [{"rules": []}],
            ROLEBINDING: [{"subjects": []}],
            DEPLOYMENT: [{"spec": {"replicas": 0}}],
            SERVICE: [{"spec": {"ports": [{"name": "udp", "port": 54, "protocol": "UDP"}]}}],
            CONFIGMAP: [{"data": {"records.json": "{}"}}, {"data": {"records.json": "nonsense"}}],
        },
        child_name=nameserver_child,
        early=CONFIGMAP,
        shared=[(CONFIGMAP, Key("kube-system", "coredns"))],
        edits={"image": Edit(spec(nameserver={"image": {"repo": "example.org/ns", "tag": "kind-dns"}}), "ns:kind-dns")},
        bad={"replicas": crd(spec(nameserver={"replicas": "many"}), "NameserverInvalid", "replicas")},
        failed="NameserverCreationFailed",
        making=writes("create", "serviceaccounts", "roles", "rolebindings", "deployments", "services", "configmaps")
        | writes("update", "dnsconfigs", "deployments", "services")
        | {"patch configmaps"},
        ending=frozenset({"update dnsconfigs", "patch configmaps"}),
    ),
    KindExample(
        proxy_class("kind-class", statefulSet={"labels": {"team": "web"}}),
        has_reason("ProxyClassReady", "ProxyClassValid"),
        bad={
            "image": Bad(_BAD_IMAGE, "ProxyClassInvalid", "may have upper case", "ProxyClassInvalid"),
            "metrics": crd(spec(metrics={"enable": "yes"}), "ProxyClassInvalid", "must be true or false"),
        },
        making=frozenset({"update proxyclasses"}),
        ending=frozenset({"update proxyclasses"}),
    ),
    KindExample(
        group_policy("kind-policy", ingress=["kind-policy-web"], egress=["kind-policy-out"]),
        has_reason("ProxyGroupPolicyReady", "ProxyGroupNotFound"),
        children={
            ADMISSIONPOLICY: [{"spec": {"validations": [_ALLOWS_ALL]}}, {"spec": {"matchConditions": None}}],
            ADMISSIONBINDING: [{"spec": {"validationActions": ["Audit"]}}],
        },
        child_name=admission_child,
        edits={"names": Edit(spec(ingress=["kind-policy-other"]), 'in [\\"kind-policy-other\\"]')},
        bad={"names": crd(spec(egress="web"), "ProxyGroupPolicyInvalid", "spec.egress must be a list")},
        is_labelled=False,
        is_held=False,
        failed="ProxyGroupPolicyFailed",
        making=writes("create", "validatingadmissionpolicies", "validatingadmissionpolicybindings")
        | {"update validatingadmissionpolicies", "update proxygrouppolicies"},
        ending=writes("delete", "validatingadmissionpolicies", "validatingadmissionpolicybindings"),
    ),
]
