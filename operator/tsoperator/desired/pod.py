"""What the operator reads of a Pod."""

from typing import Any, Final

from tsoperator.api.names import EGRESS_GATE
from tsoperator.api.objects import Object

HEALTH_CHECK: Final = "TS_ENABLE_HEALTH_CHECK"
"""The variable by which a proxy is told to answer health checks."""

_ENDED = ("exitCode", "startedAt", "finishedAt")
_METADATA = ("name", "namespace", "uid", "resourceVersion", "labels", "deletionTimestamp")


def slim(pod: Object) -> Object:
    """Return what the cache keeps of a Pod, which is a tenth of it.

    This is its identity, its labels, the kinds of its owners, its addresses, how often its containers have restarted,
    and when and with which code they ended last. Of a Pod that has our readiness gate, it is also the gate, its
    condition, and `HEALTH_CHECK`.
    """
    metadata, status = pod["metadata"], pod.get("status") or {}
    kept = {name: metadata[name] for name in _METADATA if name in metadata}
    owners = [{"kind": owner["kind"]} for owner in metadata.get("ownerReferences") or ()]
    restarts = [_restarts(each) for each in status.get("containerStatuses") or ()]
    gated = has_gate(pod)
    spec = {"spec": {"readinessGates": [{"conditionType": EGRESS_GATE}], "containers": _containers(pod)}}
    conditions = {"conditions": [each for each in status.get("conditions") or () if each["type"] == EGRESS_GATE]}
    return {
        "apiVersion": pod["apiVersion"],
        "kind": pod["kind"],
        "metadata": {**kept, "ownerReferences": owners},
        **(spec if gated else {}),
        "status": {
            "podIP": status.get("podIP", ""),
            "podIPs": status.get("podIPs") or [],
            "containerStatuses": restarts,
            **(conditions if gated else {}),
        },
    }


def _restarts(status: Object) -> Object:
    ended = (status.get("lastState") or {}).get("terminated") or {}
    kept = {name: ended[name] for name in _ENDED if name in ended}
    return {"restartCount": status["restartCount"], **({"lastState": {"terminated": kept}} if kept else {})}


def has_gate(pod: Object) -> bool:
    """Tell whether *pod*, slim or whole, waits for our readiness gate before it is ready."""
    gates = (pod.get("spec") or {}).get("readinessGates") or ()
    return any(gate["conditionType"] == EGRESS_GATE for gate in gates)


def answers_health_checks(pod: Object) -> bool:
    """Tell whether a container of *pod*, slim or whole, is told to answer health checks."""
    return any(
        variable["name"] == HEALTH_CHECK and variable.get("value") == "true"
        for container in pod["spec"]["containers"]
        for variable in container.get("env") or ()
    )


def _containers(pod: Object) -> list[dict[str, Any]]:
    """Return the containers of *pod* that have `HEALTH_CHECK`, and of these only that."""
    found = [
        [variable for variable in container.get("env") or () if variable["name"] == HEALTH_CHECK]
        for container in (pod.get("spec") or {}).get("containers") or ()
    ]
    return [{"env": variables} for variables in found if variables]
