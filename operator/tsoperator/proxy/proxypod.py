"""The parts of a Pod that depend on the kind of its proxy; `statefulset` adds the parts that all proxies share."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tsoperator.api.names import (
    ANNOTATION_LAST_CLUSTER_DNS_NAME,
    ANNOTATION_LAST_CLUSTER_IP,
    ANNOTATION_LAST_TAILNET_TARGET_FQDN,
    ANNOTATION_LAST_TAILNET_TARGET_IP,
    APP_APISERVER_PROXY,
    APP_CONNECTOR,
    APP_EGRESS_SERVICE,
    APP_INGRESS,
    APP_INGRESS_SERVICE,
    APP_PROXYGROUP_EGRESS,
    APP_PROXYGROUP_INGRESS,
    APP_PROXYGROUP_KUBE_APISERVER,
    EGRESS_SERVICES,
    INGRESS_RULES,
    INGRESS_SERVE_CONFIG,
    PROXY_CONTAINER,
    RELAY_CONTAINER,
    TYPE_CONNECTOR,
    TYPE_EGRESS_SERVICE,
    TYPE_INGRESS_RESOURCE,
    TYPE_INGRESS_SERVICE,
    TYPE_PROXYGROUP,
    TYPE_RECORDER,
)
from tsoperator.proxy.pod import HEALTH_CHECK

GROUP_CONFIGS: Final = "/etc/proxies"
"""The path at which the Pods of a ProxyGroup mount its ConfigMap."""


@dataclass(frozen=True, slots=True)
class ProxyPod:
    """The description of the Pods of one kind of proxy.

    *app* is the name by which the image knows that kind, and *type* is its name in the metrics. *modes*, *target* and
    *more* are environment variables for the image, in this order: *modes* say how the proxy works, and *target* says
    where it leads.

    A *userspace* proxy needs no privileges. A proxy that *serves* has a serve config, and one that also *serves_https*
    asks for certificates. A *measurable* proxy can serve metrics; a proxy that forwards all connections to its Pod's
    address can't. A *grouped* proxy belongs to a ProxyGroup. The image runs in the container called *container*, and
    keeps its state in the Secret called *state*.
    """

    app: str
    type: str
    modes: Mapping[str, str] = field(default_factory=dict)
    target: Mapping[str, str] = field(default_factory=dict)
    more: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    userspace: bool = False
    serves: bool = False
    serves_https: bool = False
    measurable: bool = True
    grouped: bool = False
    container: str = PROXY_CONTAINER
    state: str = "$(POD_NAME)"


def egress_to_name(fqdn: str) -> ProxyPod:
    """Describe the Pods that forward to the tailnet device with this MagicDNS name."""
    return ProxyPod(
        APP_EGRESS_SERVICE,
        TYPE_EGRESS_SERVICE,
        target={"TS_TAILNET_TARGET_FQDN": fqdn},
        annotations={ANNOTATION_LAST_TAILNET_TARGET_FQDN: fqdn},
        measurable=False,
    )


def egress_to_ip(ip: str) -> ProxyPod:
    """Describe the Pods that forward to this tailnet address."""
    return ProxyPod(
        APP_EGRESS_SERVICE,
        TYPE_EGRESS_SERVICE,
        target={"TS_TAILNET_TARGET_IP": ip},
        annotations={ANNOTATION_LAST_TAILNET_TARGET_IP: ip},
        measurable=False,
    )


def exposed_ip(ip: str) -> ProxyPod:
    """Describe the Pods that forward traffic from the tailnet to this cluster IP, on every port."""
    return ProxyPod(
        APP_INGRESS_SERVICE,
        TYPE_INGRESS_SERVICE,
        target={"TS_DEST_IP": ip},
        annotations={ANNOTATION_LAST_CLUSTER_IP: ip},
    )


def exposed_name(name: str) -> ProxyPod:
    """Describe the Pods that forward traffic from the tailnet to the addresses of this DNS name, on every port."""
    return ProxyPod(
        APP_INGRESS_SERVICE,
        TYPE_INGRESS_SERVICE,
        target={"TS_EXPERIMENTAL_DEST_DNS_NAME": name},
        annotations={ANNOTATION_LAST_CLUSTER_DNS_NAME: name},
    )


def served_service() -> ProxyPod:
    """Describe the Pods that serve ports of a Service by their serve config."""
    return ProxyPod(APP_INGRESS_SERVICE, TYPE_INGRESS_SERVICE, userspace=True, serves=True)


def served_ingress(*, forward_cluster_traffic: bool) -> ProxyPod:
    """Describe the Pods that serve an Ingress; with *forward_cluster_traffic*, they also serve it to other Pods."""
    forwarding = {"EXPERIMENTAL_ALLOW_PROXYING_CLUSTER_TRAFFIC_VIA_INGRESS": "true"}
    return ProxyPod(
        APP_INGRESS,
        TYPE_INGRESS_RESOURCE,
        modes=forwarding if forward_cluster_traffic else {},
        userspace=not forward_cluster_traffic,
        serves=True,
        serves_https=True,
        measurable=not forward_cluster_traffic,
    )


def connected_networks() -> ProxyPod:
    """Describe the Pods of a Connector, which connect networks to the tailnet as their config says."""
    return ProxyPod(APP_CONNECTOR, TYPE_CONNECTOR)


def recording() -> ProxyPod:
    """Describe the Pods of a Recorder, which record sessions. They run another image than the Pods of proxies."""
    return ProxyPod("", TYPE_RECORDER, userspace=True, measurable=False)


def egress_group() -> ProxyPod:
    """Describe the Pods of a ProxyGroup that forward to devices of the tailnet, as an egress ConfigMap says."""
    return ProxyPod(
        APP_PROXYGROUP_EGRESS,
        TYPE_PROXYGROUP,
        target={
            "TS_EGRESS_SERVICES_CONFIG_PATH": f"{GROUP_CONFIGS}/{EGRESS_SERVICES}",
            "TS_EGRESS_PROXIES_CONFIG_PATH": GROUP_CONFIGS,
        },
        more={HEALTH_CHECK: "true"},
        grouped=True,
    )


def ingress_group(account: Mapping[str, str]) -> ProxyPod:
    """Describe the Pods of a ProxyGroup that serve Tailscale Services, as an ingress ConfigMap says.

    *account* are the variables that say where the ACME account is.
    """
    return ProxyPod(
        APP_PROXYGROUP_INGRESS,
        TYPE_PROXYGROUP,
        more={
            "TS_INGRESS_PROXIES_CONFIG_PATH": f"{GROUP_CONFIGS}/{INGRESS_RULES}",
            "TS_SERVE_CONFIG": f"{GROUP_CONFIGS}/{INGRESS_SERVE_CONFIG}",
            "TS_EXPERIMENTAL_CERT_SHARE": "true",
            **account,
        },
        serves_https=True,
        grouped=True,
    )


def kube_apiserver_group() -> ProxyPod:
    """Describe the Pods of a ProxyGroup that offer the Kubernetes API to the tailnet. They run the image k8s-proxy."""
    return ProxyPod(APP_PROXYGROUP_KUBE_APISERVER, TYPE_PROXYGROUP, userspace=True, serves_https=True, grouped=True)


def peer_relay() -> ProxyPod:
    """Describe the Pods that relay packets between devices of the tailnet, for a PeerRelay."""
    return ProxyPod("", "", userspace=True, measurable=False, container=RELAY_CONTAINER)


def registered_device(secret: str) -> ProxyPod:
    """Describe the Pod that registers the operator's own device, and keeps its state in the Secret called *secret*."""
    return ProxyPod("", "", userspace=True, measurable=False, state=secret)


def served_apiserver(secret: str, more: Mapping[str, str]) -> ProxyPod:
    """Describe the Pod of the operator's own device, by which that device serves the API server to the tailnet.

    The Pod keeps its state in the Secret called *secret*. *more* are further variables for the image.
    """
    return ProxyPod(APP_APISERVER_PROXY, "", more=more, userspace=True, measurable=False, state=secret)
