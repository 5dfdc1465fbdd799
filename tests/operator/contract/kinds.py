"""The kinds that the operator reconciles, each with the facts that the tests of the contract need.

To run all tests of the contract on a new kind, add one `Kind` to `KINDS`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest
from tsoperator.api.names import FINALIZER, HA_INGRESS_FINALIZER, HA_SERVICE_FINALIZER
from tsoperator.api.objects import (
    ADMISSIONBINDING,
    ADMISSIONPOLICY,
    CONFIGMAP,
    DEPLOYMENT,
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
    resource_of,
    uid,
)
from tsoperator.api.rules import child_name

from tests.support import real
from tests.support.manifests import (
    DOMAIN,
    backend,
    connector,
    dnsconfig,
    egress,
    exposed,
    group_egress,
    group_policy,
    identity,
    ingress,
    load_balancer,
    peer_relay,
    proxy_class,
    proxy_group,
    recorder,
    user_pod,
)


class Edit(NamedTuple):
    """A merge patch, and words that the portrait of the world shows as soon as the patch has taken effect.

    The same Pods go on running unless the patch *restarts* them. The devices stay in any case.
    """

    patch: Object
    shows: str
    restarts: bool = False


class Bad(NamedTuple):
    """A merge patch that makes an object invalid, with the reason and words of the condition that it causes.

    The Event that says so has the reason *event*. There is no Event if *event* is empty. If the CRD's own rules
    refuse the patch on a real API server, *is_simulated* is true: only a simulated one accepts the patch.
    """

    patch: Object
    reason: str
    words: str
    event: str = ""
    is_simulated: bool = False


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of object, an example of it, and the children and writes that the operator makes for it.

    Each manifest has a name that occurs nowhere else, so that a test finds the leftovers by that name.
    """

    manifest: Object
    is_ready: Callable[[Object], bool]
    """A function that tells from the object whether the operator has made everything for it."""
    beside: Sequence[Object] = ()
    """The other objects that the object needs, such as a backend or a ProxyClass."""
    children: Mapping[Resource, Sequence[Object]] = field(default_factory=dict)
    """A map from each kind of child to merge patches for a child. The operator has to undo the patches."""
    child_name: Callable[[Object, Resource], str] = lambda obj, resource: ""
    """A function that gets the object as it is stored, and returns the name of its first child of a kind."""
    early: Resource | None = None
    """The kind of a child that the operator makes even for an invalid object."""
    filler: Key | None = None
    """The Pod that writes the certificate into the child Secret at its start, and then checks the Secret daily."""
    shared: Sequence[tuple[Resource, Key]] = ()
    """The objects of others that the operator writes into, and leaves as they were when the object goes."""
    devices: int = 0
    """The number of devices that the object has in the tailnet."""
    edits: Mapping[str, Edit] = field(default_factory=dict)
    bad: Mapping[str, Bad] = field(default_factory=dict)
    is_collected: bool = False
    """True if Kubernetes deletes the Secrets with the object. Without our finalizer its devices are then unknown."""
    keeps_others_labels: bool = False
    """True if a child with the labels of another object's child keeps them.

    Otherwise the operator makes a new child.
    """
    is_labelled: bool = True
    """True if the children have labels, by which the operator finds them."""
    is_held: bool = True
    """True if our finalizer holds the object until its children are gone."""
    waits_for_minutes: bool = False
    """True if something has to wait for minutes before the object is complete, which only virtual time can do."""
    finalizer: str = FINALIZER
    failed: str = ""
    """The reason in the condition when a server refuses a write; empty if the operator writes only the status."""
    making: frozenset[str] = frozenset()
    """All writes, as ``verb plural``, until everything is made for the object and each edit has taken effect."""
    ending: frozenset[str] = frozenset()
    """All writes, as ``verb plural``, from the deletion of the object until it is gone."""

    @property
    def name(self) -> str:
        return key_of(self.manifest).name

    @property
    def resource(self) -> Resource:
        return resource_of(self.manifest)

    def __str__(self) -> str:
        return self.name


def has_reason(kind: str, reason: str) -> Callable[[Object], bool]:

    def holds(obj: Object) -> bool:
        conditions = (obj.get("status") or {}).get("conditions") or ()
        return any((each["type"], each["reason"]) == (kind, reason) for each in conditions)

    return holds


