"""Makes the plan for a PeerRelay: decides which children, status and Events it should have.

docs/development/proxies.md describes the relays.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from tsoperator.api.conditions import condition, status_with
from tsoperator.api.names import CONDITION_PEERRELAY_READY, CONFIG_SUFFIX, RELAY_CAPABILITY_VERSION, RELAY_PORT
from tsoperator.api.objects import Key, Object, generation_of, is_deleting, key_of
from tsoperator.api.rules import peer_relay_name
from tsoperator.proxy.annotations import with_ignored
from tsoperator.proxy.classref import class_called
from tsoperator.proxy.devices import OWN_TAILNET, TailnetView
from tsoperator.proxy.findings import Effect, with_findings
from tsoperator.proxy.login import NO_KEYS, Keys
from tsoperator.proxy.proxy import Children, Proxy
from tsoperator.proxy.readiness import ready_replicas
from tsoperator.proxy.secret import capability_version_of, static_endpoints_of
from tsoperator.proxy.workload import (
    holds_nothing,
    plan_reported_removal,
    plan_workload,
    proxy_devices,
    proxy_problem,
    replica_devices,
)
from tsoperator.reconcilers.peerrelay.ask import VOCABULARY, Ask, RelayWishes, class_name, class_refusal, owner
from tsoperator.reconcilers.peerrelay.children import relay_proxy, workload
from tsoperator.reconcilers.peerrelay.endpoints import Balancers, Endpoints, endpoints
from tsoperator.runtime.ownership import in_the_way, is_anothers
from tsoperator.runtime.plan import Plan, Refusal
from tsoperator.settings import Settings

__all__ = ["DEVICE_REASONS", "Observed", "failed", "owner", "plan", "wanted"]

READY: Final = "PeerRelayReady"
ENDPOINTS_PENDING: Final = "EndpointsPending"
PODS_PENDING: Final = "PodsPending"
NO_TAILNET: Final = "TailnetUnavailable"
IMAGE_TOO_OLD: Final = "ImageTooOld"
FAILED: Final = "PeerRelayCreationFailed"
TERMINATING: Final = "PeerRelayTerminating"
DEVICE_REASONS: Final = {Effect.PENDING: PODS_PENDING, Effect.FAILED: FAILED}
"""The reasons of a PeerRelay's condition, by the effect of a finding about a device."""

_PASSING: Final = frozenset({ENDPOINTS_PENDING, PODS_PENDING})  # the reasons that need no Event
_CLASS_REASONS: Final = {"ProxyPending": PODS_PENDING, "ProxyFailed": FAILED}
_FREED: Final = 60.0  # s until the operator looks again whether another object still has the name of a child
_SHOWN: Final = 3  # the number of problems of load balancers that the condition tells in full
_OLDEST: Final = "Tailscale 1.102.5"  # the oldest version that can be a relay


@dataclass(frozen=True, slots=True)
class Observed:
    """The facts on which a PeerRelay's plan depends, besides the PeerRelay itself.

    *named* are all objects that have the name of a child, whoever made them.
    """

    children: Children
    named: Sequence[Object] = ()
    balancers: Balancers = field(default_factory=Balancers)
    proxy_class: Object | None = None
    tailnet: TailnetView = OWN_TAILNET


def wanted(ask: Ask, observed: Observed, settings: Settings) -> Proxy | Plan:
    """Return the relays that a PeerRelay should have, or a plan if there should be none.

    There is a plan if the PeerRelay is being deleted, or if its relays can't be made. When they can't be made,
    running relays stay as they are.
    """
    if is_deleting(ask.obj):
        return plan_deletion(ask.obj, observed)
    found = _found(ask, observed, settings)
    return _refused(ask.obj, found) if isinstance(found, Refusal) else found


