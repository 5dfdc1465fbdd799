"""The StatefulSet that runs a proxy on the official image (docs/development/proxies.md).

The environment variables must stay in their order, because the order matters to the image.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from tsoperator.api.names import (
    CONFIG_SUFFIX,
    LABEL_APP,
    PROXIES_SERVICE_ACCOUNT,
    PROXY_CONTAINER,
    SERVE_CONFIG_KEY,
    SYSCTL_CONTAINER,
)
from tsoperator.api.objects import STATEFULSET, Object
from tsoperator.proxy.proxy import Proxy
from tsoperator.proxy.proxypod import ProxyPod
from tsoperator.proxy.replica import Replica
from tsoperator.settings import Settings

CONFIGS: Final = "/etc/tsconfig"
"""The folder in which each Pod mounts the configs of all replicas."""
CONFIG_VOLUME: Final = "tailscaledconfig-"
"""The beginning of the name of the volume with a replica's config. The ordinal of the replica follows."""
CA_BUNDLE_KEY: Final = "ca.crt"
"""The key in the user's ConfigMap under which the CA bundle is."""
_CA_BUNDLE: Final = "ca-bundle"
_CA_FOLDER: Final = "/etc/tailnet-ca"
_RESOURCES: Final[Object] = {"requests": {"cpu": "1m", "memory": "1Mi"}}
_PRIVILEGED: Final[Object] = {"privileged": True}
_SERVE_CONFIG: Final = "TS_SERVE_CONFIG"
_SERVE_CONFIGS: Final = "/etc/tailscaled"
_FORWARD_IPV4: Final = "/proc/sys/net/ipv4/ip_forward"
_FORWARD_IPV6: Final = "/proc/sys/net/ipv6/conf/all/forwarding"
_SCRIPT: Final = f"echo 1 > {_FORWARD_IPV4} && if [ -e {_FORWARD_IPV6} ]; then echo 1 > {_FORWARD_IPV6}; fi"
"""The script by which we, and Go operators from 1.103 on, turn on IP forwarding.

The script needs no program of the image except the shell.
"""
_OLD_SCRIPT: Final = (
    "sysctl -w net.ipv4.ip_forward=1 && if sysctl net.ipv6.conf.all.forwarding; "
    "then sysctl -w net.ipv6.conf.all.forwarding=1; fi"
)
"""The script by which Go operators up to 1.102, and earlier versions of this operator, turn on IP forwarding.

It needs the program sysctl, which some images lack.
"""


class Volume(NamedTuple):
    """A volume that a container mounts at *path* and only reads. *source* says where its contents come from."""

    name: str
    path: str
    source: Object


def statefulset(proxy: Proxy, selector: Mapping[str, str], template: Object, **fields: str | int) -> Object:
    """Return the StatefulSet of *proxy*.

    Its Pods have this *template*. *selector* has the labels by which it finds its Pods, and *fields* are further fields
    of its spec.
    """
    spec = {"replicas": proxy.replica_count, "selector": {"matchLabels": selector}, "template": template, **fields}
    return proxy.child(STATEFULSET, proxy.key.name, {"spec": spec})


def pod_spec(container: Object, volumes: Sequence[Volume], account: str) -> Object:
    """Return the spec of Pods with one *container*, which mounts the *volumes*, and the ServiceAccount *account*."""
    mounts = [{"name": each.name, "mountPath": each.path, "readOnly": True} for each in volumes]
    return {
        "serviceAccountName": account,
        "containers": [{**container, "volumeMounts": mounts}],
        "volumes": [{"name": each.name, **each.source} for each in volumes],
    }


def trusting(spec: Object, settings: Settings) -> Object:
    """Return the *spec* of Pods, changed so that the first container also trusts the user's CA bundle.

    It still trusts the CAs of its image.
    """
    if not settings.proxy_ca_bundle:
        return spec
    first, *others = spec["containers"]
    mount = {"name": _CA_BUNDLE, "mountPath": _CA_FOLDER, "readOnly": True}
    trusts = variable("SSL_CERT_FILE", f"{_CA_FOLDER}/{CA_BUNDLE_KEY}")
    volume = {"name": _CA_BUNDLE, "configMap": {"name": settings.proxy_ca_bundle}}
    container = {
        **first,
        "env": [*first["env"], trusts],
        "volumeMounts": [*(first.get("volumeMounts") or ()), mount],
    }
    return {**spec, "containers": [container, *others], "volumes": [*(spec.get("volumes") or ()), volume]}