def is_recorded(obj: Object) -> bool:
    devices = (obj.get("status") or {}).get("devices") or ()
    return has_reason("RecorderReady", "RecorderCreated")(obj) and len(devices) == obj["spec"]["replicas"]


def is_balanced(obj: Object) -> bool:
    return bool((obj.get("status") or {}).get("loadBalancer", {}).get("ingress"))


def spec(**fields: Any) -> Object:
    return {"spec": fields}


def annotated(**annotations: str | None) -> Object:
    """Return the patch that sets annotations with the prefix tailscale.com/.

    In the names, a hyphen is written as an underscore.
    """
    named = {f"tailscale.com/{name.replace('_', '-')}": value for name, value in annotations.items()}
    return {"metadata": {"annotations": named}}


def _crd(patch: Object, reason: str, words: str) -> Bad:
    """Return a bad patch that the CRD's own rules refuse on a real API server."""
    return Bad(patch, reason, words, event=reason, is_simulated=True)


def _bad_ingress(patch: Object, words: str) -> Bad:
    return Bad(patch, "InvalidIngressConfiguration", words, "InvalidIngressConfiguration")


def proxy_child(obj: Object, resource: Resource) -> str:
    """Return the name of a proxy's child, for the object *obj* as it is stored."""
    return child_name(key_of(obj).name, uid(obj)) + ("-0" if resource == SECRET else "")


def group_child(obj: Object, resource: Resource) -> str:
    name, config = key_of(obj).name, f"-{obj['spec']['type']}-config"
    return name + {SECRET: "-0-config", CONFIGMAP: config, SERVICE: "-metrics"}.get(resource, "")


def recorder_child(obj: Object, resource: Resource) -> str:
    return key_of(obj).name + ("-auth-0" if resource == SECRET else "")


def shared_child(obj: Object, resource: Resource) -> str:
    """Return the name of the ClusterIP Service or EndpointSlice that the egress Service *obj* has at its ProxyGroup."""
    name = child_name(key_of(obj).name, f"{uid(obj)}/several")
    return f"{name}-ipv4" if resource == ENDPOINTSLICE else name


def certificate_child(obj: Object, _: Resource) -> str:
    """Return the name of the objects that the certificate of the Ingress *obj* needs."""
    return f"{obj['spec']['tls'][0]['hosts'][0]}.{DOMAIN}"


def relay_child(obj: Object, resource: Resource) -> str:
    return f"peerrelay-{key_of(obj).name}" + {SECRET: "-0-config", SERVICE: "-0"}.get(resource, "")


def admission_child(obj: Object, _: Resource) -> str:
    return f"ts-ingress-{key_of(obj).namespace}"


def nameserver_child(_: Object, resource: Resource) -> str:
    return "dnsrecords" if resource == CONFIGMAP else "nameserver"


_IMAGE = {"spec": {"template": {"spec": {"containers": [{"name": "tailscale", "image": "example.org/other:1"}]}}}}
_OTHER_IMAGE = {"spec": {"template": {"spec": {"containers": [{"name": "recorder", "image": "example.org/other:1"}]}}}}
_BUCKET = {"endpoint": "s3.example.org", "bucket": "sessions"}
_KEYS = {"env": [{"name": "AWS_ACCESS_KEY_ID", "value": "id"}, {"name": "AWS_SECRET_ACCESS_KEY", "value": "secret"}]}
_RELAY_IMAGE = {
    "spec": {"template": {"spec": {"containers": [{"name": "tailscaled", "image": "example.org/other:1"}]}}}
}
_POD = "statefulset.kubernetes.io/pod-name"
_SCHEME = "service.beta.kubernetes.io/aws-load-balancer-scheme"
_OF_REPLICA = "tailscale.com/peer-relay-replica"
_ALLOWS_ALL = {"expression": "true"}
_PROXY: Mapping[Resource, Sequence[Object]] = {
    SERVICE: [{"spec": {"selector": {"app": "other"}}}],
    STATEFULSET: [{"spec": {"replicas": 3}}, _IMAGE],
    SECRET: [{"data": {"cap-107.hujson": "e30="}}, {"data": {"cap-95.hujson": None}}],
}
_OTHER, _CLOUD = f"kind-egress-other.{DOMAIN}", "kind-name-other.example.org"
_SERVED = has_reason("TailscaleProxyReady", "ProxyCreated")
_CREATED = has_reason("ConnectorReady", "ConnectorCreated")
_HOST_BITS = spec(subnetRouter={"advertiseRoutes": ["1.2.3.4/5"]})
_BAD_IMAGE = spec(statefulSet={"pod": {"tailscaleContainer": {"image": "FOO bar"}}})
_METERED = proxy_class("metered", metrics={"enable": True})
_BAD_SERVICE = {
    "hostname": Bad(annotated(hostname="-bad.host_"), "ProxyInvalid", "-bad.host_", "INVALIDSERVICE"),
    "class": Bad(annotated(proxy_class="nonesuch"), "ProxyFailed", "nonesuch", "ProxyFailed"),
}


