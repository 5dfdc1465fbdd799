"""The StatefulSet that runs a proxy on the official image (docs/development/proxies.md).

The order of the variables matters to the image.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from tsoperator.api.names import LABEL_APP, PROXIES_SERVICE_ACCOUNT, PROXY_CONTAINER, SERVE_CONFIG_KEY, SYSCTL_CONTAINER
from tsoperator.api.objects import STATEFULSET, Key, Object
from tsoperator.proxy.proxypod import ProxyPod
from tsoperator.proxy.replica import Replica
from tsoperator.runtime.ownership import Owner
from tsoperator.settings import Settings

CONFIGS: Final = "/etc/tsconfig"
CONFIG_VOLUME: Final = "tailscaledconfig-"
"""The prefix of the name of the volume with a replica's config; the ordinal follows."""
RESOURCES: Final[Object] = {"requests": {"cpu": "1m", "memory": "1Mi"}}
PRIVILEGED: Final[Object] = {"privileged": True}
_SERVE_CONFIG: Final = "TS_SERVE_CONFIG"
_SERVE_CONFIGS: Final = "/etc/tailscaled"
_FORWARD_IPV4: Final = "/proc/sys/net/ipv4/ip_forward"
_FORWARD_IPV6: Final = "/proc/sys/net/ipv6/conf/all/forwarding"
_SCRIPT: Final = f"echo 1 > {_FORWARD_IPV4} && if [ -e {_FORWARD_IPV6} ]; then echo 1 > {_FORWARD_IPV6}; fi"
"""The script of Go operators from 1.103 on. It needs no program of the image but the shell."""
_OLD_SCRIPT: Final = (
    "sysctl -w net.ipv4.ip_forward=1 && if sysctl net.ipv6.conf.all.forwarding; "
    "then sysctl -w net.ipv6.conf.all.forwarding=1; fi"
)
"""The script of Go operators up to 1.102, and of earlier versions of this operator. Some images lack sysctl."""


def proxy_statefulset(
    key: Key, owner: Owner, parent_uid: str, pod: Object, replicas: int, annotations: Mapping[str, str]
) -> Object:
    """Return the StatefulSet of a standalone proxy, named *key*, whose Pods have the spec *pod* and *annotations*."""
    metadata: Object = {"labels": {LABEL_APP: parent_uid, **owner.labels}, "deletionGracePeriodSeconds": 10}
    if annotations:
        metadata["annotations"] = {**annotations}
    return {
        "apiVersion": STATEFULSET.api_version,
        "kind": STATEFULSET.kind,
        "metadata": {"namespace": key.namespace, "name": key.name, "labels": owner.labels},
        "spec": {
            "replicas": replicas,
            "serviceName": key.name,
            "selector": {"matchLabels": {LABEL_APP: parent_uid}},
            "template": {"metadata": metadata, "spec": pod},
        },
    }


def proxy_pod_spec(pod: ProxyPod, replicas: Sequence[Replica], settings: Settings, live: Object | None) -> Object:
    """Return the spec of the Pods of a proxy with these *replicas*; *live* is the StatefulSet that runs them."""
    container: Object = {
        "name": PROXY_CONTAINER,
        "image": settings.proxy_image,
        "imagePullPolicy": "Always",
        "env": _environment(pod, settings),
        "resources": RESOURCES,
        "volumeMounts": _mounts(pod, replicas),
    }
    spec: Object = {
        "serviceAccountName": PROXIES_SERVICE_ACCOUNT,
        "containers": [container],
        "volumes": _volumes(pod, replicas),
    }
    if settings.proxy_priority_class:
        spec["priorityClassName"] = settings.proxy_priority_class
    if not pod.userspace:
        container["securityContext"] = PRIVILEGED
        spec["initContainers"] = [sysctler(settings, live)]
    return spec


def selects(statefulset: Object, parent_uid: str) -> bool:
    """Tell whether the immutable selector of *statefulset* is that of the parent with *parent_uid*."""
    return bool(statefulset["spec"]["selector"].get("matchLabels") == {LABEL_APP: parent_uid})