def standalone_statefulset(proxy: Proxy, settings: Settings, live: Object | None = None) -> Object:
    """Return the StatefulSet of a standalone *proxy*, without the changes of its ProxyClass.

    *live* is the existing StatefulSet.
    """
    selector, pod = {LABEL_APP: proxy.parent_uid}, proxy.pod
    metadata: Object = {"labels": {**selector, **proxy.owner.labels}, "deletionGracePeriodSeconds": 10}
    if pod.annotations:
        metadata["annotations"] = {**pod.annotations}
    volumes = [*configs(proxy.replicas), *([_serve_config(proxy.replicas[0])] if pod.serves else ())]
    spec = proxy_pod_spec(pod, volumes, PROXIES_SERVICE_ACCOUNT, settings, live)
    if settings.proxy_priority_class:
        spec["priorityClassName"] = settings.proxy_priority_class
    return statefulset(proxy, selector, {"metadata": metadata, "spec": spec}, serviceName=proxy.key.name)


def proxy_pod_spec(
    pod: ProxyPod, volumes: Sequence[Volume], account: str, settings: Settings, live: Object | None
) -> Object:
    """Return the spec of the Pods of a proxy; *live* is the StatefulSet that runs them."""
    rights = {} if pod.userspace else {"securityContext": _PRIVILEGED}
    container = {
        "name": PROXY_CONTAINER,
        "image": settings.proxy_image,
        "imagePullPolicy": "Always",
        "env": _environment(pod, settings),
        "resources": _RESOURCES,
        **rights,
    }
    init = {} if pod.userspace else {"initContainers": [_sysctler(settings, live)]}
    return {**trusting(pod_spec(container, volumes, account), settings), **init}


def k8s_proxy_pod_spec(proxy: Proxy, settings: Settings) -> Object:
    """Return the spec of the Pods of a *proxy* of the Kubernetes API.

    The image reads its config through the Kubernetes API, so the Pods mount no Secret. They can mount a CA bundle.
    """
    config = f"kube:{proxy.key.namespace}/$(POD_NAME){CONFIG_SUFFIX}"
    of_this_kind = {"TS_K8S_PROXY_CONFIG": config, "TS_DEBUG_ACME_FORCE_RENEWAL": "true", **proxy.pod.modes}
    container = {
        "name": PROXY_CONTAINER,
        "image": settings.k8s_proxy_image,
        "env": [
            from_field("POD_NAME", "metadata.name"),
            from_field("POD_UID", "metadata.uid"),
            from_field("POD_IP", "status.podIP"),
            from_field("POD_IPS", "status.podIPs"),
            *(variable(name, value) for name, value in of_this_kind.items()),
        ],
        "ports": [{"name": "k8s-proxy", "containerPort": 443, "protocol": "TCP"}],
    }
    return trusting({"serviceAccountName": proxy.account, "containers": [container]}, settings)


def mounted_secrets(statefulset: Object | None) -> set[str]:
    """Return the names of the Secrets that the Pods of *statefulset* mount."""
    volumes = (statefulset["spec"]["template"]["spec"].get("volumes") or ()) if statefulset else ()
    return {each["secret"]["secretName"] for each in volumes if "secret" in each}


def selects(statefulset: Object, parent_uid: str) -> bool:
    """Tell whether *statefulset* selects Pods for the parent with *parent_uid*. Its selector can't be changed."""
    return bool(statefulset["spec"]["selector"].get("matchLabels") == {LABEL_APP: parent_uid})


def serves(statefulset: Object) -> bool:
    """Tell whether the Pods of *statefulset* read a serve config."""
    containers = statefulset["spec"]["template"]["spec"]["containers"]
    return any(each["name"] == _SERVE_CONFIG for container in containers for each in container.get("env") or ())


