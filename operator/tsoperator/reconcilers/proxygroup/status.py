"""The status of a ProxyGroup: its conditions, and the devices of running proxies."""

from collections.abc import Iterator, Sequence

from tsoperator.api.conditions import TRUE, condition, conditions_of, set_condition
from tsoperator.api.names import (
    CONDITION_KUBE_APISERVER_CONFIGURED,
    CONDITION_KUBE_APISERVER_VALID,
    CONDITION_PROXYGROUP_AVAILABLE,
    CONDITION_PROXYGROUP_READY,
    CONFIG_SUFFIX,
)
from tsoperator.api.objects import Key, Object, generation_of, is_deleting, key_of, uid
from tsoperator.api.policy import UNSUPPORTED
from tsoperator.group.apihosting import APIHosting, api_obstacle
from tsoperator.group.hosted import INVALID_SERVICE, LABEL_TAKEN
from tsoperator.group.proxygroup import replica_count
from tsoperator.proxy.pod import in_service
from tsoperator.proxy.proxy import Children
from tsoperator.proxy.secret import ReportedDevice, device_of, reporting_pod_of, static_endpoints_of
from tsoperator.runtime.plan import Refusal
from tsoperator.runtime.success import device_words

INVALID = "ProxyGroupInvalid"
AVAILABLE = "ProxyGroupAvailable"
READY = "ProxyGroupReady"
CREATING = "ProxyGroupCreating"
FAILED = "ProxyGroupCreationFailed"
_NONE = "spec.replicas is 0, so it serves nothing"
FREED = 60.0
"""The seconds after which the operator looks again whether another object still has a name or a node port that we need.
"""


def running_devices(children: Children) -> list[Object]:
    """Return the entries of the status for the devices of running proxies, by ordinal."""
    return [device.status(device.fqdn.partition(".")[0]) | shown for device, shown in _running(children)]


def reached(children: Children, api: APIHosting | None = None) -> str:
    """Return words for the names and addresses of the running proxies in the tailnet; empty without such proxies.

    If a group offers the Kubernetes API at a URL, return words with this URL instead.
    """
    if api and api.url:
        return f"the tailnet reaches the Kubernetes API at {api.url}"
    words = device_words([(device.fqdn, device.ips) for device, _ in _running(children)])
    return f"its proxies are in the tailnet as {words}" if words else ""


def _running(children: Children) -> list[tuple[ReportedDevice, Object]]:
    """Return the devices of running proxies, by ordinal, each with the further fields of its entry in the status.

    A proxy runs if its Pod has reported a device with a MagicDNS name, and isn't down. If all Pods with such a device
    are down, all their devices are returned, because nobody can tell which proxies still serve.
    """
    found = [(pod, device) for pod in children.pods if (device := _reported_device(pod, children))]
    running = in_service([pod for pod, _ in found])
    return [device for pod, device in found if pod in running]


def status(group: Object, children: Children, problem: Refusal | None = None, api: APIHosting | None = None) -> Object:
    """Return the status of *group*, which has these *children*.

    *problem* is a known reason why the group isn't ready. *api* are the facts about a group that offers the Kubernetes
    API.
    """
    devices, replicas = running_devices(children), replica_count(group)
    ending = " and ".join(str(key_of(pod)) for pod in children.pods if is_deleting(pod))
    waits = f"; waiting for Pod {ending} to end" if ending else ""
    running = f"{len(devices)}/{replicas} ProxyGroup pods running{waits}"
    whole = bool(devices) and len(devices) == replicas
    old = group.get("status") or {}
    of_api = [*_api_conditions(group, api, replicas)] if api else []
    told = set_condition(conditions_of(group), of_api, now="")
    if api:
        problem = problem or _api_problem(group, api, told)
    problem = problem or _incomplete(len(devices), replicas, running)
    if api and not problem and not _holds(told, CONDITION_KUBE_APISERVER_CONFIGURED, group):
        obstacle = api_obstacle(api)
        problem = Refusal(obstacle.message if obstacle else "waiting for hostname advertisement", CREATING)
    conditions = [
        condition(CONDITION_PROXYGROUP_AVAILABLE, bool(devices), AVAILABLE if whole else CREATING, running),
        _ready_condition(group, problem, reached(children, api) if replicas else _NONE),
    ]
    ours = ("conditions", "devices", "proxies", *(["url"] if api else ()))
    others = {name: value for name, value in old.items() if name not in ours}
    shown: Object = {"proxies": f"{len(devices)}/{replicas}"} | ({"devices": [*devices]} if devices else {})
    if api and api.url:
        shown["url"] = api.url
    return {**others, **shown, "conditions": set_condition(told, conditions, now="")}


