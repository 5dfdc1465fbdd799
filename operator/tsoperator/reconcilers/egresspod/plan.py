"""Decides when the readiness gate of an egress Pod opens, and what a proxy's answer to a health check means.

The gate opens when each Service of the group leads to the Pod. So a rollout goes on to the next Pod only when the new
Pod gets its share of the connections (docs/development/groups.md).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import ip_address
from typing import Final

from tsoperator.api.conditions import condition, status_with
from tsoperator.api.names import EGRESS_GATE, LABEL_SERVICE_NAME, PARENT_PROXYGROUP
from tsoperator.api.objects import Key, Object, is_deleting, key_of, labels, uid
from tsoperator.group.egress import entry_name, health_url, served_service
from tsoperator.group.grouptype import type_of
from tsoperator.group.proxygroup import replica_count
from tsoperator.proxy.entries import Entry
from tsoperator.proxy.pod import answers_health_checks, has_gate, is_open
from tsoperator.runtime.ownership import owner_of
from tsoperator.runtime.plan import Note, Plan, Refusal, Report

OPENED: Final = "ServicesLeadToPod"
FAILED: Final = "EgressGateFailed"

_ROUNDS: Final = 3  # how many requests of one attempt reach each replica, on average
_HEADERS: Final = {4: "Pod-IPv4", 6: "Pod-IPv6"}
_OLD_PROXY: Final = (200, 404)  # the answers of old proxies, which don't name their Pod or don't have the page


class HealthAnswer(StrEnum):
    """The result of one request to the health check of a Service.

    The prober makes the request to find out whether the Service leads to a Pod. OWN is a healthy answer of this Pod,
    OTHER an answer of another Pod, and NO_HEADER the answer of an old proxy.
    """

    OWN = "own"
    OTHER = "other"
    UNHEALTHY = "unhealthy"
    UNREACHABLE = "unreachable"
    NO_HEADER = "no_header"

    @property
    def passes(self) -> bool:
        """True if this answer lets the gate of the Pod open.

        The answer of an old proxy suffices, because an old proxy can't say which Pod it is.
        """
        return self in (HealthAnswer.OWN, HealthAnswer.NO_HEADER)


@dataclass(frozen=True, slots=True)
class Check:
    """A health check of the egress Pods behind *service*, a user's Service, by a request to its *url*.

    Each Pod answers with its own address in the *header*. The check passes if this is the *address* of the Pod whose
    gate is to open.
    """

    service: Key
    url: str
    header: str
    address: str

    def answer(self, status: int, given: str | None) -> HealthAnswer:
        """Return the result of the check, from the HTTP *status* of an answer and the value *given* in its header."""
        if given is None:
            return HealthAnswer.NO_HEADER if status in _OLD_PROXY else HealthAnswer.UNHEALTHY
        if not _is_same(given, self.address):
            return HealthAnswer.OTHER
        return HealthAnswer.OWN if status == 200 else HealthAnswer.UNHEALTHY


@dataclass(frozen=True, slots=True)
class GateQuestion:
    """The conditions under which the operator opens the gate of the Pod with the UID *pod*.

    All *checks* have to pass. *requests* is the most requests that the operator makes in one attempt at a check. The
    Services in *unserved* can't lead to the Pod yet, because the Pod isn't among their endpoints.
    """

    pod: str
    checks: frozenset[Check] = frozenset()
    unserved: frozenset[Key] = frozenset()
    requests: int = _ROUNDS


@dataclass(frozen=True, slots=True)
class ServedGroup:
    """The ProxyGroup of an egress Pod, its ClusterIP *services*, their *slices*, and the *entries* in its ConfigMap.

    *group* is None if the ProxyGroup is gone.
    """

    group: Object | None
    services: Sequence[Object]
    slices: Sequence[Object]
    entries: Mapping[str, Entry]


@dataclass(frozen=True, slots=True)
class Observed:
    """The facts on which the plan for an egress Pod depends.

    *live* is the complete Pod if its gate is to open, and None if the gate stays as it is. *services* is the number of
    the Services that lead to the Pod. *pending* is the exception to raise while the prober still asks Services.
    """

    live: Object | None = None
    services: int = 0
    pending: Exception | None = None


def group_of(child: Object) -> str:
    """Return the name of the ProxyGroup of a Pod or a ConfigMap; empty if it has none."""
    owner = owner_of(child)
    return owner.key.name if owner and owner.type == PARENT_PROXYGROUP else ""


def is_waiting(pod: Object) -> bool:
    """Tell whether *pod* waits for its gate to open. An open gate stays open until another Pod replaces *pod*."""
    return bool(group_of(pod)) and has_gate(pod) and not is_open(pod) and not is_deleting(pod)


def question(pod: Object, served: ServedGroup, cluster_domain: str) -> GateQuestion | None:
    """Return the health checks that must pass before the gate of *pod* opens; None while an object has to change first.

    There is a check for each Service with an entry in the ConfigMap, because the proxies serve it. A Service
    without a health port can't be checked. Raises ValueError if the Pod's address isn't valid.
    """
    group = served.group
    type_ = type_of(group) if group else None
    if group is None or type_ is None or not type_.drains:
        return None
    urls = {
        key_of(each).name: (served_service(each), url)
        for each in served.services
        if not is_deleting(each)
        and entry_name(served_service(each)) in served.entries
        and (url := health_url(each, cluster_domain))
    }
    if not urls or not answers_health_checks(pod):
        return GateQuestion(uid(pod))
    addresses = [each["ip"] for each in pod["status"]["podIPs"]]
    if not addresses:
        return None
    header = _HEADERS[ip_address(addresses[0]).version]
    serving = _names_with_address(served.slices, frozenset(addresses))
    return GateQuestion(
        uid(pod),
        frozenset(
            Check(service, url, header, addresses[0]) for name, (service, url) in urls.items() if name in serving
        ),
        frozenset(service for name, (service, _) in urls.items() if name not in serving),
        _ROUNDS * max(replica_count(group), 1),
    )


def plan(_pod: Object, observed: Observed) -> Plan:
    """Return the plan that opens the gate of an egress Pod, if the group's Services lead to this Pod."""
    if observed.live is None:
        return Plan(error=observed.pending)
    services = observed.services
    message = f"{services} Services lead to this Pod" if services else "the gate waits for no Service"
    status = status_with(observed.live, condition(EGRESS_GATE, True, OPENED, message))
    return Plan(reports=[Report(observed.live, status)])


