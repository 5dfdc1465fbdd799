"""The StatefulSet that runs a proxy on the official image (standalone-proxies.md 4.7). The order of env matters to
the image.
"""

from dataclasses import dataclass
from typing import Final

from tsoperator.api.names import (
    ANNOTATION_LAST_CLUSTER_DNS_NAME,
    ANNOTATION_LAST_CLUSTER_IP,
    ANNOTATION_LAST_TAILNET_TARGET_FQDN,
    ANNOTATION_LAST_TAILNET_TARGET_IP,
    APP_CONNECTOR,
    APP_EGRESS_SERVICE,
    APP_INGRESS,
    APP_INGRESS_SERVICE,
    LABEL_APP,
    PROXIES_SERVICE_ACCOUNT,
    PROXY_CONTAINER,
    SERVE_CONFIG_KEY,
    SYSCTL_CONTAINER,
)
from tsoperator.api.objects import STATEFULSET, Key, Object
from tsoperator.desired.children import Owner
from tsoperator.settings import Settings

_SYSCTL: Final = (
    "sysctl -w net.ipv4.ip_forward=1 && if sysctl net.ipv6.conf.all.forwarding; "
    "then sysctl -w net.ipv6.conf.all.forwarding=1; fi"
)
_SYSCTL_FILE: Final = "/proc/sys/net/ipv4/ip_forward"  # what the init script of Go operators from 1.103 on writes to


@dataclass(frozen=True, slots=True)
class EgressByFQDN:
    """The proxy forwards to the tailnet device with this MagicDNS name."""

    fqdn: str


@dataclass(frozen=True, slots=True)
class EgressByIP:
    """The proxy forwards to this tailnet address."""

    ip: str


@dataclass(frozen=True, slots=True)
class ServeIngress:
    """The proxy serves by its serve config; *forward_cluster_traffic* sends it what reaches the Pod's address too."""

    forward_cluster_traffic: bool


@dataclass(frozen=True, slots=True)
class ExposeIP:
    """The proxy forwards what comes from the tailnet to this cluster IP, on every port."""

    ip: str


@dataclass(frozen=True, slots=True)
class ExposeName:
    """The proxy forwards what comes from the tailnet to the addresses of this DNS name, on every port."""

    name: str


@dataclass(frozen=True, slots=True)
class ServeService:
    """The proxy serves ports of a Service by its serve config."""


@dataclass(frozen=True, slots=True)
class ConnectNetworks:
    """The proxy, in as many *replicas*, connects networks to the tailnet as its config says."""

    replicas: int


Target = EgressByFQDN | EgressByIP | ServeIngress | ExposeIP | ExposeName | ServeService | ConnectNetworks


def proxy_statefulset(
    key: Key, owner: Owner, parent_uid: str, target: Target, settings: Settings, live: Object | None
) -> Object:
    """Return the StatefulSet named *key*; the Secret of each replica is named like its Pod."""
    container: Object = {
        "name": PROXY_CONTAINER,
        "image": settings.proxy_image,
        "imagePullPolicy": "Always",
        "env": _environment(target, settings),
        "resources": {"requests": {"cpu": "1m", "memory": "1Mi"}},
        "volumeMounts": _mounts(key, target),
    }
    pod: Object = {
        "serviceAccountName": PROXIES_SERVICE_ACCOUNT,
        "containers": [container],
        "volumes": _volumes(key, target),
    }
    if settings.proxy_priority_class:
        pod["priorityClassName"] = settings.proxy_priority_class
    if not _is_userspace(target):
        container["securityContext"] = {"privileged": True}
        pod["initContainers"] = [_sysctler(settings, live)]
    template_metadata: Object = {"labels": {LABEL_APP: parent_uid, **owner.labels}, "deletionGracePeriodSeconds": 10}
    if annotations := _target_annotations(target):
        template_metadata["annotations"] = annotations
    return {
        "apiVersion": STATEFULSET.api_version,
        "kind": STATEFULSET.kind,
        "metadata": {"namespace": key.namespace, "name": key.name, "labels": owner.labels},
        "spec": {
            "replicas": replicas(target),
            "serviceName": key.name,
            "selector": {"matchLabels": {LABEL_APP: parent_uid}},
            "template": {"metadata": template_metadata, "spec": pod},
        },
    }


def replicas(target: Target) -> int:
    """Return how many Pods, each with a Secret and a device of its own, the proxy has."""
    return target.replicas if isinstance(target, ConnectNetworks) else 1


def selects(statefulset: Object, parent_uid: str) -> bool:
    """Tell whether the immutable selector of *statefulset* is that of the parent with *parent_uid*."""
    return bool(statefulset["spec"]["selector"].get("matchLabels") == {LABEL_APP: parent_uid})


def _is_userspace(target: Target) -> bool:
    return _serves(target) and not (isinstance(target, ServeIngress) and target.forward_cluster_traffic)