def _api_conditions(group: Object, api: APIHosting, replicas: int) -> Iterator[Object]:
    """Yield the two further conditions of a group that offers the Kubernetes API.

    One condition says whether the group has a valid name in the tailnet. This condition stays as it is until the
    operator knows whether the group can have the name.
    """
    generation, obstacle = generation_of(group), api_obstacle(api)
    if obstacle is not None and obstacle.reason in (INVALID_SERVICE, LABEL_TAKEN, UNSUPPORTED):
        reason = UNSUPPORTED if obstacle.reason == UNSUPPORTED else "KubeAPIServerProxyInvalid"
        yield condition(CONDITION_KUBE_APISERVER_VALID, False, reason, obstacle.message, generation)
    elif obstacle is None and api.operator_id and api.view.tells_owner:
        valid = "KubeAPIServerProxyValid"
        yield condition(CONDITION_KUBE_APISERVER_VALID, True, valid, valid, generation)
    count = api.advertising
    reason = "KubeAPIServerProxyConfigured" if count else "KubeAPIServerProxyNoBackends"
    message = f"{count}/{replicas} proxy backends ready and advertising"
    yield condition(CONDITION_KUBE_APISERVER_CONFIGURED, bool(count), reason, message, generation)


def _api_problem(group: Object, api: APIHosting, conditions: Sequence[Object]) -> Refusal | None:
    """Return why a group can't offer the Kubernetes API, according to its *conditions*; None if it can."""
    is_judged = any(each["type"] == CONDITION_KUBE_APISERVER_VALID for each in conditions)
    if not is_judged or _holds(conditions, CONDITION_KUBE_APISERVER_VALID, group):
        return None
    obstacle = api_obstacle(api)
    if obstacle is not None and obstacle.reason == UNSUPPORTED:
        return obstacle
    return Refusal("waiting for spec.kubeAPIServer to be valid", INVALID)


def _holds(conditions: Sequence[Object], type_: str, group: Object) -> bool:
    """Tell whether the condition *type_* is True for the present generation of *group*."""
    found = next((each for each in conditions if each["type"] == type_), {})
    return found.get("status") == TRUE and found.get("observedGeneration") == generation_of(group)


def _ready_condition(group: Object, problem: Refusal | None, words: str) -> Object:
    """Return the condition that says whether *group* is ready.

    Its message is *words* if the group is ready, and otherwise the *problem*.
    """
    reason, message = (problem.reason or FAILED, problem.message) if problem else (READY, words or READY)
    return condition(CONDITION_PROXYGROUP_READY, problem is None, reason, message, generation_of(group))


def _reported_device(pod: Object, children: Children) -> tuple[ReportedDevice, Object] | None:
    """Return the device that *pod* has reported, and the further fields of its entry in a ProxyGroup's status.

    Return None if it has reported no MagicDNS name.
    """
    key = key_of(pod)
    state, config = children.secret(key), children.secret(Key(key.namespace, f"{key.name}{CONFIG_SUFFIX}"))
    reported = reporting_pod_of(state) if state else ""
    if state is None or not reported or reported != uid(pod).lower():
        return None
    device, endpoints = device_of(state, None), static_endpoints_of(config)
    shown = {"staticEndpoints": [*endpoints]} if endpoints else {}
    return (device, shown) if "." in device.fqdn else None


def _incomplete(devices: int, replicas: int, running: str) -> Refusal | None:
    if devices < replicas:
        return Refusal(running, CREATING)
    if devices > replicas:
        return Refusal(f"waiting for {devices - replicas} pods to shut down", CREATING)
    return None