def failed(_observed: Observed, _pod: Object, refusal: Refusal) -> Plan:
    """Return the plan that reports by an Event why the gate could not be opened."""
    return Plan(notes=[Note("Warning", FAILED, refusal.message)], error=refusal.error)


def _names_with_address(slices: Iterable[Object], addresses: frozenset[str]) -> set[str]:
    """Return the names of the ClusterIP Services that have one of *addresses* among the endpoints of all their ports.

    A Service has several EndpointSlices if some of its ports aren't served by all Pods.
    """
    found: dict[tuple[str, str], bool] = {}
    for each in slices:
        if not is_deleting(each):
            key = labels(each).get(LABEL_SERVICE_NAME, ""), each["addressType"]
            found[key] = found.get(key, True) and _leads_to(each, addresses)
    return {service for (service, _), leads in found.items() if leads}


def _leads_to(endpoint_slice: Object, addresses: frozenset[str]) -> bool:
    return any(
        (endpoint.get("conditions") or {}).get("ready") is not False and not addresses.isdisjoint(endpoint["addresses"])
        for endpoint in endpoint_slice.get("endpoints") or ()
    )


def _is_same(one: str, other: str) -> bool:
    """Tell whether the texts *one* and *other* are the same address. An IPv6 address can be written in several ways."""
    try:
        return ip_address(one) == ip_address(other)
    except ValueError:
        return False
