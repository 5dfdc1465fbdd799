"""The status of a ProxyGroup."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tsoperator.api.conditions import condition, set_condition
from tsoperator.api.names import CONDITION_PROXYGROUP_AVAILABLE, CONDITION_PROXYGROUP_READY
from tsoperator.api.objects import Object, is_deleting, key_of, uid
from tsoperator.proxy.pod import in_service
from tsoperator.proxy.secret import device_of, reporting_pod_of

AVAILABLE = "ProxyGroupAvailable"
READY = "ProxyGroupReady"
CREATING = "ProxyGroupCreating"


@dataclass(frozen=True, slots=True)
class NotReady:
    """Why a ProxyGroup is not ready."""

    reason: str
    message: str


def running_devices(
    states: Sequence[Object], pods: Sequence[Object], static_endpoints: Mapping[str, Sequence[str]]
) -> list[Object]:
    """Return what the status says of the devices of proxies that run, in the order of their state Secrets *states*.

    A proxy runs if its Pod has reported a device with a MagicDNS name, and isn't down while another one runs: Services
    lead to the same Pods. *static_endpoints* are those in the configs of the proxies, by the name of the Pod.
    """
    named = {key_of(pod): pod for pod in pods}
    found: list[tuple[Object, Object]] = []
    for secret in states:
        reported, device, pod = reporting_pod_of(secret), device_of(secret, None), named.get(key_of(secret))
        endpoints = static_endpoints.get(key_of(secret).name)
        if pod and reported and reported == uid(pod).lower() and "." in device.fqdn:
            ips = {"tailnetIPs": list(device.ips)} if device.ips else {}
            shown = {"staticEndpoints": [*endpoints]} if endpoints else {}
            found.append((pod, {"hostname": device.fqdn.partition(".")[0], **ips, **shown}))
    running = in_service([pod for pod, _ in found])
    return [device for pod, device in found if pod in running]


def status(
    group: Object,
    devices: Sequence[Object],
    replicas: int,
    problem: NotReady | None = None,
    pods: Sequence[Object] = (),
) -> Object:
    """Return the status of *group*, which should have that many *replicas* and has these *devices* and *pods*."""
    ending = " and ".join(str(key_of(pod)) for pod in pods if is_deleting(pod))
    waits = f"; waiting for Pod {ending} to end" if ending else ""
    running = f"{len(devices)}/{replicas} ProxyGroup pods running{waits}"
    whole = bool(devices) and len(devices) == replicas
    problem = problem or _incomplete(len(devices), replicas, running)
    conditions = [
        condition(CONDITION_PROXYGROUP_AVAILABLE, bool(devices), AVAILABLE if whole else CREATING, running),
        ready_condition(group, problem),
    ]
    old = group.get("status") or {}
    others = {name: value for name, value in old.items() if name not in ("conditions", "devices")}
    shown = {"devices": [*devices]} if devices else {}
    return {**others, **shown, "conditions": set_condition(old.get("conditions") or [], conditions, now="")}


def ready_condition(group: Object, problem: NotReady | None) -> Object:
    """Return the condition that says whether *group* is ready, and the *problem* if not."""
    generation = int(group["metadata"].get("generation", 0))
    reason, message = (problem.reason, problem.message) if problem else (READY, READY)
    return condition(CONDITION_PROXYGROUP_READY, problem is None, reason, message, generation)


def _incomplete(devices: int, replicas: int, running: str) -> NotReady | None:
    if devices < replicas:
        return NotReady(CREATING, running)
    if devices > replicas:
        return NotReady(CREATING, f"waiting for {devices - replicas} pods to shut down")
    return None
