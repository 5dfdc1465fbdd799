"""Describes an object in a row of the report: its names and addresses, its proxies, and whether it is served."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NotRequired, TypedDict, cast

from tsoperator.api.names import (
    ANNOTATION_EXPOSE,
    ANNOTATION_FORWARD_CLUSTER_TRAFFIC,
    ANNOTATION_TAILNET_FQDN,
    ANNOTATION_TAILNET_IP,
    ANNOTATION_TAILNET_TARGET_IP_DEPRECATED,
    LOAD_BALANCER_CLASS,
)
from tsoperator.api.objects import Object, annotations, is_deleting, key_of, spec_text
from tsoperator.api.rules import is_true
from tsoperator.api.tailscaleservice import service_name
from tsoperator.group.claims import label_of
from tsoperator.group.hosts import advertising, domain_of_group
from tsoperator.group.proxygroup import replica_count
from tsoperator.group.slices import cluster_ips
from tsoperator.proxy.endpoints import ready_addresses
from tsoperator.proxy.readiness import ready_replicas, wanted_replicas
from tsoperator.proxy.secret import device_of
from tsoperator.runtime.plan import LastingWarning
from tsoperator.settings import Settings
from tsoperator.status.conditions import Grade, Judgement, ingress_name, judge_conditions, judge_ingress

EGRESS: Final = "egress"
BALANCED: Final = "load balancer"
EXPOSED: Final = "exposed"
INGRESS_ROLE: Final = "ingress"
API_SERVER_PROXY: Final = "API server proxy"

DNS: Final = "DNS"

_ROLES: Final = {"Deployment": API_SERVER_PROXY, "DNSConfig": DNS, "ProxyClass": "class", "ProxyGroupPolicy": "policy"}
"""The roles of some kinds whose objects all have one role. For other such kinds, the role is their name in words."""

_LATER_WORD: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")

_TARGETS: Final = (ANNOTATION_TAILNET_FQDN, ANNOTATION_TAILNET_IP, ANNOTATION_TAILNET_TARGET_IP_DEPRECATED)

_Row = dict[str, object]


class Row(TypedDict):
    """The description of one object, with its fields as they are named in JSON. Empty fields are left out.

    *tailnet* is the name of the Tailnet; it is missing for the operator's own tailnet. *names* and *addresses* are
    those in the tailnet. *inCluster* and *clusterAddresses* are the name and the addresses at which Pods reach the
    object. *verdict* is a `Grade`.
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
class Served:
    """The facts about the ProxyGroup that an object names: the *group* itself, and its proxies.

    *states* are the *slim* state Secrets of the proxies; for an egress Service, they are left out. *place* is the
    Service to which an egress Service points, and *slices* are the EndpointSlices of the *place*.
    """

    group: Object | None = None
    states: Sequence[Object] = ()
    place: Object | None = None
    slices: Sequence[Object] = ()

    @property
    def objects(self) -> Iterator[Object]:
        """All objects of the cluster among these facts."""
        yield from filter(None, (self.group, self.place))
        yield from self.states
        yield from self.slices


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The *role* of an object, and the facts about it from other objects.

    *workloads* are the StatefulSets or the Deployment of its own proxies. *secrets* are their *slim* Secrets; for an
    egress Service, *pods* are their Pods instead. *served* has the facts about the ProxyGroup that the object names.
    *addresses* are the tailnet addresses of the target of an egress Service, or of the object's Tailscale Service.
    *names_ingresses* tells whether the DNSConfig lets Pods reach Ingresses by name. *warnings* are about faults that
    still exist.
    """

    role: str = ""
    workloads: Sequence[Object] = ()
    secrets: Sequence[Object] = ()
    pods: Sequence[Object] = ()
    served: Served | None = None
    addresses: Sequence[str] = ()
    names_ingresses: bool = False
    warnings: Sequence[LastingWarning] = ()

    def digest(self, obj: Object) -> str:
        """Return a text that changes whenever *obj* or a fact about it changes.

        We keep the texts of all objects in memory, so they must be short. We use texts because Python's garbage
        collector skips texts: with many of them, it takes no longer.
        """
        objects = [obj, *self.workloads, *self.secrets, *self.pods]
        if self.served is not None:
            objects += self.served.objects
        versions = [each["metadata"]["resourceVersion"] for each in objects]
        told = [f"{each.reason} {each.message} {each.since}" for each in self.warnings]
        return "\0".join([self.role, str(self.names_ingresses), *versions, *self.addresses, *told])


def role_of(obj: Object, settings: Settings) -> str:
    """Return the role in which the operator should serve *obj*; empty if *obj* asks nothing of the operator."""
    kind = obj["kind"]
    if kind == "Service":
        return _service_role(obj, settings)
    if kind == "Ingress":
        return INGRESS_ROLE if spec_text(obj, "ingressClassName") == settings.ingress_class else ""
    return _ROLES.get(kind) or _LATER_WORD.sub(" ", kind).lower()


def target_of(service: Object) -> str:
    """Return the name or the address of the device to which *service* leads; empty if it isn't an egress Service."""
    given = annotations(service)
    return next((given[name].removesuffix(".") for name in _TARGETS if given.get(name)), "")


