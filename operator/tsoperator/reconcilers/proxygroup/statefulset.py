"""The StatefulSet that runs the proxies of a ProxyGroup (docs/development/groups.md)."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from tsoperator.api.names import ANNOTATION_DIGEST, EGRESS_GATE, HEALTH_PORT, PROXY_CONTAINER
from tsoperator.api.objects import STATEFULSET, Object, annotations
from tsoperator.api.v1alpha1.proxyclass import ProxyClassSpec
from tsoperator.group.egress import config_name
from tsoperator.proxy.families import pods_have_ipv6
from tsoperator.proxy.overlay import has_endpoints, overlaid
from tsoperator.proxy.proxypod import EGRESS_CONFIGS
from tsoperator.proxy.replica import Replica
from tsoperator.proxy.statefulset import (
    CONFIG_VOLUME,
    CONFIGS,
    PRIVILEGED,
    RESOURCES,
    config_mounts,
    config_volumes,
    from_field,
    sysctler,
    variable,
)
from tsoperator.proxy.workload import Proxy
from tsoperator.reconcilers.proxygroup.children import group_child
from tsoperator.runtime.diff import contains, digest_of
from tsoperator.runtime.given import without_given
from tsoperator.settings import Settings

_END: Final = 60
"""The seconds in which a proxy has to see that new connections go elsewhere, which takes some 15 seconds, and to end.

