"""Examples for the contract: ProxyGroups, and objects that ProxyGroups serve."""

from collections.abc import Sequence

from tsoperator.api.names import HA_INGRESS_FINALIZER, HA_SERVICE_FINALIZER, KUBE_APISERVER_FINALIZER
from tsoperator.api.objects import (
    CONFIGMAP,
    ENDPOINTSLICE,
    ROLE,
    ROLEBINDING,
    SECRET,
    SERVICE,
    SERVICEACCOUNT,
    STATEFULSET,
    Key,
    Object,
    Resource,
    key_of,
    uid,
)
from tsoperator.api.rules import child_name

from tests.operator.contract.kind import (
    ENDING,
    METERED,
    OTHER_IMAGE,
    TOUCH,
    Bad,
    Edit,
    KindExample,
    crd,
    has_reason,
    is_balanced,
    spec,
    writes,
)
from tests.support.manifests import (
    DOMAIN,
    annotated,
    backend,
    group_egress,
    identity,
    ingress,
    load_balancer,
    proxy_group,
    user_pod,
)


def group_child(obj: Object, resource: Resource) -> str:
    name, config = key_of(obj).name, f"-{obj['spec']['type']}-config"
    return name + {SECRET: "-0-config", CONFIGMAP: config, SERVICE: "-metrics"}.get(resource, "")


def shared_child(obj: Object, resource: Resource) -> str:
    """Return the name of the ClusterIP Service or EndpointSlice that the egress Service *obj* has at its ProxyGroup."""
    name = child_name(key_of(obj).name, f"{uid(obj)}/several")
    return f"{name}-ipv4" if resource == ENDPOINTSLICE else name


def certificate_child(obj: Object, _: Resource) -> str:
    """Return the name that the Secret, the Role and the RoleBinding of the Ingress *obj*'s certificate share."""
    return f"{obj['spec']['tls'][0]['hosts'][0]}.{DOMAIN}"


def all_offer_the_api(group: Object) -> bool:
    """Tell whether *group* is ready, and both its proxies offer the Kubernetes API under the group's hostname."""
    conditions = (group.get("status") or {}).get("conditions") or ()
    is_whole = any("2/2 proxy backends" in each["message"] for each in conditions)
    return is_whole and has_reason("ProxyGroupReady", "ProxyGroupReady")(group)


def _bad_ingress(patch: Object, words: str) -> Bad:
    return Bad(patch, "InvalidIngressConfiguration", words, "InvalidIngressConfiguration")


_HOSTED = load_balancer("kind-hosted", proxy_group="several-ingress")

