"""The parts of a Pod that the operator reads."""

from collections.abc import Sequence
from typing import Any, Final

from tsoperator.api.conditions import FALSE, is_true
from tsoperator.api.names import EGRESS_GATE, LABEL_PARENT_TYPE, PARENT_PROXYGROUP
from tsoperator.api.objects import STATEFULSET, Object, labels

HEALTH_CHECK: Final = "TS_ENABLE_HEALTH_CHECK"
"""The environment variable that makes a proxy answer health checks."""

_ENDED = ("exitCode", "startedAt", "finishedAt")
_CONTAINERS_READY = "ContainersReady"
_READY = ("Ready", _CONTAINERS_READY)
_CONDITION = ("type", "status", "reason")
_WAITS_FOR_GATES = "ReadinessGatesNotReady"  # the kubelet's reason if only a gate keeps a Pod from being ready
_METADATA = ("name", "namespace", "uid", "resourceVersion", "labels", "deletionTimestamp")


def slim(pod: Object) -> Object:
    """Return the slim form of a Pod for the cache, which has a tenth of the Pod's size.

    It has the Pod's identity, labels and addresses, and the kinds of its owners. For each container, it has the number
    of restarts, and the times and the exit code of the most recent run that has ended. For a Pod with our readiness
    gate, it also has the gate and the variable `HEALTH_CHECK`. For a Pod of a ProxyGroup, it also has the conditions
    that say whether the gate is open and the Pod is ready.
    """
    metadata, status = pod["metadata"], pod.get("status") or {}
    kept = {name: metadata[name] for name in _METADATA if name in metadata}
    owners = [{"kind": owner["kind"]} for owner in metadata.get("ownerReferences") or ()]
    restarts = [_restarts(each) for each in status.get("containerStatuses") or ()]
    gated, grouped = has_gate(pod), labels(pod).get(LABEL_PARENT_TYPE) == PARENT_PROXYGROUP
    spec = {"spec": {"readinessGates": [{"conditionType": EGRESS_GATE}], "containers": _containers(pod)}}
    conditions = {"conditions": _conditions(status)}
    return {
        "apiVersion": pod["apiVersion"],
        "kind": pod["kind"],
        "metadata": {**kept, "ownerReferences": owners},
        **(spec if gated else {}),
        "status": {
            "podIP": status.get("podIP", ""),
            "podIPs": status.get("podIPs") or [],
            "containerStatuses": restarts,
            **(conditions if grouped else {}),
        },
    }


def _conditions(status: Object) -> list[Object]:
    """Return those conditions in the *status* of a Pod that the operator reads, reduced to the fields that it reads."""
    return [
        {name: each[name] for name in _CONDITION if name in each}
        for each in status.get("conditions") or ()
        if each["type"] in (EGRESS_GATE, *_READY)
    ]


def _restarts(status: Object) -> Object:
    ended = (status.get("lastState") or {}).get("terminated") or {}
    kept = {name: ended[name] for name in _ENDED if name in ended}
    return {"restartCount": status["restartCount"], **({"lastState": {"terminated": kept}} if kept else {})}


def is_of_statefulset(pod: Object) -> bool:
    """Tell whether a StatefulSet manages *pod*, slim or whole."""
    return any(owner["kind"] == STATEFULSET.kind for owner in pod["metadata"].get("ownerReferences") or ())


def has_gate(pod: Object) -> bool:
    """Tell whether *pod*, slim or whole, has our readiness gate, so that it is ready only after the gate has opened."""
    gates = (pod.get("spec") or {}).get("readinessGates") or ()
    return any(gate["conditionType"] == EGRESS_GATE for gate in gates)


def is_down(pod: Object) -> bool:
    """Tell whether *pod*, slim or whole, isn't ready although our readiness gate has opened, as when its node died.

    In the moment between the opening of the gate and the kubelet's reaction, the Pod isn't ready, but isn't down. Pods
    without a gate, such as those from before an update, are down if they aren't ready. A Pod whose gate is closed is
    down if one of its containers has ended and isn't ready again, as in a crash loop.
    """
    status = pod.get("status") or {}
    unready = [
        each
        for each in status.get("conditions") or ()
        if each["type"] in _READY and each["status"] == FALSE and each.get("reason") != _WAITS_FOR_GATES
    ]
    if has_gate(pod) and not is_open(pod):
        has_ended = any(
            (each.get("lastState") or {}).get("terminated") for each in status.get("containerStatuses") or ()
        )
        return has_ended and any(each["type"] == _CONTAINERS_READY for each in unready)
    return bool(unready)


def is_open(pod: Object) -> bool:
    """Tell whether the readiness gate of *pod*, slim or whole, has opened."""
    return is_true(pod, EGRESS_GATE)


def in_service(pods: Sequence[Object]) -> Sequence[Object]:
    """Return those of *pods* that aren't down; if all are down, return all of them.

    If the API server can't reach any node, all Pods seem to be down, and nobody can tell which Pods still serve.
    """
    return [pod for pod in pods if not is_down(pod)] or pods


def answers_health_checks(pod: Object) -> bool:
    """Tell whether a container of *pod*, slim or whole, has the variable that makes it answer health checks."""
    return any(
        variable["name"] == HEALTH_CHECK and variable.get("value") == "true"
        for container in pod["spec"]["containers"]
        for variable in container.get("env") or ()
    )


def _containers(pod: Object) -> list[dict[str, Any]]:
    """Return the containers of *pod* that have the variable `HEALTH_CHECK`, reduced to this variable."""
    found = [
        [variable for variable in container.get("env") or () if variable["name"] == HEALTH_CHECK]
        for container in (pod.get("spec") or {}).get("containers") or ()
    ]
    return [{"env": variables} for variables in found if variables]
