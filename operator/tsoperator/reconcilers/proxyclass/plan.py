"""Decides whether a ProxyClass can be used."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tsoperator.api.conditions import condition, status_with
from tsoperator.api.images import image_error
from tsoperator.api.labels import annotation_errors, label_errors
from tsoperator.api.names import CONDITION_PROXYCLASS_READY, FINALIZER, PROXY_CONTAINER, SYSCTL_CONTAINER
from tsoperator.api.objects import SERVICEMONITOR, Object, generation_of, is_deleting
from tsoperator.api.quantities import amount
from tsoperator.api.v1alpha1.invalid import Invalid
from tsoperator.api.v1alpha1.proxyclass import MONITOR_NEEDS_METRICS, Container, Metrics, Pod, ProxyClass, StatefulSet
from tsoperator.reconcilers.proxyclass import ports
from tsoperator.runtime.plan import FindNodePorts, Note, Plan, Refusal

_VALID: Final = "ProxyClassValid"
_INVALID: Final = "ProxyClassInvalid"
_CUSTOM_VARIABLE: Final = "CustomTSEnvVar"
_IGNORED_VARIABLE: Final = "IgnoredVariable"
_NOT_WRITTEN: Final = "ProxyClassNotWritten"
_CLAIMS_IGNORED: Final = "ResourceClaimsIgnored"
_POD: Final = "spec.statefulSet.pod"
_EXPERIMENTAL: Final = (
    "EXPERIMENTAL_TS_CONFIGFILE_PATH",
    "EXPERIMENTAL_ALLOW_PROXYING_CLUSTER_TRAFFIC_VIA_INGRESS",
)
_STOPS_THE_PROXY: Final = frozenset(
    f"TS_{name}"
    for name in (
        "AUTHKEY", "HOSTNAME", "ROUTES", "ACCEPT_DNS", "EXTRA_ARGS", "CLIENT_ID", "CLIENT_SECRET", "ID_TOKEN",
        "AUDIENCE",
    )
)  # fmt: skip
"""The environment variables with which every proxy would fail to start.