def serves(statefulset: Object) -> bool:
    """Tell whether the Pods of *statefulset* have a serve config."""
    containers = statefulset["spec"]["template"]["spec"]["containers"]
    return any(each["name"] == _SERVE_CONFIG for container in containers for each in container.get("env") or ())


def _environment(pod: ProxyPod, settings: Settings) -> list[Object]:
    firewall = {"TS_DEBUG_FIREWALL_MODE": settings.firewall_mode} if settings.firewall_mode else {}
    serving = {_SERVE_CONFIG: f"{_SERVE_CONFIGS}/$(POD_NAME)/{SERVE_CONFIG_KEY}"} if pod.serves else {}
    of_this_kind = {**pod.modes, **firewall, **pod.target, **serving, "TS_INTERNAL_APP": pod.app}
    return [
        variable("TS_USERSPACE", "true" if pod.userspace else "false"),
        from_field("POD_IP", "status.podIP"),
        from_field("POD_NAME", "metadata.name"),
        from_field("POD_UID", "metadata.uid"),
        variable("TS_KUBE_SECRET", "$(POD_NAME)"),
        variable("TS_EXPERIMENTAL_SERVICE_AUTO_ADVERTISEMENT", "false"),
        variable("TS_EXPERIMENTAL_VERSIONED_CONFIG_DIR", f"{CONFIGS}/$(POD_NAME)"),
        variable("TS_DEBUG_ACME_FORCE_RENEWAL", "true"),
        *(variable(name, value) for name, value in of_this_kind.items()),
    ]


def _mounts(pod: ProxyPod, replicas: Sequence[Replica]) -> list[Object]:
    mounts = config_mounts(replicas)
    return [*mounts, _mount("serve-config-0", _SERVE_CONFIGS, replicas[0])] if pod.serves else mounts


def config_mounts(replicas: Sequence[Replica]) -> list[Object]:
    """Return the mounts of configs: every Pod mounts those of all replicas, because all Pods have one template."""
    return [_mount(f"{CONFIG_VOLUME}{each.ordinal}", CONFIGS, each) for each in replicas]


def _mount(volume: str, folder: str, replica: Replica) -> Object:
    return {"name": volume, "mountPath": f"{folder}/{replica.state_secret.name}", "readOnly": True}


def _volumes(pod: ProxyPod, replicas: Sequence[Replica]) -> list[Object]:
    volumes = config_volumes(replicas)
    if pod.serves:
        items = [{"key": SERVE_CONFIG_KEY, "path": SERVE_CONFIG_KEY}]
        source = {"secretName": replicas[0].config_secret.name, "items": items}
        volumes.append({"name": "serve-config-0", "secret": source})
    return volumes


def config_volumes(replicas: Sequence[Replica]) -> list[Object]:
    """Return the volumes with the configs of all replicas."""
    return [
        {"name": f"{CONFIG_VOLUME}{each.ordinal}", "secret": {"secretName": each.config_secret.name}}
        for each in replicas
    ]


def sysctler(settings: Settings, live: Object | None) -> Object:
    """Return the init container that turns IP forwarding on; *live* is the StatefulSet that is there."""
    return {
        "name": SYSCTL_CONTAINER,
        "image": settings.proxy_image,
        "command": ["/bin/sh", "-c"],
        "args": [_sysctl_script(live)],
        "securityContext": PRIVILEGED,
    }


def _sysctl_script(live: Object | None) -> str:
    """Return the script of a *live* StatefulSet if it does the same as ours: another text would restart its Pods."""
    for container in live["spec"]["template"]["spec"].get("initContainers") or () if live else ():
        for script in container.get("args") or ():
            if container["name"] == SYSCTL_CONTAINER and (script == _OLD_SCRIPT or _FORWARD_IPV4 in script):
                return str(script)
    return _SCRIPT


def variable(name: str, value: str) -> Object:
    """Return a variable of a container."""
    return {"name": name, "value": value}


def from_field(name: str, path: str) -> Object:
    """Return a variable of a container with the value of a field of its Pod."""
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