def _serves(target: Target) -> bool:
    """Tell whether the proxy has a serve config."""
    return isinstance(target, ServeIngress | ServeService)


def _environment(target: Target, settings: Settings) -> list[Object]:
    env = [
        _variable("TS_USERSPACE", "true" if _is_userspace(target) else "false"),
        _from_field("POD_IP", "status.podIP"),
        _from_field("POD_NAME", "metadata.name"),
        _from_field("POD_UID", "metadata.uid"),
        _variable("TS_KUBE_SECRET", "$(POD_NAME)"),
        _variable("TS_EXPERIMENTAL_SERVICE_AUTO_ADVERTISEMENT", "false"),
        _variable("TS_EXPERIMENTAL_VERSIONED_CONFIG_DIR", "/etc/tsconfig/$(POD_NAME)"),
        _variable("TS_DEBUG_ACME_FORCE_RENEWAL", "true"),
    ]
    if isinstance(target, ServeIngress) and target.forward_cluster_traffic:
        env.append(_variable("EXPERIMENTAL_ALLOW_PROXYING_CLUSTER_TRAFFIC_VIA_INGRESS", "true"))
    if settings.firewall_mode:
        env.append(_variable("TS_DEBUG_FIREWALL_MODE", settings.firewall_mode))
    match target:
        case EgressByIP(ip):
            env += [_variable("TS_TAILNET_TARGET_IP", ip), _variable("TS_INTERNAL_APP", APP_EGRESS_SERVICE)]
        case EgressByFQDN(fqdn):
            env += [_variable("TS_TAILNET_TARGET_FQDN", fqdn), _variable("TS_INTERNAL_APP", APP_EGRESS_SERVICE)]
        case ExposeIP(ip):
            env += [_variable("TS_DEST_IP", ip), _variable("TS_INTERNAL_APP", APP_INGRESS_SERVICE)]
        case ExposeName(name):
            env += [
                _variable("TS_EXPERIMENTAL_DEST_DNS_NAME", name),
                _variable("TS_INTERNAL_APP", APP_INGRESS_SERVICE),
            ]
        case ServeIngress() | ServeService():
            app = APP_INGRESS if isinstance(target, ServeIngress) else APP_INGRESS_SERVICE
            path = f"/etc/tailscaled/$(POD_NAME)/{SERVE_CONFIG_KEY}"
            env += [_variable("TS_SERVE_CONFIG", path), _variable("TS_INTERNAL_APP", app)]
        case ConnectNetworks():
            env.append(_variable("TS_INTERNAL_APP", APP_CONNECTOR))
    return env


def _target_annotations(target: Target) -> dict[str, str]:
    match target:
        case EgressByIP(ip):
            return {ANNOTATION_LAST_TAILNET_TARGET_IP: ip}
        case EgressByFQDN(fqdn):
            return {ANNOTATION_LAST_TAILNET_TARGET_FQDN: fqdn}
        case ExposeIP(ip):
            return {ANNOTATION_LAST_CLUSTER_IP: ip}
        case ExposeName(name):
            return {ANNOTATION_LAST_CLUSTER_DNS_NAME: name}
    return {}


def _mounts(key: Key, target: Target) -> list[Object]:
    """Every Pod has the Secrets of all: they are one template's."""
    mounts: list[Object] = [
        {"name": f"tailscaledconfig-{number}", "mountPath": f"/etc/tsconfig/{key.name}-{number}", "readOnly": True}
        for number in range(replicas(target))
    ]
    if _serves(target):
        mounts.append({"name": "serve-config-0", "mountPath": f"/etc/tailscaled/{key.name}-0", "readOnly": True})
    return mounts


def _volumes(key: Key, target: Target) -> list[Object]:
    volumes: list[Object] = [
        {"name": f"tailscaledconfig-{number}", "secret": {"secretName": f"{key.name}-{number}"}}
        for number in range(replicas(target))
    ]
    if _serves(target):
        items = [{"key": SERVE_CONFIG_KEY, "path": SERVE_CONFIG_KEY}]
        volumes.append({"name": "serve-config-0", "secret": {"secretName": f"{key.name}-0", "items": items}})
    return volumes


def _sysctler(settings: Settings, live: Object | None) -> Object:
    return {
        "name": SYSCTL_CONTAINER,
        "image": settings.proxy_image,
        "command": ["/bin/sh", "-c"],
        "args": [_sysctl_script(live)],
        "securityContext": {"privileged": True},
    }


def _sysctl_script(live: Object | None) -> str:
    """Return the script that a *live* StatefulSet runs if it does the same as ours: another wording would restart its
    Pods.
    """
    for container in live["spec"]["template"]["spec"].get("initContainers") or () if live else ():
        for script in container.get("args") or ():
            if container["name"] == SYSCTL_CONTAINER and _SYSCTL_FILE in script:
                return str(script)
    return _SYSCTL


def _variable(name: str, value: str) -> Object:
    return {"name": name, "value": value}


def _from_field(name: str, path: str) -> Object:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
