"""The StatefulSet that runs the proxies of a ProxyGroup (docs/development/groups.md)."""

from dataclasses import replace
from typing import Final

from tsoperator.api.names import ANNOTATION_DIGEST, EGRESS_GATE, HEALTH_PORT
from tsoperator.api.objects import SERVICE, Object, annotations, resource_of
from tsoperator.api.v1alpha1.proxyclass import ProxyClassSpec
from tsoperator.group.grouptype import GroupType
from tsoperator.proxy.overlay import with_class
from tsoperator.proxy.proxy import Children, Proxy
from tsoperator.proxy.proxypod import GROUP_CONFIGS
from tsoperator.proxy.replica import Replica
from tsoperator.proxy.statefulset import CONFIG_VOLUME, Volume, configs, k8s_proxy_pod_spec, proxy_pod_spec, statefulset
from tsoperator.runtime.diff import contains, digest_of
from tsoperator.runtime.given import without_given
from tsoperator.settings import Settings

_END: Final = 60
"""The seconds within which a proxy has to end. It first waits some 15 s until new connections go to other proxies.

If the program of a proxy hangs when it is stopped, a rollout waits until these seconds are over.
"""

_SETTLE: Final = 10
"""The seconds for which a rollout waits after the container of a new proxy has started, before it ends another proxy.

A rollout waits so only in groups whose proxies don't wait for their connections to end, because nothing else delays the
readiness of the new Pod there. In that time, the proxy logs in and advertises what it serves, and the devices of the
tailnet learn how they reach it.
"""

_PACE: Final = "minReadySeconds"

_EARLIER_END: Final = 360
"""The seconds that earlier versions of this operator gave a proxy to end."""

_DRAIN_PATH: Final = "/internal-egress-services-preshutdown"
_LOCAL_ADDRESS: Final = "TS_LOCAL_ADDR_PORT"
_GRACE: Final = "terminationGracePeriodSeconds"
_NO_FAMILIES: Final[Object] = {"spec": {}}  # a placeholder for a metrics Service: the Pods are assumed to have IPv4
_OURS: Final = (_GRACE, "readinessGates")  # fields of Pods that not all Go operators set


def group_statefulset(type_: GroupType, proxy: Proxy, settings: Settings, children: Children) -> Object | None:
    """Return the StatefulSet of a group; None while it isn't known whether its Pods should listen at IPv4 or IPv6."""
    live = children.statefulset(proxy.key)
    service = next((each for each in children.metrics if resource_of(each) == SERVICE), None)
    if service is None and not (proxy.proxy_class and proxy.proxy_class.is_measured):
        service = _NO_FAMILIES
    made = with_class(_statefulset(type_, proxy, settings, live), proxy, children.pods, live, service)
    if made is None or live is None:
        return made
    return next((each for each in _earlier_forms(made) if _is_kept(live, each)), made)


def _mounted_replicas(proxy: Proxy, live: Object | None) -> list[Replica]:
    """Return the replicas whose configs the Pods mount.

    If a group shrinks to one replica, the remaining Pod goes on mounting the configs of the removed replicas. If these
    volumes were removed, this Pod would restart, and no other Pod would do its work meanwhile.
    """
    if live is None or proxy.replica_count != 1:
        return proxy.replicas
    volumes = live["spec"]["template"]["spec"].get("volumes") or ()
    count = sum(each["name"].startswith(CONFIG_VOLUME) for each in volumes)
    return replace(proxy, replica_count=max(count, 1)).replicas


def _statefulset(type_: GroupType, proxy: Proxy, settings: Settings, live: Object | None) -> Object:
    drains, labels = type_.drains and not moves_health_port(proxy.proxy_class), proxy.owner.labels
    metadata = {
        "name": proxy.key.name,
        "namespace": proxy.key.namespace,
        "labels": labels,
        "deletionGracePeriodSeconds": 360 if drains else 10,  # without effect on new Pods; existing Pods have it
    }
    if type_.offers_api:
        spec = k8s_proxy_pod_spec(proxy, settings)
    else:
        config = type_.config_name(proxy.key.name)
        entries = Volume(config, GROUP_CONFIGS, {"configMap": {"name": config}})
        volumes = [*configs(_mounted_replicas(proxy, live)), entries]
        spec = proxy_pod_spec(proxy.pod, volumes, proxy.key.name, settings, live)
    pace = {} if type_.drains else {_PACE: _SETTLE}
    return statefulset(proxy, labels, {"metadata": metadata, "spec": _draining(spec) if drains else spec}, **pace)


def _draining(spec: Object) -> Object:
    """Return the *spec* of Pods with the time that a Pod needs before it ends.

    In that time, the Pod waits until new connections go to other Pods.
    """
    (container,) = spec["containers"]
    lifecycle = {"preStop": {"httpGet": {"path": _DRAIN_PATH, "port": HEALTH_PORT}}}
    return {
        **spec,
        "containers": [{**container, "lifecycle": lifecycle}],
        "readinessGates": [{"conditionType": EGRESS_GATE}],
        _GRACE: _END,
    }


def moves_health_port(proxy_class: ProxyClassSpec | None) -> bool:
    """Tell whether a class changes the address at which a proxy learns that it is about to stop."""
    container = proxy_class.tailscale_container if proxy_class else None
    return container is not None and any(each.name == _LOCAL_ADDRESS for each in container.env)


def _earlier_forms(statefulset: Object) -> list[Object]:
    """Return *statefulset* in the forms that other operators give it.

    If its Pods wait for connections to end, earlier versions of this operator give them six minutes to end. Some Go
    operators give them 30 seconds, and no readiness gate. If its Pods don't wait for connections to end, our
    rollout waits a while for each new Pod, but the rollout of a Go operator doesn't.
    """
    spec = statefulset["spec"]
    pod = spec["template"]["spec"]
    if _PACE in spec:
        return [{**statefulset, "spec": {name: value for name, value in spec.items() if name != _PACE}}]
    if _GRACE not in pod:
        return []
    of_go = {name: value for name, value in pod.items() if name not in _OURS}
    return [_with_pod(statefulset, each) for each in ({**pod, _GRACE: _EARLIER_END}, of_go)]


def _with_pod(statefulset: Object, pod: Object) -> Object:
    spec = statefulset["spec"]
    return {**statefulset, "spec": {**spec, "template": {**spec["template"], "spec": pod}}}


def _is_kept(live: Object, wanted: Object) -> bool:
    """Tell whether the Pods of *live* are already as *wanted*, which is the form that another operator gives them.

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
