"""Checks each proxy: whether its Pods are ready, whether they have logged in, and whether their devices are online."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tsoperator.api.conditions import conditions_of
from tsoperator.api.device import Device
from tsoperator.api.objects import Key, Object, is_deleting, key_of
from tsoperator.check.findings import Finding, failed, ok
from tsoperator.proxy.readiness import ready_replicas, secret_keys, wanted_replicas
from tsoperator.proxy.secret import device_of, reported_id_of
from tsoperator.runtime.ownership import parent_title

_STARTING: Final = ("PodInitializing", "ContainerCreating")


@dataclass(frozen=True, slots=True)
class ProxyObjects:
    """The StatefulSets of the proxies, and their Pods and *slim* Secrets by key.

    *refusals* has the reasons why Kubernetes refused to create Pods, by the name of the StatefulSet. *elsewhere* is
    about parents whose proxies aren't in the operator's own tailnet: it has the name of the Tailnet by the title of the
    parent, such as ``ProxyGroup web``.
    """

    statefulsets: Sequence[Object]
    pods: Mapping[Key, Object]
    secrets: Mapping[Key, Object]
    refusals: Mapping[str, str]
    elsewhere: Mapping[str, str] = field(default_factory=dict)


def check_proxies(proxies: ProxyObjects) -> Iterator[Finding]:
    """Check that the Pods of each proxy are ready and have logged in."""
    wrong = [finding for each in proxies.statefulsets if not is_deleting(each) for finding in _proxy(proxies, each)]
    yield from wrong
    if not proxies.statefulsets:
        yield ok("proxies", "there are no proxies yet")
    elif not wrong:
        yield ok("proxies", f"proxies that serve: {(count := len(proxies.statefulsets))} of {count}")


def check_devices(proxies: ProxyObjects, devices: Mapping[str, Mapping[str, Device]]) -> Iterator[Finding]:
    """Check that the device of each proxy is in the tailnet, approved and online.

    *devices* has the devices of each tailnet that we could read, by the name of the Tailnet. The name is empty for the
    operator's own tailnet.
    """
    looked = wrong = 0
    for statefulset in proxies.statefulsets:
        there = devices.get(proxies.elsewhere.get(parent_title(statefulset), ""))
        if there is None:
            continue
        for key in secret_keys(statefulset):
            secret = proxies.secrets.get(key)
            reported = device_of(secret, None) if secret else None
            if reported is None or not reported.id:
                continue
            looked += 1
            named = f"device {reported.fqdn or reported.id} of {parent_title(statefulset)}"
            if finding := _device(key, named, there.get(reported.id)):
                wrong += 1
                yield finding
    if not wrong:
        yield ok("devices", f"devices of proxies that are in the tailnet and online: {looked} of {looked}")


def pod_problem(pod: Object) -> str:
    """Return why *pod* isn't ready; empty if it is ready."""
    status = pod.get("status") or {}
    conditions = {each["type"]: each for each in conditions_of(pod)}
    if is_deleting(pod):
        return "it is being deleted"
    if (conditions.get("Ready") or {}).get("status") == "True":
        return ""
    scheduled = conditions.get("PodScheduled") or {}
    if scheduled.get("status") == "False":
        return f"it is on no node: {scheduled.get('message') or scheduled.get('reason')}"
    containers = status.get("containerStatuses") or ()
    for each in [*(status.get("initContainerStatuses") or ()), *containers]:
        if problem := _container_problem(each):
            return problem
    words = (conditions.get("Ready") or {}).get("message") or status.get("message")
    if not words and containers and all(each.get("ready") for each in containers):
        node = (pod.get("spec") or {}).get("nodeName", "")
        return f"its containers are ready, but it isn't: is its node {node} down?"
    return f"it is not ready: {words or status.get('reason') or status.get('phase') or 'it has no status yet'}"


def _container_problem(status: Object) -> str:
    """Return what is wrong with a container by its *status*; empty if it is well or still starting."""
    state, name = status.get("state") or {}, status["name"]
    waiting, ended = state.get("waiting") or {}, state.get("terminated") or {}
    if waiting and waiting.get("reason") not in _STARTING:
        said = f": {waiting['message']}" if waiting.get("message") else ""
        return f"its container {name} waits: {waiting.get('reason')}{said}"
    if ended.get("exitCode"):
        return f"its container {name} ended with exit code {ended['exitCode']}"
    return ""


def _proxy(proxies: ProxyObjects, statefulset: Object) -> Iterator[Finding]:
    """Yield a finding for each Pod of the proxy with this *statefulset* that isn't ready or has not logged in."""
    namespace, name = key_of(statefulset)
    parent = parent_title(statefulset)
    short = ready_replicas(statefulset) < wanted_replicas(statefulset)
    for key in secret_keys(statefulset):
        pod, secret = proxies.pods.get(key), proxies.secrets.get(key)
        problem = pod_problem(pod) if pod else proxies.refusals.get(name, "it was not made")
        if problem and short:
            see = f"pod {key.name}" if pod else f"statefulset {name}"
            words = f"the proxy of {parent} isn't ready: Pod {key.name}: {problem}"
            yield failed("proxies", words, f"see `kubectl -n {namespace} describe {see}`")
        elif secret is None or not reported_id_of(secret):
            words = f"the proxy of {parent} has not logged in to the tailnet: Pod {key.name} has reported no device"
            yield failed("proxies", words, f"see why with `kubectl -n {namespace} logs {key.name}`")


def _device(secret: Key, named: str, device: Device | None) -> Finding | None:
    """Return the fault of a proxy's *device*; None if the device is well.

    *secret* is the key of the proxy's Secret, and *named* has words for the device. If *device* is None, the fault is
    that the device isn't in the tailnet.
    """
    if device is None:
        return failed(
            "devices",
            f"{named} is not in the tailnet any more",
            f"`kubectl -n {secret.namespace} delete secret,pod {secret.name}`: the proxy gets a new auth key and logs "
            "in again",
        )
    if not device.authorized:
        return failed("devices", f"{named} waits for approval", "approve it in the admin console of the tailnet")
    if device.connected is False:
        since = f" since {device.last_seen:%Y-%m-%d %H:%M}" if device.last_seen else ""
        return failed(
            "devices",
            f"{named} is offline{since}",
            f"see `kubectl -n {secret.namespace} logs {secret.name}`: does the Pod run, and reach the control server?",
        )
    return None


def refusals_of(events: Iterable[Object]) -> dict[str, str]:
    """Return the latest reason why Kubernetes refused to create a Pod, by the name of the StatefulSet.

    *events* has the Events with these reasons, the oldest first.
    """
    return {
        each["involvedObject"]["name"]: each.get("message", "") for each in events if each["reason"] == "FailedCreate"
    }