GROUPED: Sequence[KindExample] = [
    KindExample(
        proxy_group("kind-egress-group", proxyClass="metered"),
        has_reason("ProxyGroupReady", "ProxyGroupReady"),
        beside=[METERED],
        children={
            SERVICEACCOUNT: [{"metadata": {"ownerReferences": None}}],
            ROLE: [{"rules": []}],
            ROLEBINDING: [{"subjects": []}],
            SECRET: [{"data": {"cap-106.hujson": "e30="}}],
            CONFIGMAP: [{"binaryData": {"hep-pings": "MQ=="}}],
            STATEFULSET: [{"spec": {"replicas": 3}}, OTHER_IMAGE],
            SERVICE: [{"spec": {"ports": [{"name": "metrics", "port": 1, "protocol": "TCP"}]}}],
        },
        child_name=group_child,
        devices=2,
        edits={"prefix": Edit(spec(hostnamePrefix="kind-egress-group-gate"), '"hostname": "kind-egress-group-gate-1"')},
        bad={
            "class": Bad(spec(proxyClass="nonesuch"), "ProxyGroupCreating", "nonesuch"),
            "replicas": crd(spec(replicas="many"), "ProxyGroupInvalid", "replicas"),
        },
        is_collected=True,
        keeps_others_labels=True,
        failed="ProxyGroupCreationFailed",
        making=writes("create", "serviceaccounts", "roles", "rolebindings", "configmaps", "secrets", "statefulsets")
        | TOUCH
        | {"create services", "patch secrets", "update pods", "update proxygroups"},
        ending=ENDING | {"delete pods", "update proxygroups"},
    ),
    KindExample(
        group_egress("kind-shared", "several", f"kind-shared-target.{DOMAIN}"),
        has_reason("TailscaleEgressSvcReady", "ReadyToRouteTraffic"),
        beside=[proxy_group("several")],
        children={
            SERVICE: [{"spec": {"ports": [{"name": "other", "port": 1}]}}],
            ENDPOINTSLICE: [{"endpoints": []}, {"ports": []}],
        },
        child_name=shared_child,
        edits={
            "target": Edit(annotated(tailnet_fqdn=f"kind-shared-other.{DOMAIN}"), f"kind-shared-other.{DOMAIN}"),
            "port": Edit(spec(ports=[{"name": "port-8443", "port": 8443}]), "port-8443"),
        },
        bad={
            "zone": Bad(annotated(tailnet_fqdn="db"), "EgressSvcInvalid", "not a MagicDNS name", "INVALIDSERVICE"),
            "two targets": Bad(annotated(tailnet_ip="100.64.0.9"), "EgressSvcInvalid", "only one of", "INVALIDSERVICE"),
        },
        keeps_others_labels=True,
        failed="ProxyFailed",
        making=writes("create", "services", "endpointslices")
        | writes("update", "services", "endpointslices")
        | writes("patch", "services", "configmaps")
        | TOUCH,
        ending=frozenset({"delete services", "delete endpointslices", "patch services", "patch configmaps"}),
    ),
    KindExample(
        proxy_group("kind-api", type="kube-apiserver", kubeAPIServer={"mode": "noauth"}),
        all_offer_the_api,
        beside=[identity()],
        children={
            SERVICEACCOUNT: [{"metadata": {"ownerReferences": None}}],
            ROLE: [{"rules": []}],
            ROLEBINDING: [{"subjects": []}],
            SECRET: [{"data": {"config.hujson": "e30="}}],
            STATEFULSET: [{"spec": {"replicas": 3}}, OTHER_IMAGE],
        },
        child_name=group_child,
        filler=Key("tailscale", "kind-api-0"),
        devices=2,
        other_finalizer=KUBE_APISERVER_FINALIZER,
        edits={
            "prefix": Edit(spec(hostnamePrefix="kind-api-gate"), '"hostname": "kind-api-gate-1"'),
            "hostname": Edit(
                spec(kubeAPIServer={"hostname": "kind-api-k8s"}), f'"url": "https://kind-api-k8s.{DOMAIN}"'
            ),
        },
        bad={
            "account": Bad(
                spec(kubeAPIServer={"mode": "auth"}), "ProxyGroupInvalid", "allowImpersonation", "ProxyGroupInvalid"
            ),
            "class": Bad(spec(proxyClass="nonesuch"), "ProxyGroupCreating", "nonesuch"),
            "replicas": crd(spec(replicas="many"), "ProxyGroupInvalid", "replicas"),
        },
        is_collected=True,
        keeps_others_labels=True,
        failed="ProxyGroupCreationFailed",
        making=writes("create", "serviceaccounts", "roles", "rolebindings", "secrets", "statefulsets")
        | writes("delete", "roles", "rolebindings", "secrets")
        | {"patch secrets", "update proxygroups"},
        ending=ENDING - {"delete services"}
        | writes("delete", "pods", "roles", "rolebindings")
        | {"update proxygroups"},
    ),
    KindExample(
        proxy_group("kind-ingress-group", type="ingress"),
        has_reason("ProxyGroupReady", "ProxyGroupReady"),
        children={
            SERVICEACCOUNT: [{"metadata": {"ownerReferences": None}}],
            ROLE: [{"rules": []}],
            ROLEBINDING: [{"subjects": []}],
            SECRET: [{"data": {"cap-106.hujson": "e30="}}],
            CONFIGMAP: [
                {"binaryData": {"foreign": "e30="}},
                {"binaryData": {"ingress-config.json": None}},
                {"binaryData": {"serve-config.json": "eyJTZXJ2aWNlcyI6eyJzdmM6eCI6eyJUdW4iOnRydWV9fX0="}},
            ],
            STATEFULSET: [{"spec": {"replicas": 3}}, OTHER_IMAGE],
        },
        child_name=group_child,
        devices=2,
        edits={
            "prefix": Edit(spec(hostnamePrefix="kind-ingress-group-gate"), '"hostname": "kind-ingress-group-gate-1"')
        },
        bad={
            "class": Bad(spec(proxyClass="nonesuch"), "ProxyGroupCreating", "nonesuch"),
            "replicas": crd(spec(replicas="many"), "ProxyGroupInvalid", "replicas"),
        },
        is_collected=True,
        keeps_others_labels=True,
        failed="ProxyGroupCreationFailed",
        making=writes("create", "serviceaccounts", "roles", "rolebindings", "configmaps", "secrets", "statefulsets")
        | TOUCH
        | {"patch secrets", "update proxygroups"},
        ending=ENDING - {"delete services"} | {"delete pods", "update proxygroups"},
    ),
    KindExample(
        {**_HOSTED, "spec": {**_HOSTED["spec"], "selector": {"app": "backend"}}},
        is_balanced,
        beside=[identity(), proxy_group("several-ingress", type="ingress"), user_pod("backend")],
        edits={
            "hostname": Edit(annotated(hostname="kind-hosted-shop"), f'"kind-hosted-shop.{DOMAIN}"'),
            "tags": Edit(annotated(tags="tag:kind-hosted"), "['tag:kind-hosted']"),
        },
        bad={
            "hostname": Bad(annotated(hostname="-bad.host_"), "IngressSvcInvalid", "-bad.host_", "IngressSvcInvalid"),
            "tags": Bad(annotated(tags="tag:ok,nonsense"), "IngressSvcInvalid", "nonsense", "IngressSvcInvalid"),
        },
        finalizer=HA_SERVICE_FINALIZER,
        failed="ProxyFailed",
        making=writes("patch", "services", "configmaps", "secrets") | {"update services"} | TOUCH,
        ending=writes("patch", "services", "configmaps", "secrets"),
    ),
    KindExample(
        ingress("kind-site", "kind-site", proxy_group="several-ingress"),
        is_balanced,
        beside=[backend(), identity(), proxy_group("several-ingress", type="ingress")],
        children={
            ROLE: [{"rules": []}],
            ROLEBINDING: [{"subjects": []}],
            SECRET: [],
        },
        child_name=certificate_child,
        filler=Key("tailscale", "several-ingress-0"),
        edits={
            "endpoint": Edit(annotated(http_endpoint="enabled"), '"port": 80'),
            "host": Edit(spec(tls=[{"hosts": ["kind-site-shop"]}]), f'"hostname": "kind-site-shop.{DOMAIN}"'),
        },
        bad={
            "host": _bad_ingress(spec(tls=[{"hosts": ["w" * 64]}]), "spec.tls"),
            "tags": _bad_ingress(annotated(tags="nonsense"), "tailscale.com/tags"),
            "group": Bad(annotated(proxy_group="nonesuch"), "ProxyGroupNotFound", "nonesuch", "ProxyGroupNotFound"),
        },
        waits_for_minutes=True,  # a proxy that found no Secret for its certificate looks again a minute later
        finalizer=HA_INGRESS_FINALIZER,
        keeps_others_labels=True,
        failed="TailscaleServiceFailed",
        making=writes("create", "secrets", "roles", "rolebindings")
        | writes("delete", "secrets", "roles", "rolebindings")
        | writes("patch", "ingresses", "configmaps", "secrets")
        | {"update ingresses"}
        | TOUCH,
        ending=writes("delete", "secrets", "roles", "rolebindings")
        | writes("patch", "ingresses", "configmaps", "secrets")
        | TOUCH,
    ),
]
