"""Describes an object in a row: how the tailnet and the cluster reach it, its proxies, and whether it is served."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NotRequired, TypedDict

from tsoperator.api.names import (
    ANNOTATION_EXPOSE,
    ANNOTATION_TAILNET_FQDN,
    ANNOTATION_TAILNET_IP,
    ANNOTATION_TAILNET_TARGET_IP_DEPRECATED,
    LOAD_BALANCER_CLASS,
)
from tsoperator.api.objects import Object, annotations, key_of, spec_text
from tsoperator.api.rules import is_true
from tsoperator.proxy.readiness import ready_replicas, wanted_replicas
from tsoperator.runtime.plan import Note
from tsoperator.settings import Settings
from tsoperator.status.conditions import Grade, Judgement, ingress_name, judge_conditions, judge_ingress

ROLES: Final = {
    "Connector": "connector",
    "DNSConfig": "DNS",
    "PeerRelay": "peer relay",
    "ProxyClass": "class",
    "ProxyGroup": "proxy group",
    "ProxyGroupPolicy": "policy",
    "Recorder": "recorder",
    "Tailnet": "tailnet",
}
"""The roles of the operator's own kinds."""

_TARGETS: Final = (ANNOTATION_TAILNET_FQDN, ANNOTATION_TAILNET_IP, ANNOTATION_TAILNET_TARGET_IP_DEPRECATED)


class Row(TypedDict):
    """The description of one object, with the names of fields that it has in JSON. An empty field is left out.

    *tailnet* is the name of the Tailnet, and missing for the operator's own. *names* and *addresses* are those in the
    tailnet, *inCluster* and *clusterAddresses* those at which Pods reach the object. *verdict* is a `Grade`.
    """

    kind: str
    namespace: NotRequired[str]
    name: str
    role: NotRequired[str]
    tailnet: NotRequired[str]
    names: NotRequired[list[str]]
    addresses: NotRequired[list[str]]
    inCluster: NotRequired[str]
    clusterAddresses: NotRequired[list[str]]
    ready: NotRequired[int]
    wanted: NotRequired[int]
    verdict: str
    reason: NotRequired[str]
    words: NotRequired[str]
    cure: NotRequired[str]
    since: NotRequired[str]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The facts about an object that aren't in it.

    *statefulsets* are those of its proxies, and *devices* their devices: names and addresses. *warnings* are those that
    the operator wrote as Events and that still hold.
    """

    statefulsets: Sequence[Object] = ()
    devices: Sequence[tuple[str, Sequence[str]]] = ()
    warnings: Sequence[Note] = ()


def role_of(obj: Object, settings: Settings) -> str:
    """Return the role that *obj* asks for; empty if it asks nothing of the operator."""
    match obj["kind"]:
        case "Service":
            return _service_role(obj, settings)
        case "Ingress":
            return "ingress" if spec_text(obj, "ingressClassName") == settings.ingress_class else ""
        case kind:
            return ROLES.get(kind, "")


def row_of(obj: Object, around: Surroundings, settings: Settings) -> Row | None:
    """Return the row of *obj*; None if it has nothing to do with the operator."""
    role = role_of(obj, settings)
    judged = _judged(obj, role, around.warnings)
    if not role and judged is None:
        return None
    namespace, name = key_of(obj)
    found = judged or Judgement(Grade.WAITING, words="the operator has not looked at it yet")
    row: Mapping[str, object] = {
        "kind": obj["kind"],
        "namespace": namespace,
        "name": name,
        "role": role,
        "tailnet": spec_text(obj, "tailnet"),
        "names": _names(obj, role, around),
        "addresses": [address for _, addresses in around.devices for address in addresses],
        "inCluster": _cluster_name(obj, role, settings),
        "ready": sum(map(ready_replicas, around.statefulsets)) if around.statefulsets else "",
        "wanted": sum(map(wanted_replicas, around.statefulsets)) if around.statefulsets else "",
        "verdict": found.grade,
        "reason": found.reason,
        "words": found.words,
        "cure": found.cure,
        "since": found.since,
    }
    return {key: value for key, value in row.items() if value not in ("", [])}  # type: ignore[return-value]


def _judged(obj: Object, role: str, warnings: Sequence[Note]) -> Judgement | None:
    """Return the judgement of *obj*: a condition that is false counts first, then a warning."""
    judged = judge_ingress(obj) if obj["kind"] == "Ingress" and role else judge_conditions(obj)
    if warnings and (judged is None or judged.grade is not Grade.FAILED):
        return Judgement(Grade.FAILED, warnings[0].reason, "; ".join(each.message for each in warnings))
    return judged


def _names(obj: Object, role: str, around: Surroundings) -> list[str]:
    """Return the names in the tailnet: that of the target of an egress Service, or those of the object itself."""
    if role == "egress":
        given = annotations(obj)
        target = next((given[name] for name in _TARGETS if given.get(name)), "")
        return [target.removesuffix(".")]
    if role == "ingress":
        return [name] if (name := ingress_name(obj)) else []
    return [name for name, _ in around.devices]


def _cluster_name(obj: Object, role: str, settings: Settings) -> str:
    """Return the name of a Service in the cluster."""
    if obj["kind"] != "Service" or not role:
        return ""
    namespace, name = key_of(obj)
    return f"{name}.{namespace}.svc.{settings.cluster_domain}"


def _service_role(service: Object, settings: Settings) -> str:
    given, spec = annotations(service), service["spec"]
    class_ = spec.get("loadBalancerClass")
    is_ours = class_ == LOAD_BALANCER_CLASS or (class_ is None and settings.default_load_balancer)
    if spec.get("type") == "LoadBalancer" and is_ours:
        return "load balancer"
    if is_true(given.get(ANNOTATION_EXPOSE)):
        return "exposed"
    return "egress" if any(given.get(name) for name in _TARGETS) else ""