def _found(ask: Ask, observed: Observed, settings: Settings) -> Proxy | Refusal | Plan:
    """Return the relays that a PeerRelay should have, or why it can't have them.

    Return a plan while the necessary facts aren't known yet.
    """
    wishes = ask.wishes
    if isinstance(wishes, Refusal):
        return wishes
    if observed.tailnet.pending:
        return Plan(error=observed.tailnet.pending)
    if refusal := observed.tailnet.refusal:
        return replace(refusal, reason=NO_TAILNET)
    chosen = class_called(class_name(ask.obj), observed.proxy_class, "change spec.proxyClass")
    if isinstance(chosen, Refusal):
        return Plan(whole=False) if chosen.is_passing else replace(chosen, reason=_CLASS_REASONS[chosen.reason])
    if refusal := class_refusal(chosen):
        return refusal
    if stranger := next((each for each in observed.named if is_anothers(each, wishes.owner)), None):
        return Refusal(in_the_way(stranger), requeue_after=_FREED)
    static = [each.static for each in _endpoints(wishes, observed, settings)]
    return relay_proxy(wishes, chosen, static, observed.tailnet, settings)


def plan(
    ask: Ask, wanted: Proxy | Plan, observed: Observed, settings: Settings, keys: Keys | Refusal = NO_KEYS
) -> Plan:
    """Return the plan for a PeerRelay.

    *wanted* is the result of the function `wanted`, and *keys* are the auth keys of the replicas.
    """
    return with_ignored(_planned(ask, wanted, observed, settings, keys), ask.obj, VOCABULARY)


def _planned(ask: Ask, wanted: Proxy | Plan, observed: Observed, settings: Settings, keys: Keys | Refusal) -> Plan:
    if isinstance(wanted, Plan):
        return wanted
    wishes, children = ask.wishes, observed.children
    if isinstance(wishes, Refusal):
        return _refused(ask.obj, wishes)
    if isinstance(keys, Refusal):
        return _refused(ask.obj, keys)
    made = plan_workload(
        wanted,
        workload(wishes, wanted, children, settings),
        children,
        keys,
        devices := proxy_devices(wanted, children, observed.tailnet, settings),
    )
    found = _endpoints(wishes, observed, settings)
    problem = _incomplete(wanted, children, found)
    if words := proxy_problem(wanted, children, keys):
        problem = Refusal(words, PODS_PENDING)
    complete = replace(made, status=_status(ask.obj, problem, found))
    return with_findings(complete, devices.findings, condition=CONDITION_PEERRELAY_READY, reasons=DEVICE_REASONS)


def plan_deletion(relay: Object, observed: Observed) -> Plan:
    """Return the plan with the next step of removing the children of *relay*.

    The endpoints in its status are removed at once.
    """
    if holds_nothing(relay, observed.children):
        return Plan()
    report, reasons = partial(_refused, relay), (NO_TAILNET, TERMINATING)
    return plan_reported_removal(owner(key_of(relay)), observed.children, observed.tailnet, report, reasons)


def failed(ask: Ask, observed: Observed, refusal: Refusal) -> Plan:
    """Return the plan that tells the user of a PeerRelay why a step failed. The operator tries again."""
    if is_deleting(ask.obj) and observed.tailnet.refusal and not refusal.reason:
        refusal = replace(refusal, reason=NO_TAILNET)
    return _refused(ask.obj, refusal)


def _endpoints(wishes: RelayWishes, observed: Observed, settings: Settings) -> list[Endpoints]:
    """Return the endpoints of the relays in *wishes*, by ordinal. Those of surplus relays are left out."""
    found = []
    for ordinal in range(wishes.replicas):
        key = Key(settings.namespace, f"{peer_relay_name(wishes.key.name)}-{ordinal}")
        config = observed.children.secret(Key(key.namespace, key.name + CONFIG_SUFFIX))
        service = observed.children.service(key)
        found.append(endpoints(service, key, observed.balancers, static_endpoints_of(config)))
    return found