The program of a proxy may hang when it is stopped. Then a rollout waits until these seconds are over.
"""

_EARLIER_END: Final = 360
"""The seconds that earlier versions of this operator gave a proxy."""

_DRAIN_PATH: Final = "/internal-egress-services-preshutdown"
_LOCAL_ADDRESS: Final = "TS_LOCAL_ADDR_PORT"
_GRACE: Final = "terminationGracePeriodSeconds"
_OURS: Final = (_GRACE, "readinessGates")  # fields of Pods that not all Go operators set


def group_statefulset(
    proxy: Proxy, settings: Settings, live: Object | None, pods: Sequence[Object], metrics: Object | None
) -> Object | None:
    """Return the StatefulSet of a group; None until the address family is known at which its Pods should listen.

    *live* is the one that is there, and *metrics* is the metrics Service.
    """
    drains = not moves_health_port(proxy.proxy_class)
    made = _statefulset(proxy, settings, live, drains=drains)
    if proxy.proxy_class is not None:
        service = metrics or (None if _is_measured(proxy.proxy_class) else {"spec": {}})
        ipv6 = pods_have_ipv6(pods, live, service)
        if ipv6 is None and has_endpoints(proxy.proxy_class, proxy.pod):
            return None
        made = overlaid(made, proxy.proxy_class, proxy.pod, ipv6=bool(ipv6))
    if live is None:
        return made
    return next((each for each in _earlier_forms(made) if _is_kept(live, each)), made)


def mounted_replicas(proxy: Proxy, live: Object | None) -> list[Replica]:
    """Return the replicas whose configs the Pods mount.

    If a group shrinks to one replica, they are those of before, too: without these volumes the Pod that is left would
    restart, and no other would do its work meanwhile.
    """
    if live is None or proxy.replica_count != 1:
        return proxy.replicas
    volumes = live["spec"]["template"]["spec"].get("volumes") or ()
    count = sum(each["name"].startswith(CONFIG_VOLUME) for each in volumes)
    return replace(proxy, replica_count=max(count, 1)).replicas


def _statefulset(proxy: Proxy, settings: Settings, live: Object | None, *, drains: bool) -> Object:
    labels = proxy.owner.labels
    metadata = {
        "name": proxy.key.name,
        "namespace": proxy.key.namespace,
        "labels": labels,
        "deletionGracePeriodSeconds": 360 if drains else 10,  # without effect, but existing Pods have it
    }
    spec = {
        "replicas": proxy.replica_count,
        "selector": {"matchLabels": labels},
        "template": {"metadata": metadata, "spec": _pod_spec(proxy, settings, live, drains=drains)},
    }
    return group_child(proxy, STATEFULSET, proxy.key.name, {"spec": spec})


def _pod_spec(proxy: Proxy, settings: Settings, live: Object | None, *, drains: bool) -> Object:
    name = config_name(proxy.key.name)
    mounted = mounted_replicas(proxy, live)
    container: Object = {
        "name": PROXY_CONTAINER,
        "image": settings.proxy_image,
        "imagePullPolicy": "Always",
        "env": _environment(proxy, settings),
        "resources": RESOURCES,
        "securityContext": PRIVILEGED,
        "volumeMounts": [
            *config_mounts(mounted),
            {"name": name, "mountPath": EGRESS_CONFIGS, "readOnly": True},
        ],
    }
    spec: Object = {
        "serviceAccountName": proxy.key.name,
        "initContainers": [sysctler(settings, live)],
        "containers": [container],
        "volumes": [*config_volumes(mounted), {"name": name, "configMap": {"name": name}}],
    }
    if drains:
        container["lifecycle"] = {"preStop": {"httpGet": {"path": _DRAIN_PATH, "port": HEALTH_PORT}}}
        spec["readinessGates"] = [{"conditionType": EGRESS_GATE}]
        spec[_GRACE] = _END
    return spec


def _environment(proxy: Proxy, settings: Settings) -> list[Object]:
    port = {"PORT": str(proxy.port)} if proxy.port else {}
    firewall = {"TS_DEBUG_FIREWALL_MODE": settings.firewall_mode} if settings.firewall_mode else {}
    of_this_type = {
        **port,
        **firewall,
        **proxy.pod.target,
        "TS_INTERNAL_APP": proxy.pod.app,
        "TS_ENABLE_HEALTH_CHECK": "true",
    }
    return [
        variable("TS_USERSPACE", "false"),
        from_field("POD_IP", "status.podIP"),
        from_field("POD_NAME", "metadata.name"),
        from_field("POD_UID", "metadata.uid"),
        from_field("POD_IPS", "status.podIPs"),
        variable("TS_KUBE_SECRET", "$(POD_NAME)"),
        variable("TS_EXPERIMENTAL_SERVICE_AUTO_ADVERTISEMENT", "false"),
        variable("TS_STATE", "kube:$(POD_NAME)"),
        variable("TS_EXPERIMENTAL_VERSIONED_CONFIG_DIR", f"{CONFIGS}/$(POD_NAME)"),
        *(variable(name, value) for name, value in of_this_type.items()),
    ]


def moves_health_port(proxy_class: ProxyClassSpec | None) -> bool:
    """Tell whether a class moves the port at which a proxy is told that it is about to be stopped."""
    pod = proxy_class.stateful_set.pod if proxy_class and proxy_class.stateful_set else None
    container = pod.tailscale_container if pod else None
    return container is not None and any(each.name == _LOCAL_ADDRESS for each in container.env)


def _is_measured(proxy_class: ProxyClassSpec) -> bool:
    return proxy_class.metrics is not None and proxy_class.metrics.enable


def _earlier_forms(statefulset: Object) -> list[Object]:
    """Return *statefulset* as other operators make it, if the Pods have time to drain.

    Earlier versions of this operator give the Pods six minutes to end. Some Go operators give them 30 seconds, and no
    readiness gate.
    """
    pod = statefulset["spec"]["template"]["spec"]
    if _GRACE not in pod:
        return []
    of_go = {name: value for name, value in pod.items() if name not in _OURS}
    return [_with_pod(statefulset, each) for each in ({**pod, _GRACE: _EARLIER_END}, of_go)]


def _with_pod(statefulset: Object, pod: Object) -> Object:
    spec = statefulset["spec"]
    return {**statefulset, "spec": {**spec, "template": {**spec["template"], "spec": pod}}}


def _is_kept(live: Object, wanted: Object) -> bool:
    """Tell whether another operator made the Pods of *live*, in the form *wanted*, and nothing about them has changed.

    Such Pods stay as they are until something else about them has to change, because any change would restart them.
    """
    pods = [each["spec"]["template"]["spec"] for each in (live, wanted)]
    is_ours, wants_ours = (pod.get(_GRACE) in (_END, _EARLIER_END) for pod in pods)
    digest = annotations(live).get(ANNOTATION_DIGEST)
    return (
        is_ours == wants_ours
        and digest in (None, digest_of(without_given(wanted)))
        and contains(live["spec"]["template"], wanted["spec"]["template"])
    )