The image refuses them together with the config file that every proxy has.
"""


_TOLERATION: Final = {
    "operator": ("Equal", "Exists", "Gt", "Lt"),
    "effect": ("NoSchedule", "PreferNoSchedule", "NoExecute"),
}
"""The values that the API server allows in fields of a toleration."""


@dataclass(frozen=True, slots=True)
class Observed:
    """The facts on which a ProxyClass's plan depends, besides the ProxyClass itself.

    *proxy_classes* are all ProxyClasses. *serves_monitors* is True if the CRD of ServiceMonitors exists. *node_ports*
    is the range of the cluster's node ports, None if it isn't known. When a class first needs the range, the operator
    asks for it; until it has asked, *asked_for_ports* is False.
    """

    proxy_classes: Sequence[Object] = ()
    serves_monitors: bool = False
    node_ports: ports.Range | None = None
    asked_for_ports: bool = True


def plan(obj: Object, proxy_class: ProxyClass | Invalid, observed: Observed) -> Plan:
    """Return the plan for the ProxyClass *obj*, parsed as *proxy_class*. It sets our finalizer and a condition."""
    if is_deleting(obj):
        return Plan(release=FINALIZER)  # objects that name the class report that it is gone; their proxies go on
    if isinstance(proxy_class, Invalid):
        return replace(_refusal_plan(obj, [proxy_class.message], []), hold="")  # an invalid object can't be written
    if ports.ranges(proxy_class) and not observed.asked_for_ports:
        return Plan(hold=FINALIZER, steps=[FindNodePorts()], requeue_after=0.0)
    warnings = [Note("Warning", _CUSTOM_VARIABLE, words) for words in custom_variables(proxy_class)]
    warnings += [Note("Warning", _CLAIMS_IGNORED, words) for words in claim_warnings(proxy_class)]
    without_effect = [*variable_warnings(proxy_class)]
    warnings += [Note("Warning", _IGNORED_VARIABLE, words, once=True) for words in without_effect]
    if wrong := violations(obj, proxy_class, observed):
        return _refusal_plan(obj, wrong, warnings)
    status = _status(obj, True, _VALID, "; ".join([_VALID, *without_effect]))
    return Plan(hold=FINALIZER, status=status, notes=warnings)


def failed(obj: Object, refusal: Refusal) -> Plan:
    """Return the plan that reports on the ProxyClass *obj* why the API server refused a write.

    An existing condition stays, because whether the class can be used does not depend on the refusal.
    """
    status = None if (obj.get("status") or {}).get("conditions") else _status(obj, False, _NOT_WRITTEN, refusal.message)
    return Plan(status=status, notes=[Note("Warning", _NOT_WRITTEN, refusal.message)], error=refusal.error)


def asks_for_monitors(obj: Object) -> bool:
    """Tell whether the ProxyClass *obj* asks for ServiceMonitors, and so needs their CRD in the cluster."""
    proxy_class = ProxyClass.parse(obj)
    if isinstance(proxy_class, Invalid) or proxy_class.spec.metrics is None:
        return False
    monitor = proxy_class.spec.metrics.service_monitor
    return monitor is not None and monitor.enable


def violations(obj: Object, proxy_class: ProxyClass, observed: Observed) -> list[str]:
    """Return what is wrong with the class; each violation gives the path and the value, and says how to fix it."""
    spec = proxy_class.spec
    found: list[str] = []
    if spec.stateful_set is not None:
        found += _statefulset_violations(spec.stateful_set)
    if spec.metrics is not None:
        found += _metrics_violations(spec.metrics, observed)
    if words := ports.violation(obj, proxy_class, observed.proxy_classes, observed.node_ports):
        text = ports.text(ports.ranges(proxy_class))
        found.append(_violation("spec.staticEndpoints.nodePort.ports", json.dumps(text), words))
    return list(dict.fromkeys(found))


def custom_variables(proxy_class: ProxyClass) -> Iterable[str]:
    """Yield a warning for each environment variable in the class that would configure or stop the proxy itself."""
    pod = _pod(proxy_class)
    for name in _variables(pod.tailscale_container if pod else None):
        where = f"environment variable {name} of container {PROXY_CONTAINER}"
        if name in _STOPS_THE_PROXY:
            yield f"{where} keeps proxies from starting, because they are configured by a file: remove it"
        elif _configures_the_proxy(name):
            yield f"{where} configures the proxy itself: it may not work, and what it does may change at any time"


def variable_warnings(proxy_class: ProxyClass) -> Iterable[str]:
    """Yield a warning for each environment variable of the init container that only the proxy itself would read."""
    pod = _pod(proxy_class)
    for name in _variables(pod.tailscale_init_container if pod else None):
        if _configures_the_proxy(name):
            yield (
                f"environment variable {name} of container {SYSCTL_CONTAINER} has no effect, because that container "
                f"only turns IP forwarding on: remove it from {_POD}.tailscaleInitContainer.env"
            )


def claim_warnings(proxy_class: ProxyClass) -> Iterable[str]:
    """Yield a warning for each container in the class that has resource claims, because these have no effect."""
    pod = _pod(proxy_class)
    containers = {
        "tailscaleContainer": pod.tailscale_container if pod else None,
        "tailscaleInitContainer": pod.tailscale_init_container if pod else None,
    }
    for name, container in containers.items():
        if container is not None and (container.resources or {}).get("claims"):
            yield (
                f"{_POD}.{name}.resources.claims is ignored, because a ProxyClass can't give Pods the resourceClaims "
                "that it refers to: remove it"
            )


def _pod(proxy_class: ProxyClass) -> Pod | None:
    given = proxy_class.spec.stateful_set
    return given.pod if given is not None else None


def _variables(container: Container | None) -> list[str]:
    """Return the names of the environment variables of *container*."""
    return [variable.name for variable in container.env] if container else []


def _configures_the_proxy(variable: str) -> bool:
    return variable.startswith("TS_") or variable.upper() in _EXPERIMENTAL


def _statefulset_violations(given: StatefulSet) -> Iterable[str]:
    for error in label_errors(given.labels):
        yield _invalid(".spec.statefulSet.labels", error)
    for error in annotation_errors(given.annotations):
        yield _invalid(".spec.statefulSet.annotations", error)
    if given.pod is not None:
        yield from _pod_violations(given.pod)


def _pod_violations(pod: Pod) -> Iterable[str]:
    for error in label_errors(pod.labels):
        yield _invalid(f".{_POD}.labels", error)
    for error in annotation_errors(pod.annotations):
        yield _invalid(f".{_POD}.annotations", error)
    for error in label_errors(pod.node_selector):
        yield _invalid(f".{_POD}.nodeSelector", error)
    for number, toleration in enumerate(pod.tolerations):
        for field, values in _TOLERATION.items():
            if (given := toleration.get(field)) and given not in values:
                words = f"write {', '.join(values[:-1])} or {values[-1]}"
                yield _violation(f".{_POD}.tolerations[{number}].{field}", json.dumps(given), words)
    containers = {"tailscaleContainer": pod.tailscale_container, "tailscaleInitContainer": pod.tailscale_init_container}
    for name, container in containers.items():
        if container is not None:
            yield from _container_violations(f"{_POD}.{name}", container)
    if pod.tailscale_init_container is not None and pod.tailscale_init_container.debug is not None:
        path, debug = f"{_POD}.tailscaleInitContainer.debug", pod.tailscale_init_container.debug
        words = "tailscaled doesn't run in the init container: set it for tailscaleContainer instead"
        yield _violation(path, json.dumps({"enable": debug.enable}), words)


def _container_violations(path: str, container: Container) -> Iterable[str]:
    if container.image and (error := image_error(container.image)):
        yield _invalid(f"{path}.image", error)
    resources = container.resources or {}
    limits = resources.get("limits") or {}
    for name, request in (resources.get("requests") or {}).items():
        if name in limits and amount(request) > amount(limits[name]):
            words = f"the limit is {limits[name]}, and a request can't be more: raise the limit, or lower the request"
            yield _violation(f"{path}.resources.requests.{name}", json.dumps(request), words)


def _metrics_violations(metrics: Metrics, observed: Observed) -> Iterable[str]:
    monitor = metrics.service_monitor
    if monitor is None:
        return
    if monitor.enable and not metrics.enable:
        yield _violation("spec.metrics", '"enable"', MONITOR_NEEDS_METRICS)
    if monitor.enable and not observed.serves_monitors:
        words = (
            f"the cluster has no ServiceMonitors: install the CRD {SERVICEMONITOR} (it comes with the Prometheus "
            "operator), or turn serviceMonitor off"
        )
        yield _violation("spec.metrics.serviceMonitor", '"enable"', words)
    for error in label_errors(monitor.labels):
        yield _invalid(".spec.metrics.serviceMonitor.labels", error)


def _invalid(path: str, error: str) -> str:
    """Return the message about an *error* in the field at *path*. The error begins with the value of the field."""
    return f"{path}: Invalid value: {error}"


def _violation(path: str, value: str, words: str) -> str:
    return _invalid(path, f"{value}: {words}")


def _refusal_plan(obj: Object, wrong: Sequence[str], warnings: Sequence[Note]) -> Plan:
    text = wrong[0] if len(wrong) == 1 else f"[{', '.join(wrong)}]"
    message = f"ProxyClass is not valid: {text}"
    notes = [*warnings, Note("Warning", _INVALID, message)]
    return Plan(hold=FINALIZER, status=_status(obj, False, _INVALID, message), notes=notes)


def _status(obj: Object, ready: bool, reason: str, message: str) -> Object:
    return status_with(obj, condition(CONDITION_PROXYCLASS_READY, ready, reason, message, generation_of(obj)))