def _incomplete(proxy: Proxy, children: Children, found: Sequence[Endpoints]) -> Refusal | None:
    """Return a refusal that says what the relays lack; None if they are complete."""
    if too_old := _too_old(proxy, children):
        return too_old
    count = proxy.replica_count
    reached = sum(1 for each in found if each.addresses)
    if reached < count:
        words = f"{reached} of {count} replicas have a public IP"
        return Refusal(f"{words}: {_balancer_problems(proxy, found)}", ENDPOINTS_PENDING)
    statefulset = children.statefulset(proxy.key)
    ready = ready_replicas(statefulset) if statefulset else 0
    if ready < count:
        return Refusal(f"{ready} of {count} pods are ready{_restarting(children)}", PODS_PENDING)
    joined = len(replica_devices(proxy, children))
    if joined < count:
        return Refusal(f"{joined} of {count} pods have joined the tailnet", PODS_PENDING)
    return None


def _balancer_problems(proxy: Proxy, found: Sequence[Endpoints]) -> str:
    awaited = [f"{proxy.key.name}-{number}" for number, each in enumerate(found) if each.awaits and not each.addresses]
    problems = _problems(found)
    if awaited:
        names = ", ".join(awaited[:_SHOWN]) + (f" and {len(awaited) - _SHOWN} more" if len(awaited) > _SHOWN else "")
        problems.append(
            f"waiting for the load balancer of Service {names} in {proxy.key.namespace}: if it stays without an "
            "address, see that the cluster has a controller for Services of type LoadBalancer, and look at the Events "
            "of the Service"
        )
    return "; ".join(problems)


def _problems(found: Sequence[Endpoints]) -> list[str]:
    problems = [each.problem for each in found if each.problem]
    more = len(problems) - _SHOWN
    return [*problems[:_SHOWN], *([f"and {more} more load balancers have a problem"] if more > 0 else [])]


def _too_old(proxy: Proxy, children: Children) -> Refusal | None:
    for replica in proxy.replicas:
        state = children.secret(replica.state_secret)
        version = capability_version_of(state) if state else None
        if version is not None and version < RELAY_CAPABILITY_VERSION:
            return Refusal(
                f"the image of Pod {replica.state_secret} has capability version {version}, which is too old for a "
                f"relay: give it {_OLDEST} or newer, by the ProxyClass or by the operator's PROXY_IMAGE",
                IMAGE_TOO_OLD,
            )
    return None


def _restarting(children: Children) -> str:
    """Return words about a Pod that has restarted, and about the probable cause; empty if no Pod has."""
    for pod in children.pods:
        statuses = (pod.get("status") or {}).get("containerStatuses") or ()
        if any(each.get("restartCount", 0) for each in statuses):
            return (
                f": Pod {key_of(pod)} has restarted: see `kubectl -n {key_of(pod).namespace} logs {key_of(pod).name} "
                f"--previous`. An image older than {_OLDEST} can't be a relay"
            )
    return ""


def _refused(relay: Object, refusal: Refusal) -> Plan:
    """Return the plan that reports *refusal* on *relay*, and changes nothing else.

    The endpoints in the status stay, unless the PeerRelay is being deleted.
    """
    note = refusal.note(FAILED)
    return Plan(
        notes=[note] if note.reason not in _PASSING else [],
        status=_status(relay, refusal, [] if is_deleting(relay) else None),
        requeue_after=refusal.requeue_after,
        error=refusal.error,
    )


def _status(relay: Object, problem: Refusal | None, found: Sequence[Endpoints] | None) -> Object:
    """Return the status of *relay* with the endpoints *found*; with None, its endpoints stay as they are."""
    if problem is None:
        reason, message = READY, "; ".join([READY, *_problems(found or ())])
    else:
        reason, message = problem.reason or FAILED, problem.message
    made = status_with(
        relay, condition(CONDITION_PEERRELAY_READY, problem is None, reason, message, generation_of(relay))
    )
    if found is not None:
        made["endpoints"] = [
            {"replica": ordinal, "address": address, "port": RELAY_PORT}
            for ordinal, each in enumerate(found)
            for address in each.addresses
        ]
    return made