_HOSTED = load_balancer("kind-hosted", proxy_group="several-ingress")


def writes(verb: str, *plurals: str) -> frozenset[str]:
    return frozenset(f"{verb} {plural}" for plural in plurals)


_MAKING = writes("create", "secrets", "services", "statefulsets") | {"patch secrets"}
_TOUCH = frozenset({"patch pods"})  # when the config of a running proxy is edited
_SUFFIX = "update dnsconfigs"  # the first device shows the suffix: the zone that the cluster's DNS has to forward
_ENDING = writes("delete", "secrets", "services", "statefulsets")


def _service(manifest: Object, **fields: Any) -> Kind:
    of_services = {"patch services", "update services"}
    given: Mapping[str, Any] = {
        "children": _PROXY,
        "child_name": proxy_child,
        "devices": 1,
        "bad": _BAD_SERVICE,
        "failed": "ProxyFailed",
        "making": _MAKING | of_services | _TOUCH,
        "ending": _ENDING | {"patch services"},
    }
    return Kind(manifest, _SERVED, **{**given, **fields})


KINDS: Sequence[Kind] = [
    _service(
        egress("kind-egress", f"kind-egress-target.{DOMAIN}"),
        beside=[dnsconfig()],
        children={**_PROXY, SERVICE: [*_PROXY[SERVICE], {"metadata": {"finalizers": None}}]},
        edits={
            "target": Edit(annotated(tailnet_fqdn=_OTHER), _OTHER, restarts=True),
            "hostname": Edit(annotated(hostname="kind-egress-orders"), f"kind-egress-orders.{DOMAIN}"),
        },
        bad={
            **_BAD_SERVICE,
            "zone": Bad(annotated(tailnet_fqdn="db"), "ProxyInvalid", "ts.net", "INVALIDSERVICE"),
            "two targets": Bad(annotated(tailnet_ip="100.64.0.9"), "ProxyInvalid", "only one of", "INVALIDSERVICE"),
        },
        making=_MAKING
        | _TOUCH
        | {"patch services", "update services", "patch configmaps", "update statefulsets", _SUFFIX},
        ending=_ENDING | {"patch services", "patch configmaps"},
    ),
    _service(
        exposed("kind-address"),
        edits={
            "tags": Edit(annotated(tags="tag:kind-address"), "('tag:kind-address',)"),
            "hostname": Edit(annotated(hostname="kind-address-shop"), f"device kind-address-shop.{DOMAIN}"),
        },
        bad={
            **_BAD_SERVICE,
            "tags": Bad(annotated(tags="tag:ok,nonsense"), "ProxyInvalid", "nonsense", "INVALIDSERVICE"),
        },
    ),
    _service(
        exposed("kind-name", external_name="kind-name-db.example.org"),
        edits={"name": Edit(spec(externalName=_CLOUD), _CLOUD, restarts=True)},
        making=_MAKING | {"patch services", "update services", "update statefulsets"},
    ),
    _service(
        load_balancer("kind-balancer", proxy_class="metered"),
        beside=[_METERED],
        edits={"hostname": Edit(annotated(hostname="kind-balancer-shop"), f'"kind-balancer-shop.{DOMAIN}"')},
        bad={**_BAD_SERVICE, "target": Bad(annotated(tailnet_fqdn="bad"), "ProxyInvalid", "bad", "INVALIDSERVICE")},
    ),
    _service(
        load_balancer("kind-public", 443, funnel="true"),
        edits={"port": Edit(spec(ports=[{"name": "port-8443", "port": 8443}]), ":8443")},
        bad=_BAD_SERVICE,
    ),
    Kind(
        ingress("kind-ingress", "kind-ingress"),
        is_balanced,
        beside=[dnsconfig(), backend()],
        children=_PROXY,
        child_name=proxy_child,
        devices=1,
        edits={
            "host": Edit(spec(tls=[{"hosts": ["kind-ingress-shop"]}]), f'"hostname": "kind-ingress-shop.{DOMAIN}"'),
            "redirect": Edit(annotated(http_redirect="true"), "301:https://"),
        },
        bad={
            "host": Bad(spec(tls=[{"hosts": ["w" * 64]}]), "InvalidHostname", "spec.tls", "InvalidHostname"),
            "tags": Bad(annotated(tags="nonsense"), "InvalidTags", "tailscale.com/tags", "InvalidTags"),
            "class": Bad(annotated(proxy_class="nonesuch"), "ProxyFailed", "nonesuch", "ProxyFailed"),
        },
        failed="ProxyFailed",
        making=_MAKING
        | _TOUCH
        | {"patch ingresses", "update ingresses", "patch configmaps", "update services", _SUFFIX},
        ending=_ENDING | {"patch ingresses", "patch configmaps", "patch services"},
    ),
    Kind(
        connector("kind-connector", exitNode=True, replicas=2, hostnamePrefix="kind-connector-a", proxyClass="metered"),
        _CREATED,
        beside=[_METERED],
        children=_PROXY,
        child_name=proxy_child,
        devices=2,
        edits={
            "routes": Edit(spec(subnetRouter={"advertiseRoutes": ["192.0.2.0/24"]}), "192.0.2.0/24"),
            "prefix": Edit(spec(hostnamePrefix="kind-connector-gate"), f"kind-connector-gate-1.{DOMAIN}"),
        },
        bad={
            "host bits": Bad(_HOST_BITS, "ConnectorInvalid", "0.0.0.0/5", "ConnectorInvalid"),
            "class": Bad(spec(proxyClass="nonesuch"), "ConnectorCreationFailed", "nonesuch", "ConnectorCreationFailed"),
            "two roles": _crd(spec(appConnector={}), "ConnectorInvalid", "app connector"),
        },
        failed="ConnectorCreationFailed",
        making=_MAKING | _TOUCH | {"update connectors"},
        ending=_ENDING | {"update connectors"},
    ),
    Kind(
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
        bad={"replicas": _crd(spec(nameserver={"replicas": "many"}), "NameserverInvalid", "replicas")},
        failed="NameserverCreationFailed",
        making=writes("create", "serviceaccounts", "roles", "rolebindings", "deployments", "services", "configmaps")
        | writes("update", "dnsconfigs", "deployments", "services")
        | {"patch configmaps"},
        ending=frozenset({"update dnsconfigs", "patch configmaps"}),
    ),
    Kind(
        proxy_class("kind-class", statefulSet={"labels": {"team": "web"}}),
        has_reason("ProxyClassReady", "ProxyClassValid"),
        bad={
            "image": Bad(_BAD_IMAGE, "ProxyClassInvalid", "may have upper case", "ProxyClassInvalid"),
            "metrics": _crd(spec(metrics={"enable": "yes"}), "ProxyClassInvalid", "must be true or false"),
        },
        making=frozenset({"update proxyclasses"}),
        ending=frozenset({"update proxyclasses"}),
    ),
    Kind(
        proxy_group("kind-egress-group", proxyClass="metered"),
        has_reason("ProxyGroupReady", "ProxyGroupReady"),
        beside=[_METERED],
        children={
            SERVICEACCOUNT: [{"metadata": {"ownerReferences": None}}],
            ROLE: [{"rules": []}],
            ROLEBINDING: [{"subjects": []}],
            SECRET: [{"data": {"cap-106.hujson": "e30="}}],
            CONFIGMAP: [{"binaryData": {"hep-pings": "MQ=="}}],
            STATEFULSET: [{"spec": {"replicas": 3}}, _IMAGE],
            SERVICE: [{"spec": {"ports": [{"name": "metrics", "port": 1, "protocol": "TCP"}]}}],
        },
        child_name=group_child,
        devices=2,
        edits={"prefix": Edit(spec(hostnamePrefix="kind-egress-group-gate"), '"hostname": "kind-egress-group-gate-1"')},
        bad={
            "class": Bad(spec(proxyClass="nonesuch"), "ProxyGroupCreating", "nonesuch"),
            "replicas": _crd(spec(replicas="many"), "ProxyGroupInvalid", "replicas"),
        },
        is_collected=True,
        keeps_others_labels=True,
        failed="ProxyGroupCreationFailed",
        making=writes("create", "serviceaccounts", "roles", "rolebindings", "configmaps", "secrets", "statefulsets")
        | _TOUCH
        | {"create services", "patch secrets", "update pods", "update proxygroups"},
        ending=_ENDING | {"delete pods", "update proxygroups"},
    ),
    Kind(
        recorder("kind-recorder", replicas=2, storage={"s3": _BUCKET}, statefulSet={"pod": {"container": _KEYS}}),
        is_recorded,
        children={
            SERVICEACCOUNT: [{"metadata": {"ownerReferences": None}}],
            ROLE: [{"rules": []}],
            ROLEBINDING: [{"subjects": []}],
            SECRET: [{"data": {"authkey": None}}],
            STATEFULSET: [{"spec": {"replicas": 3}}, _OTHER_IMAGE],
        },
        child_name=recorder_child,
        devices=2,
        edits={
            "bucket": Edit(spec(storage={"s3": {"bucket": "kind-others"}}), '"kind-others"', restarts=True),
            "tags": Edit(spec(tags=["tag:kind-recorder"]), "('tag:kind-recorder',)"),
        },
        bad={
            "no storage": Bad(
                spec(storage=None), "RecorderInvalid", "storage.s3", "RecorderInvalid", is_simulated=True
            ),
            "annotation": Bad(
                spec(statefulSet={"pod": {"annotations": {"a b": "x"}}}), "RecorderInvalid", "a b", "RecorderInvalid"
            ),
            "replicas": _crd(spec(replicas="many"), "RecorderInvalid", "replicas"),
        },
        is_collected=True,
        keeps_others_labels=True,
        failed="RecorderCreationFailed",
        making=writes("create", "serviceaccounts", "roles", "rolebindings", "secrets", "statefulsets")
        | {"update statefulsets", "update recorders"},
        ending=writes("delete", "secrets", "statefulsets") | {"update recorders"},
    ),
    Kind(
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
        | _TOUCH,
        ending=frozenset({"delete services", "delete endpointslices", "patch services", "patch configmaps"}),
    ),
    Kind(
        peer_relay("kind-relay", replicas=2),
        has_reason("PeerRelayReady", "PeerRelayReady"),
        children={
            SERVICE: [{"spec": {"selector": {_POD: "other"}}}, {"metadata": {"annotations": {_SCHEME: "internal"}}}],
            STATEFULSET: [{"spec": {"replicas": 3}}, _RELAY_IMAGE],
            SECRET: [{"data": {"cap-142.hujson": "e30="}}, {"metadata": {"labels": {_OF_REPLICA: "7"}}}],
        },
        child_name=relay_child,
        devices=2,
        edits={
            "prefix": Edit(spec(hostnamePrefix="kind-relay-gate"), f"device kind-relay-gate-1.{DOMAIN}"),
            "annotation": Edit(spec(service={"annotations": {"example.org/a": "kind-relay-a"}}), "kind-relay-a"),
        },
        bad={
            "class": Bad(spec(proxyClass="nonesuch"), "PeerRelayCreationFailed", "nonesuch", "PeerRelayCreationFailed"),
            "elastic IPs": Bad(
                spec(aws={"elasticIPs": [{"allocationID": "eipalloc-1", "subnetID": "subnet-1"}]}),
                "AWSConfigInvalid",
                "spec.aws.elasticIPs has 1 entries but spec.replicas is 2",
                "AWSConfigInvalid",
                is_simulated=True,
            ),
        },
        keeps_others_labels=True,
        failed="PeerRelayCreationFailed",
        making=_MAKING | _TOUCH | {"update services", "update peerrelays"},
        ending=_ENDING | {"update peerrelays"},
    ),
    Kind(
        proxy_group("kind-group", type="kube-apiserver"),
        has_reason("ProxyGroupReady", "NotSupportedYet"),
        making=frozenset({"update proxygroups"}),
    ),
    Kind(
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
            STATEFULSET: [{"spec": {"replicas": 3}}, _IMAGE],
        },
        child_name=group_child,
        devices=2,
        edits={
            "prefix": Edit(spec(hostnamePrefix="kind-ingress-group-gate"), '"hostname": "kind-ingress-group-gate-1"')
        },
        bad={
            "class": Bad(spec(proxyClass="nonesuch"), "ProxyGroupCreating", "nonesuch"),
            "replicas": _crd(spec(replicas="many"), "ProxyGroupInvalid", "replicas"),
        },
        is_collected=True,
        keeps_others_labels=True,
        failed="ProxyGroupCreationFailed",
        making=writes("create", "serviceaccounts", "roles", "rolebindings", "configmaps", "secrets", "statefulsets")
        | _TOUCH
        | {"patch secrets", "update proxygroups"},
        ending=_ENDING - {"delete services"} | {"delete pods", "update proxygroups"},
    ),
    Kind(
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
        making=writes("patch", "services", "configmaps", "secrets") | {"update services"} | _TOUCH,
        ending=writes("patch", "services", "configmaps", "secrets"),
    ),
    Kind(
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
        | _TOUCH,
        ending=writes("delete", "secrets", "roles", "rolebindings")
        | writes("patch", "ingresses", "configmaps", "secrets")
        | _TOUCH,
    ),
    Kind(
        group_policy("kind-policy", ingress=["kind-policy-web"], egress=["kind-policy-out"]),
        has_reason("ProxyGroupPolicyReady", "ProxyGroupNotFound"),
        children={
            ADMISSIONPOLICY: [{"spec": {"validations": [_ALLOWS_ALL]}}, {"spec": {"matchConditions": None}}],
            ADMISSIONBINDING: [{"spec": {"validationActions": ["Audit"]}}],
        },
        child_name=admission_child,
        edits={"names": Edit(spec(ingress=["kind-policy-other"]), 'in [\\"kind-policy-other\\"]')},
        bad={"names": _crd(spec(egress="web"), "ProxyGroupPolicyInvalid", "spec.egress must be a list")},
        is_labelled=False,
        is_held=False,
        failed="ProxyGroupPolicyFailed",
        making=writes("create", "validatingadmissionpolicies", "validatingadmissionpolicybindings")
        | {"update validatingadmissionpolicies", "update proxygrouppolicies"},
        ending=writes("delete", "validatingadmissionpolicies", "validatingadmissionpolicybindings"),
    ),
]
"""The kinds on which the tests of the contract run."""

_FOLLOWED = {resource.kind for resource in real.KINDS}


def marks(kind: Kind) -> list[pytest.MarkDecorator]:
    """Return pytest's marks for *kind*: `simulated` if its tests can't run on a real API server.

    A world there doesn't watch all kinds, and has no virtual time.
    """
    is_real = kind.resource.kind in _FOLLOWED and not kind.waits_for_minutes
    return [] if is_real else [pytest.mark.simulated]


def each(kinds: Iterable[Kind]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("kind", [pytest.param(kind, id=kind.name, marks=marks(kind)) for kind in kinds])


each_kind = each(KINDS)
each_parent = each(kind for kind in KINDS if kind.children)
each_labelling = each(kind for kind in KINDS if kind.children and kind.is_labelled)
each_joining = each(kind for kind in KINDS if kind.devices)
each_lasting = each(kind for kind in KINDS if not kind.is_collected)
each_rejoining = each(kind for kind in KINDS if kind.devices and not kind.is_collected)
each_edited = each(kind for kind in KINDS if kind.edits)
each_held = each(kind for kind in KINDS if kind.ending and kind.is_held)