def row_of(obj: Object, around: Surroundings, settings: Settings) -> Row | None:
    """Return the row of *obj*; None if *obj* has nothing to do with the operator."""
    role = around.role
    judged = _judged(obj, role, around.warnings)
    if judged is None:
        if not role:
            return None
        judged = Judgement(Grade.WAITING, words="the operator has not looked at it yet")
    namespace, name = key_of(obj)
    row: _Row = {"kind": obj["kind"], "namespace": namespace, "name": name, "role": role}
    if role:
        _PARTS.get(role, _own_proxies)(row, obj, around, settings)
    if judged.grade is Grade.OK and row.get("wanted") and not row.get("ready"):
        judged = _unready(around)
    row |= {
        "verdict": judged.grade.value,
        "reason": judged.reason,
        "words": judged.words,
        "cure": judged.cure,
        "since": judged.since,
    }
    return cast("Row", {key: value for key, value in row.items() if value or value == 0})


def _judged(obj: Object, role: str, warnings: Sequence[LastingWarning]) -> Judgement | None:
    """Return the judgement of *obj*: by a failed condition, else by a warning, else by the other conditions."""
    if role == INGRESS_ROLE:
        judged: Judgement | None = judge_ingress(obj)
    else:
        judged = _judged_deployment(obj) if role == API_SERVER_PROXY else judge_conditions(obj)
    if not warnings:
        return judged
    if judged is not None and judged.grade is Grade.FAILED:
        more = [each.message for each in warnings if each.message not in judged.words]
        return judged._replace(words="; ".join([judged.words, *more]))
    since = min(each.since for each in warnings).strftime("%Y-%m-%dT%H:%M:%SZ")
    return Judgement(Grade.FAILED, warnings[0].reason, "; ".join(each.message for each in warnings), since=since)


def _judged_deployment(deployment: Object) -> Judgement:
    """Return the judgement of the Deployment of the API server proxy, which has no condition of ours."""
    since = deployment["metadata"].get("creationTimestamp") or ""
    if ready_replicas(deployment):
        return Judgement(Grade.OK, words="the tailnet reaches the Kubernetes API", since=since)
    return Judgement(Grade.WAITING, words="its Pod is not ready yet", since=since)


def _unready(around: Surroundings) -> Judgement:
    """Return the judgement of an object whose condition is true, although none of its proxies is ready.

    Some conditions become true as soon as the operator has made the proxy, and say nothing about its Pod.
    """
    names = ", ".join(f"{each['kind']} {key_of(each)}" for each in around.workloads)
    words = f"none of its Pods is ready: see {names}" if names else "no proxy of its ProxyGroup serves it"
    return Judgement(Grade.WAITING, words=words)


def _own_proxies(row: _Row, obj: Object, around: Surroundings, _settings: Settings) -> None:
    """Add to *row* the devices of an object's own proxies, if it has any, and how many of these proxies are ready."""
    row["tailnet"] = spec_text(obj, "tailnet")
    row["names"], addresses = _devices(around)
    row["addresses"] = addresses or _shown_addresses(obj)
    _count_workloads(row, around)


def _egress(row: _Row, service: Object, around: Surroundings, settings: Settings) -> None:
    target = target_of(service)
    row["names"] = [] if _is_address(target) else [target]
    row["addresses"] = [target] if _is_address(target) else [*around.addresses]
    row["inCluster"] = _cluster_name(service, settings)
    if (served := around.served) is None:
        row["clusterAddresses"] = [each["ip"] for pod in around.pods for each in pod["status"]["podIPs"]]
        _count_workloads(row, around)
        return
    row["clusterAddresses"] = cluster_ips(served.place) if served.place else []
    if served.group is not None:
        row["tailnet"] = spec_text(served.group, "tailnet")
        endpoints = (each for one in served.slices for each in one.get("endpoints") or ())
        row["ready"] = len(
            {each.get("hostname") for each in endpoints if any(ready_addresses([{"endpoints": [each]}]))}
        )
        row["wanted"] = replica_count(served.group)


