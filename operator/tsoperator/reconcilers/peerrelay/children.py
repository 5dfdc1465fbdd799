"""The children of a PeerRelay: the StatefulSet of its relays, and a load balancer for each of them."""

from collections.abc import Mapping, Sequence
from typing import Final

from tsoperator.api.names import (
    CONFIG_SUFFIX,
    HEALTH_PORT,
    LABEL_PEER_RELAY_REPLICA,
    PROXIES_SERVICE_ACCOUNT,
    RELAY_CONTAINER,
    RELAY_PORT,
)
from tsoperator.api.objects import SECRET, SERVICE, STATEFULSET, Key, Object, Resource
from tsoperator.api.rules import peer_relay_name
from tsoperator.api.v1alpha1.proxyclass import ProxyClassSpec
from tsoperator.proxy.devices import TailnetView
from tsoperator.proxy.overlay import with_class
from tsoperator.proxy.pod import HEALTH_CHECK
from tsoperator.proxy.proxy import Children, Proxy
from tsoperator.proxy.proxypod import peer_relay
from tsoperator.proxy.statefulset import CONFIGS, configs, from_field, pod_spec, statefulset, trusting, variable
from tsoperator.proxy.tailscaled import ProxyConfig
from tsoperator.proxy.workload import LOAD_BALANCER, Workload, unwanted
from tsoperator.reconcilers.peerrelay.ask import RelayWishes
from tsoperator.runtime.given import with_given
from tsoperator.runtime.plan import Child
from tsoperator.settings import Settings

_AWS: Final = "service.beta.kubernetes.io/aws-load-balancer-"
_ATTRIBUTES: Final = f"{_AWS}attributes"
_CLOUDS: Final[Mapping[str, str]] = {
    f"{_AWS}type": "external",
    f"{_AWS}nlb-target-type": "ip",
    f"{_AWS}scheme": "internet-facing",
    f"{_AWS}ip-address-type": "ipv4",
    f"{_AWS}healthcheck-protocol": "http",
    f"{_AWS}healthcheck-port": str(HEALTH_PORT),
    f"{_AWS}healthcheck-path": "/healthz",
    "service.beta.kubernetes.io/azure-load-balancer-internal": "false",
}
"""The annotations with which clouds make a load balancer that the Internet reaches.

Annotations of the user can't replace them.
"""

_CROSS_ZONE: Final = "load_balancing.cross_zone.enabled=true"


def relay_proxy(
    wishes: RelayWishes,
    proxy_class: ProxyClassSpec | None,
    endpoints: Sequence[tuple[str, ...]],
    tailnet: TailnetView,
    settings: Settings,
) -> Proxy:
    """Return the proxy for a PeerRelay with these *wishes*. Its replicas are the relays.

    *endpoints* are their static endpoints by ordinal.
    """
    return Proxy(
        owner=wishes.owner,
        parent_uid=wishes.uid,
        key=Key(settings.namespace, peer_relay_name(wishes.key.name)),
        pod=peer_relay(),
        config=ProxyConfig(hostname=wishes.hostname_prefix, server_url=tailnet.login_url, relay=True),
        tags=wishes.tags or settings.proxy_tags,
        tailnet=tailnet.name,
        replica_count=wishes.replicas,
        hostname_prefix=wishes.hostname_prefix,
        proxy_class=proxy_class,
        config_suffix=CONFIG_SUFFIX,
        static_endpoints=endpoints,
        replica_label=LABEL_PEER_RELAY_REPLICA,
    )


def workload(wishes: RelayWishes, proxy: Proxy, children: Children, settings: Settings) -> Workload:
    """Return the children that need no auth key: the load balancers, and the StatefulSet."""
    services = [_service(wishes, proxy, ordinal, children) for ordinal in range(proxy.replica_count)]
    live = children.statefulset(proxy.key)
    made = with_class(_statefulset(proxy, settings), proxy, children.pods, live, None)
    return Workload([*map(Child, services)], made, unwanted(children.services, services))


def _service(wishes: RelayWishes, proxy: Proxy, ordinal: int, children: Children) -> Object:
    name = f"{proxy.key.name}-{ordinal}"
    spec: Object = {
        "type": LOAD_BALANCER,
        "selector": {"statefulset.kubernetes.io/pod-name": name},
        "ports": [{"name": "peerrelay", "protocol": "UDP", "port": RELAY_PORT, "targetPort": RELAY_PORT}],
    }
    live = children.service(Key(proxy.key.namespace, name))
    if class_ := live["spec"].get("loadBalancerClass") if live else None:
        spec["loadBalancerClass"] = class_  # a webhook of a cloud has set it, and it can't be changed or removed
    made = proxy.child(SERVICE, name, {"spec": spec}, **{LABEL_PEER_RELAY_REPLICA: str(ordinal)})
    attributes = wishes.annotations.get(_ATTRIBUTES, _CROSS_ZONE)
    needed = {"metadata": {**made["metadata"], "annotations": {**_CLOUDS, _ATTRIBUTES: attributes}}}
    return with_given({**made, **needed}, {}, {**wishes.annotations, **_elastic_ip(wishes, ordinal)})


def _elastic_ip(wishes: RelayWishes, ordinal: int) -> dict[str, str]:
    """Return the annotations with which the load balancer of a relay gets its address in AWS."""
    if not wishes.elastic_ips:
        return {}
    given = wishes.elastic_ips[ordinal]
    return {f"{_AWS}eip-allocations": given.allocation_id, f"{_AWS}subnets": given.subnet_id}


def _statefulset(proxy: Proxy, settings: Settings) -> Object:
    labels = proxy.owner.labels
    container = {
        "name": RELAY_CONTAINER,
        "image": settings.proxy_image,
        "ports": [{"name": "healthz", "containerPort": HEALTH_PORT, "protocol": "TCP"}],
        "env": [
            from_field("POD_NAME", "metadata.name"),
            variable("TS_EXPERIMENTAL_VERSIONED_CONFIG_DIR", f"{CONFIGS}/$(POD_NAME)"),
            variable("TS_KUBE_SECRET", "$(POD_NAME)"),
            variable(HEALTH_CHECK, "true"),
        ],
    }
    spec = trusting(pod_spec(container, configs(proxy.replicas), PROXIES_SERVICE_ACCOUNT), settings)
    return statefulset(proxy, labels, {"metadata": {"labels": labels}, "spec": spec}, serviceName=proxy.key.name)


def named_children(name: str, replicas: int, namespace: str) -> list[tuple[Resource, Key]]:
    """Return the kinds and keys of the children that a PeerRelay called *name* with *replicas* relays should have."""
    key = Key(namespace, peer_relay_name(name))
    pods = [Key(namespace, f"{key.name}-{ordinal}") for ordinal in range(replicas)]
    secrets = [Key(namespace, each.name + suffix) for each in pods for suffix in ("", CONFIG_SUFFIX)]
    return [(STATEFULSET, key), *((SERVICE, each) for each in pods), *((SECRET, each) for each in secrets)]