def egress_target(statefulset: Object) -> tuple[str, str]:
    """Return the device to which the Pods of *statefulset* forward, as its MagicDNS name or its address.

    The result has both, and one of them is empty. If the Pods don't forward to a device, both are empty. The name has
    no dot at its end.
    """
    containers = statefulset["spec"]["template"]["spec"]["containers"]
    given = {each["name"]: each.get("value", "") for container in containers for each in container.get("env") or ()}
    return given.get("TS_TAILNET_TARGET_FQDN", "").removesuffix("."), given.get("TS_TAILNET_TARGET_IP", "")


def _environment(pod: ProxyPod, settings: Settings) -> list[Object]:
    firewall = {"TS_DEBUG_FIREWALL_MODE": settings.firewall_mode} if settings.firewall_mode else {}
    serving = {_SERVE_CONFIG: f"{_SERVE_CONFIGS}/$(POD_NAME)/{SERVE_CONFIG_KEY}"} if pod.serves else {}
    of_this_kind = {**pod.modes, **firewall, **pod.target, **serving, "TS_INTERNAL_APP": pod.app, **pod.more}
    return [
        variable("TS_USERSPACE", "true" if pod.userspace else "false"),
        from_field("POD_IP", "status.podIP"),
        from_field("POD_NAME", "metadata.name"),
        from_field("POD_UID", "metadata.uid"),
        *([from_field("POD_IPS", "status.podIPs")] if pod.grouped else ()),
        variable("TS_KUBE_SECRET", pod.state),
        variable("TS_EXPERIMENTAL_SERVICE_AUTO_ADVERTISEMENT", "false"),
        *([variable("TS_STATE", f"kube:{pod.state}")] if pod.grouped else ()),
        variable("TS_EXPERIMENTAL_VERSIONED_CONFIG_DIR", f"{CONFIGS}/{pod.state}"),
        *(() if pod.grouped else [variable("TS_DEBUG_ACME_FORCE_RENEWAL", "true")]),
        *(variable(name, value) for name, value in of_this_kind.items()),
    ]


def configs(replicas: Sequence[Replica]) -> list[Volume]:
    """Return the volumes with the configs of *replicas*.

    Every Pod mounts all of these volumes, because all Pods have one template.
    """
    return [
        Volume(
            f"{CONFIG_VOLUME}{each.ordinal}",
            f"{CONFIGS}/{each.state_secret.name}",
            {"secret": {"secretName": each.config_secret.name}},
        )
        for each in replicas
    ]


def _serve_config(replica: Replica) -> Volume:
    items = [{"key": SERVE_CONFIG_KEY, "path": SERVE_CONFIG_KEY}]
    source = {"secret": {"secretName": replica.config_secret.name, "items": items}}
    return Volume("serve-config-0", f"{_SERVE_CONFIGS}/{replica.state_secret.name}", source)


def _sysctler(settings: Settings, live: Object | None) -> Object:
    """Return the init container that turns IP forwarding on; *live* is the existing StatefulSet."""
    return {
        "name": SYSCTL_CONTAINER,
        "image": settings.proxy_image,
        "command": ["/bin/sh", "-c"],
        "args": [_sysctl_script(live)],
        "securityContext": _PRIVILEGED,
    }


def _sysctl_script(live: Object | None) -> str:
    """Return the script of the init container.

    It is the script in the *live* StatefulSet if that is one of ours or the Go operator's, because a change of the
    script would restart the Pods. Otherwise it is `_SCRIPT`.
    """
    for container in live["spec"]["template"]["spec"].get("initContainers") or () if live else ():
        for script in container.get("args") or ():
            if container["name"] == SYSCTL_CONTAINER and (script == _OLD_SCRIPT or _FORWARD_IPV4 in script):
                return str(script)
    return _SCRIPT


def variable(name: str, value: str) -> Object:
    """Return an environment variable of a container."""
    return {"name": name, "value": value}


def from_field(name: str, path: str) -> Object:
    """Return an environment variable whose value is a field of its Pod."""
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