def _exposed(row: _Row, service: Object, around: Surroundings, settings: Settings) -> None:
    row["inCluster"], row["clusterAddresses"] = _cluster_name(service, settings), cluster_ips(service)
    if around.served is None:
        _own_proxies(row, service, around, settings)
    else:
        _hosted(row, service, around, around.served)


def _ingress(row: _Row, ingress: Object, around: Surroundings, settings: Settings) -> None:
    if around.served is None:
        _own_proxies(row, ingress, around, settings)
        forwards = annotations(ingress).get(ANNOTATION_FORWARD_CLUSTER_TRAFFIC)
        is_reached = around.names_ingresses if forwards is None else is_true(forwards)
        row["inCluster"] = ingress_name(ingress) if is_reached else ""
    else:
        _hosted(row, ingress, around, around.served)
    if name := ingress_name(ingress):
        row["names"] = [name]


def _dns(row: _Row, dnsconfig: Object, around: Surroundings, _settings: Settings) -> None:
    nameserver = (dnsconfig.get("status") or {}).get("nameserver") or {}
    if nameserver.get("ip"):  # only the DNSConfig in force has a nameserver
        row["clusterAddresses"] = [nameserver["ip"]]
        _count_workloads(row, around)


_PARTS: Final[dict[str, Callable[[_Row, Object, Surroundings, Settings], None]]] = {
    EGRESS: _egress,
    EXPOSED: _exposed,
    BALANCED: _exposed,
    INGRESS_ROLE: _ingress,
    DNS: _dns,
}
"""The functions that add the fields of one role to a row, by role. For all other roles, it is `_own_proxies`."""


def _hosted(row: _Row, obj: Object, around: Surroundings, served: Served) -> None:
    """Add to *row* the name that a ProxyGroup hosts for *obj*, and how many of its proxies advertise that name."""
    label, domain = label_of(obj), domain_of_group(served.states)
    hosts = advertising(served.states, service_name(label))
    row["names"] = [f"{label}.{domain}"] if hosts and domain else []
    row["addresses"] = [*around.addresses]
    if served.group is not None:
        row["tailnet"] = spec_text(served.group, "tailnet")
        row["ready"], row["wanted"] = len(hosts), replica_count(served.group)


def _count_workloads(row: _Row, around: Surroundings) -> None:
    if around.workloads:
        row["ready"] = sum(ready_replicas(each) for each in around.workloads if not is_deleting(each))
        row["wanted"] = sum(wanted_replicas(each) for each in around.workloads if not is_deleting(each))


def _devices(around: Surroundings) -> tuple[list[str], list[str]]:
    found = [device_of(each, None) for each in around.secrets]
    return [each.fqdn for each in found if each.fqdn], [ip for each in found for ip in each.ips]


def _shown_addresses(obj: Object) -> list[str]:
    """Return the addresses of the devices that the status of *obj* shows, such as those of a Recorder.

    The Secrets of a Recorder don't have the addresses of its devices.
    """
    devices = (obj.get("status") or {}).get("devices") or ()
    return [ip for each in devices for ip in each.get("tailnetIPs") or ()]


def _cluster_name(service: Object, settings: Settings) -> str:
    namespace, name = key_of(service)
    return f"{name}.{namespace}.svc.{settings.cluster_domain}"


def _is_address(target: str) -> bool:
    """Tell whether the *target* of an egress Service is an address: the last label of a name is never a number."""
    return ":" in target or target.rpartition(".")[2].isdigit()


def _service_role(service: Object, settings: Settings) -> str:
    given, spec = annotations(service), service["spec"]
    if spec.get("type") == "LoadBalancer":
        class_ = spec.get("loadBalancerClass")
        if class_ == LOAD_BALANCER_CLASS or (class_ is None and settings.default_load_balancer):
            return BALANCED
    if is_true(given.get(ANNOTATION_EXPOSE)):
        return EXPOSED
    return EGRESS if any(given.get(name) for name in _TARGETS) else ""
