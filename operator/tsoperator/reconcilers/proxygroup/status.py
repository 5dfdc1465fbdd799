"""The status of a ProxyGroup: its conditions, and the devices of running proxies."""

from tsoperator.api.conditions import condition, set_condition
from tsoperator.api.names import CONDITION_PROXYGROUP_AVAILABLE, CONDITION_PROXYGROUP_READY, CONFIG_SUFFIX
from tsoperator.api.objects import Key, Object, is_deleting, key_of, uid
from tsoperator.group.proxygroup import replica_count
from tsoperator.proxy.pod import in_service
from tsoperator.proxy.proxy import Children
from tsoperator.proxy.secret import device_of, reporting_pod_of, static_endpoints_of
from tsoperator.runtime.plan import Refusal

AVAILABLE = "ProxyGroupAvailable"
READY = "ProxyGroupReady"
CREATING = "ProxyGroupCreating"
FAILED = "ProxyGroupCreationFailed"
FREED = 60.0
"""The seconds after which the operator looks again whether a name or a node port is free that another object has."""


def running_devices(children: Children) -> list[Object]:
    """Return the entries of the status for the devices of running proxies, by ordinal.

    A proxy runs if its Pod has reported a device with a MagicDNS name, and isn't down while another one runs: Services
    lead to the same Pods.
    """
    found = [(pod, device) for pod in children.pods if (device := _reported_device(pod, children))]
    running = in_service([pod for pod, _ in found])
    return [device for pod, device in found if pod in running]


def status(group: Object, children: Children, problem: Refusal | None = None) -> Object:
    """Return the status of *group*, which has these *children*."""
    devices, replicas = running_devices(children), replica_count(group)
    ending = " and ".join(str(key_of(pod)) for pod in children.pods if is_deleting(pod))
    waits = f"; waiting for Pod {ending} to end" if ending else ""
    running = f"{len(devices)}/{replicas} ProxyGroup pods running{waits}"
    whole = bool(devices) and len(devices) == replicas
    problem = problem or _incomplete(len(devices), replicas, running)
    conditions = [
        condition(CONDITION_PROXYGROUP_AVAILABLE, bool(devices), AVAILABLE if whole else CREATING, running),
        _ready_condition(group, problem),
    ]
    old = group.get("status") or {}
    others = {name: value for name, value in old.items() if name not in ("conditions", "devices")}
    shown = {"devices": [*devices]} if devices else {}
    return {**others, **shown, "conditions": set_condition(old.get("conditions") or [], conditions, now="")}


def _ready_condition(group: Object, problem: Refusal | None) -> Object:
    """Return the condition that says whether *group* is ready, and the *problem* if not."""
    generation = int(group["metadata"].get("generation", 0))
    reason, message = (problem.reason or FAILED, problem.message) if problem else (READY, READY)
    return condition(CONDITION_PROXYGROUP_READY, problem is None, reason, message, generation)


def _reported_device(pod: Object, children: Children) -> Object | None:
    """Return the entry of a ProxyGroup's status for the device that *pod* has reported.

    Return None if it has reported no MagicDNS name.
    """
    key = key_of(pod)
    state, config = children.secret(key), children.secret(Key(key.namespace, f"{key.name}{CONFIG_SUFFIX}"))
    reported = reporting_pod_of(state) if state else ""
    if state is None or not reported or reported != uid(pod).lower():
        return None
    device, endpoints = device_of(state, None), static_endpoints_of(config)
    shown = {"staticEndpoints": [*endpoints]} if endpoints else {}
    return device.status(device.fqdn.partition(".")[0]) | shown if "." in device.fqdn else None


def _incomplete(devices: int, replicas: int, running: str) -> Refusal | None:
    if devices < replicas:
        return Refusal(running, CREATING)
    if devices > replicas:
        return Refusal(f"waiting for {devices - replicas} pods to shut down", CREATING)
    return None
