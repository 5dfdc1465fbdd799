"""Examples for the contract: Services, Ingresses, Connectors, Recorders and PeerRelays with proxies of their own."""

from collections.abc import Mapping, Sequence
from typing import Any

from tsoperator.api.objects import (
    ROLE,
    ROLEBINDING,
    SECRET,
    SERVICE,
    SERVICEACCOUNT,
    STATEFULSET,
    Object,
    Resource,
    key_of,
    uid,
)
from tsoperator.api.rules import child_name

from tests.operator.contract.kind import (
    ENDING,
    MAKING,
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
    connector,
    dnsconfig,
    egress,
    exposed,
    ingress,
    load_balancer,
    peer_relay,
    recorder,
)


def is_recorded(obj: Object) -> bool:
    devices = (obj.get("status") or {}).get("devices") or ()
    return has_reason("RecorderReady", "RecorderCreated")(obj) and len(devices) == obj["spec"]["replicas"]


def proxy_child(obj: Object, resource: Resource) -> str:
    """Return the name of the child of kind *resource* that the proxy of the stored object *obj* has."""
    return child_name(key_of(obj).name, uid(obj)) + ("-0" if resource == SECRET else "")


def recorder_child(obj: Object, resource: Resource) -> str:
    return key_of(obj).name + ("-auth-0" if resource == SECRET else "")


def relay_child(obj: Object, resource: Resource) -> str:
    return f"peerrelay-{key_of(obj).name}" + {SECRET: "-0-config", SERVICE: "-0"}.get(resource, "")


_RECORDER_IMAGE = {
    "spec": {"template": {"spec": {"containers": [{"name": "recorder", "image": "example.org/other:1"}]}}}
}
_BUCKET = {"endpoint": "s3.example.org", "bucket": "sessions"}
_KEYS = {"env": [{"name": "AWS_ACCESS_KEY_ID", "value": "id"}, {"name": "AWS_SECRET_ACCESS_KEY", "value": "secret"}]}
_RELAY_IMAGE = {
    "spec": {"template": {"spec": {"containers": [{"name": "tailscaled", "image": "example.org/other:1"}]}}}
}
_POD = "statefulset.kubernetes.io/pod-name"
_SCHEME = "service.beta.kubernetes.io/aws-load-balancer-scheme"
_OF_REPLICA = "tailscale.com/peer-relay-replica"
_PROXY: Mapping[Resource, Sequence[Object]] = {
    SERVICE: [{"spec": {"selector": {"app": "other"}}}],
    STATEFULSET: [{"spec": {"replicas": 3}}, OTHER_IMAGE],
    SECRET: [{"data": {"cap-107.hujson": "e30="}}, {"data": {"cap-95.hujson": None}}],
}
_OTHER, _CLOUD = f"kind-egress-other.{DOMAIN}", "kind-name-other.example.org"
_SERVED = has_reason("TailscaleProxyReady", "ProxyCreated")
_CREATED = has_reason("ConnectorReady", "ConnectorCreated")
_HOST_BITS = spec(subnetRouter={"advertiseRoutes": ["1.2.3.4/5"]})
_BAD_SERVICE = {
    "hostname": Bad(annotated(hostname="-bad.host_"), "ProxyInvalid", "-bad.host_", "INVALIDSERVICE"),
    "class": Bad(annotated(proxy_class="nonesuch"), "ProxyFailed", "nonesuch", "ProxyFailed"),
}
_SUFFIX = "update dnsconfigs"  # because the name of the first device shows the zone to forward


def _service(manifest: Object, **fields: Any) -> KindExample:
    of_services = {"patch services", "update services"}
    given: Mapping[str, Any] = {
        "children": _PROXY,
        "child_name": proxy_child,
        "devices": 1,
        "bad": _BAD_SERVICE,
        "failed": "ProxyFailed",
        "making": MAKING | of_services | TOUCH,
        "ending": ENDING | {"patch services"},
    }
    return KindExample(manifest, _SERVED, **{**given, **fields})


STANDALONE: Sequence[KindExample] = [
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
            "zone": Bad(annotated(tailnet_fqdn="db"), "ProxyInvalid", "not a MagicDNS name", "INVALIDSERVICE"),
            "two targets": Bad(annotated(tailnet_ip="100.64.0.9"), "ProxyInvalid", "only one of", "INVALIDSERVICE"),
        },
        making=MAKING
        | TOUCH
        | {"patch services", "update services", "patch configmaps", "update statefulsets", _SUFFIX},
        ending=ENDING | {"patch services", "patch configmaps"},
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
        making=MAKING | {"patch services", "update services", "update statefulsets"},
    ),
    _service(
        load_balancer("kind-balancer", proxy_class="metered"),
        beside=[METERED],
        edits={"hostname": Edit(annotated(hostname="kind-balancer-shop"), f'"kind-balancer-shop.{DOMAIN}"')},
        bad={**_BAD_SERVICE, "target": Bad(annotated(tailnet_fqdn="bad"), "ProxyInvalid", "bad", "INVALIDSERVICE")},
    ),
    _service(
        load_balancer("kind-public", 443, funnel="true"),
        edits={"port": Edit(spec(ports=[{"name": "port-8443", "port": 8443}]), ":8443")},
        bad=_BAD_SERVICE,
    ),
    KindExample(
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
        making=MAKING | TOUCH | {"patch ingresses", "update ingresses", "patch configmaps", "update services", _SUFFIX},
        ending=ENDING | {"patch ingresses", "patch configmaps", "patch services"},
    ),
    KindExample(
        connector("kind-connector", exitNode=True, replicas=2, hostnamePrefix="kind-connector-a", proxyClass="metered"),
        _CREATED,
        beside=[METERED],
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
            "two roles": crd(spec(appConnector={}), "ConnectorInvalid", "app connector"),
        },
        failed="ConnectorCreationFailed",
        making=MAKING | TOUCH | {"update connectors"},
        ending=ENDING | {"update connectors"},
    ),
    KindExample(
        recorder("kind-recorder", replicas=2, storage={"s3": _BUCKET}, statefulSet={"pod": {"container": _KEYS}}),
        is_recorded,
        children={
            SERVICEACCOUNT: [{"metadata": {"ownerReferences": None}}],
            ROLE: [{"rules": []}],
            ROLEBINDING: [{"subjects": []}],
            SECRET: [{"data": {"authkey": None}}],
            STATEFULSET: [{"spec": {"replicas": 3}}, _RECORDER_IMAGE],
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
            "replicas": crd(spec(replicas="many"), "RecorderInvalid", "replicas"),
        },
        is_collected=True,
        keeps_others_labels=True,
        failed="RecorderCreationFailed",
        making=writes("create", "serviceaccounts", "roles", "rolebindings", "secrets", "statefulsets")
        | {"update statefulsets", "update recorders"},
        ending=writes("delete", "secrets", "statefulsets") | {"update recorders"},
    ),
    KindExample(
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
        making=MAKING | TOUCH | {"update services", "update peerrelays"},
        ending=ENDING | {"update peerrelays"},
    ),
]
