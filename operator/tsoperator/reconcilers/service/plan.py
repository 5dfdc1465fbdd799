"""Makes the plan for a Service: decides which children, status and Events it should have.

The Service is an egress Service or an exposed Service.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from tsoperator.api.conditions import condition
from tsoperator.api.names import CONDITION_PROXY_READY, HA_SERVICE_FINALIZER
from tsoperator.api.objects import SERVICE, Key, Object, is_deleting, uid
from tsoperator.dns.clusternames import is_opted_out, name_notes
from tsoperator.dns.nameclaims import Claim, taken_notes
from tsoperator.group.hosted import Hosting
from tsoperator.group.places import NOWHERE, Places, await_newcomers, best_place, move, removal, upkeep
from tsoperator.proxy.classref import accepts_routes, chosen_class
from tsoperator.proxy.devices import OWN_TAILNET, TailnetView
from tsoperator.proxy.findings import Effect, with_findings
from tsoperator.proxy.login import NO_KEYS, Keys
from tsoperator.proxy.proxy import Children, Proxy
from tsoperator.proxy.statefulset import serves
from tsoperator.proxy.tailscaled import ProxyConfig
from tsoperator.proxy.workload import (
    awaited_pods,
    awaits_keys,
    holds_nothing,
    plan_proxy,
    plan_removal,
    proxy_device,
    proxy_devices,
    proxy_key,
    proxy_problem,
    removal_message,
)
from tsoperator.reconcilers.service import egress, exposure, grouped, hosted
from tsoperator.reconcilers.service.ask import Ask, ServiceMode
from tsoperator.reconcilers.service.notices import notices, with_notes
from tsoperator.reconcilers.service.violations import violations
from tsoperator.runtime.plan import Child, Note, Patch, Plan, Refusal, earliest
from tsoperator.runtime.reverts import NO_REVERTS, Reverts
from tsoperator.runtime.success import with_success
from tsoperator.settings import Settings
from tsoperator.tailnet.zones import NO_SUFFIXES, Suffixes

TERMINATING = "ProxyTerminating"
DEVICE_REASONS = {Effect.PENDING: "ProxyPending", Effect.FAILED: "ProxyFailed"}
"""The reasons of a Service's condition, by the effect of a finding about the device."""

_STILL_THERE = 5.0  # s until another look for an ended deletion, if no watch event comes


@dataclass(frozen=True, slots=True)
class Observed:
    """The facts on which a Service's plan depends, besides the Service itself.

    *suffixes* are the known suffixes of MagicDNS names. *reverts* say how another writer keeps reverting the Service.
    *has_dnsconfig* tells whether there is a DNSConfig, so that Pods look up names. *holder* is the claim of the object
    that has the name of the device in the cluster's DNS, if the Service can't use that name.

    *hosting* are the facts about the Tailscale Service of a Service that a ProxyGroup exposes. If no ProxyGroup is to
    expose the Service any more, *left* says why that Tailscale Service isn't completely removed.
    """

    children: Children
    proxy_class: Object | None = None
    tailnet: TailnetView = OWN_TAILNET
    places: Places = NOWHERE
    suffixes: Suffixes = NO_SUFFIXES
    reverts: Reverts = NO_REVERTS
    has_dnsconfig: bool = False
    holder: Claim | None = None
    hosting: Hosting | None = None
    left: Refusal | None = None


def plan_left(places: Places, proxy: Plan, *, is_seen: bool) -> Plan:
    """Return the plan with the next step of removing the objects of a Service that has vanished.

    *proxy* is the plan for the Service's own proxy. The *places* of the Service are removed at once. But if *is_seen*
    is False, the operator doesn't watch the namespace of the Service, so the Service perhaps still exists. In this
    case, the places stay, and the plan updates their EndpointSlices.
    """
    there = Plan(steps=removal(places)) if is_seen else await_newcomers(Plan(steps=upkeep(places)), places)
    again = earliest(there.requeue_after, proxy.requeue_after)
    return replace(proxy, steps=[*there.steps, *proxy.steps], requeue_after=again)


def own_key(ask: Ask, children: Children, settings: Settings) -> Key:
    """Return the key of a Service's own proxy: the key that the proxy has, or would have."""
    return proxy_key(ask.owner, ask.uid, children, settings)


def wanted(ask: Ask, observed: Observed, settings: Settings) -> Proxy | Plan:
    """Return the proxy that a Service should have, or the plan for a Service that needs no proxy or can't have one.

    If somebody has pointed the Service away from a place that serves it, the plan points the Service back, and does
    nothing else. So no fault of the Service and no refused step keeps its clients from the place. The write queues the
    Service again.
    """
    found, reverts = _wanted(ask, observed, settings), observed.reverts
    is_starting = isinstance(found, Proxy) and not _was_judged(ask)  # then the plan for the proxy points the Service
    if is_starting or reverts.wait or not egress.is_led_away(ask, observed.places):
        return found
    place = leading_place(ask, own_key(ask, observed.children, settings).name, observed.places)
    if not egress.leads(ask, place, observed.places):
        return found
    return egress.pointed(ask, place, Plan(whole=False), reverts)


def _was_judged(ask: Ask) -> bool:
    """Tell whether the condition in the status says that the Service's own proxy works, or that something failed."""
    return any(each["type"] == CONDITION_PROXY_READY and each["reason"] != "ProxyPending" for each in ask.conditions)


def _wanted(ask: Ask, observed: Observed, settings: Settings) -> Proxy | Plan:
    if ask.mode is ServiceMode.NOTHING:
        return _unheld(ask, plan_deletion(ask, observed), observed)
    if ask.mode is ServiceMode.GROUP:
        return _unheld(ask, _grouped(ask, observed), observed)
    if ask.mode is ServiceMode.HOSTED:
        return _hosted(ask, observed, settings.proxy_tags)
    kept = upkeep(observed.places)
    if hosted.is_held(ask):
        return replace(_unheld(ask, _awaiting_name(ask), observed), steps=kept)
    is_public = any(map(serves, observed.children.statefulsets))
    if wrong := violations(ask, observed.suffixes, is_public=is_public):
        note = Note("Warning", "INVALIDSERVICE", f"invalid Service: {'; '.join(wrong)}")
        return replace(_not_made(ask, note, "ProxyInvalid"), steps=kept)
    chosen = chosen_class(ask.service, observed.proxy_class, ask.class_name)
    if isinstance(chosen, Refusal):
        return replace(_waiting_for_class(ask, chosen), steps=kept)
    serve_config = exposure.serve_config(ask) if ask.is_exposed else None
    return Proxy(
        owner=ask.owner,
        parent_uid=ask.uid,
        key=own_key(ask, observed.children, settings),
        pod=exposure.pod(ask) if ask.is_exposed else egress.pod(ask),
        config=ProxyConfig(
            ask.hostname, observed.tailnet.login_url, serve_config, accept_routes=accepts_routes(chosen)
        ),
        tags=ask.tags,
        magic_dns_name=_magic_dns_name(ask, observed),
        proxy_class=chosen,
    )


def _magic_dns_name(ask: Ask, observed: Observed) -> str:
    """Return the name by which Pods find a valid Service; empty if they don't find it by name."""
    if not ask.is_exposed:
        return "" if is_opted_out(ask.service) or observed.holder else ask.magic_dns_name
    device = proxy_device(observed.children)
    return device.fqdn if device and exposure.cluster_naming(ask).leads else ""


def plan(
    ask: Ask, wanted: Proxy | Plan, observed: Observed, settings: Settings, keys: Keys | Refusal = NO_KEYS
) -> Plan:
    """Return the plan for a Service.

    *wanted* is the result of the function `wanted`, and *keys* are the auth keys of the replicas.
    """
    made = wanted if isinstance(wanted, Plan) else _proxied(ask, wanted, observed, settings, keys)
    if observed.reverts != NO_REVERTS:
        place = leading_place(ask, own_key(ask, observed.children, settings).name, observed.places)
        made = egress.with_reverts(made, place, observed.reverts)
    return await_newcomers(with_notes(made, ask, notices(ask)), observed.places)


def _proxied(ask: Ask, wanted: Proxy, observed: Observed, settings: Settings, keys: Keys | Refusal) -> Plan:
    """Return the plan for a Service that should have the proxy *wanted*."""
    kept = upkeep(observed.places)
    if isinstance(keys, Refusal):
        return replace(failed(ask, observed, keys), steps=kept)
    if awaits_keys(keys, observed.children):
        return Plan(steps=kept, error=keys.pending)
    devices = proxy_devices(wanted, observed.children, observed.tailnet, settings)
    made = plan_proxy(wanted, observed.children, settings, keys, devices)
    problem = proxy_problem(wanted, observed.children, keys)
    pending = condition(CONDITION_PROXY_READY, False, "ProxyPending", problem) if problem else None
    reached = "" if ask.is_exposed or _routes(ask, wanted, observed) else egress.reached(ask)
    if ask.is_exposed:
        shown = _exposed(ask, made, pending, observed)
    else:
        name = best_place(ask.points_at, wanted.key.name, observed.places, is_own=True)
        starts = name != wanted.key.name and all(each.effect < Effect.PENDING for each in devices.findings)
        works = condition(CONDITION_PROXY_READY, True, "ProxyCreated", reached or "ProxyCreated")
        ready = pending or (egress.starting(wanted.key, name) if starts else works)
        shown = _pointed(ask, wanted, name, made, ready, observed)
    found = with_findings(shown, devices.findings, condition=CONDITION_PROXY_READY, reasons=DEVICE_REASONS)
    return with_success(found, ask.conditions, CONDITION_PROXY_READY, reached)


def _pointed(ask: Ask, proxy: Proxy, place: str, made: Plan, ready: Object, observed: Observed) -> Plan:
    """Return *made* with the step that points an egress Service at the place called *place*.

    The place is that of its own *proxy*, or an old place. The abandoned places of the Service at ProxyGroups are
    removed. *ready* is the condition if no other writer reverts the Service.
    """
    reverts = observed.reverts
    if reverts.settles:
        ready = condition(CONDITION_PROXY_READY, False, "ProxyPending", egress.overwritten(reverts, place))
    slices, gone, wait = move(ask.points_at, proxy.key.name, observed.places)
    steps, again = [*map(Child, slices), *gone, *made.steps], earliest(made.requeue_after, wait)
    moved = replace(
        made, steps=steps, requeue_after=again, status=_status(ask, ready, observed.places) | {"loadBalancer": {}}
    )
    notes = [*_routes(ask, proxy, observed), *_taken(ask, observed)]
    return with_notes(egress.pointed(ask, place, moved, reverts), ask, notes)


def _routes(ask: Ask, proxy: Proxy, observed: Observed) -> list[Note]:
    """Return an Event if the *proxy* of an egress Service perhaps lacks the route to a target that is no device."""
    destination = observed.tailnet.destination
    is_device = destination is not None and destination.device is not None
    return [] if is_device else egress.route_notes(ask, accepts_routes=proxy.config.accept_routes)


def _taken(ask: Ask, observed: Observed) -> list[Note]:
    """Return an Event if another object has the name that Pods would use for an egress Service."""
    return taken_notes(ask.service, observed.holder) if observed.has_dnsconfig else []


def _exposed(ask: Ask, made: Plan, pending: Object | None, observed: Observed) -> Plan:
    """Return *made* with the status and the Events of an exposed Service, and with the removal of all its places.

    *pending* is the condition to show if the proxy can't log in; None if it can.
    """
    device = proxy_device(observed.children)
    shown = exposure.shown(ask, device)
    status = _status(ask, pending or shown.condition, observed.places)
    if shown.entries is not None or exposure.shows(ask, device):
        status["loadBalancer"] = exposure.load_balancer(ask, shown.entries or ())
    naming = name_notes(exposure.cluster_naming(ask)) if observed.has_dnsconfig else []
    notes = [*made.notes, *(() if pending else shown.notes), *exposure.policy_notes(ask, made)]
    news = [*(() if pending else shown.news), *exposure.port_notices(ask), *naming]
    return with_notes(
        replace(made, steps=[*removal(observed.places), *made.steps], status=status, notes=notes), ask, news
    )


def current_place(ask: Ask, own_name: str, places: Places) -> str:
    """Return the name of the place where an egress Service should be served: at its group, or by its own proxy.

    *own_name* is the name of its own proxy.
    """
    return grouped.place_name(ask, places.at(ask.group)) if ask.mode is ServiceMode.GROUP else own_name


def leading_place(ask: Ask, own_name: str, places: Places) -> str:
    """Return the name of the place at which a Service should point now; empty if it should point at none.

    *own_name* is the name of its own proxy.
    """
    if ask.is_exposed or ask.mode is ServiceMode.NOTHING:
        return ""
    current, is_own = current_place(ask, own_name, places), ask.mode is not ServiceMode.GROUP
    return best_place(ask.points_at, current, places, is_own=is_own)


def _grouped(ask: Ask, observed: Observed) -> Plan:
    """Return the plan for a Service of a ProxyGroup. Its own proxy is removed once it is an abandoned place."""
    made = grouped.plan(ask, observed.places, observed.suffixes, observed.reverts, is_named=observed.holder is None)
    if observed.places.ports is not None:
        made = with_notes(made, ask, _taken(ask, observed))
    own = observed.places.own
    if own is None or not observed.places.is_abandoned(own.name):
        return made
    step = plan_removal(ask.owner, observed.children)
    return replace(
        made,
        steps=[*made.steps, *step.steps],
        notes=[*made.notes, *step.notes],
        requeue_after=earliest(made.requeue_after, step.requeue_after),
        way_out=step.way_out,
    )


def _hosted(ask: Ask, observed: Observed, proxy_tags: Sequence[str]) -> Plan:
    """Return the plan for a Service that a ProxyGroup should expose.

    The Service's own proxy is removed first, because a device and a Tailscale Service can't have the same name. The
    proxy stays as long as the group can't expose the Service.
    """
    if holds_nothing(ask.service, observed.children):
        unapproved_for = observed.places.ages.get(hosted.UNAPPROVED)
        made = hosted.plan(ask, observed.hosting, unapproved_for, proxy_tags)
        return replace(made, steps=removal(observed.places))
    if refusal := hosted.refusal_of(ask, observed.hosting):
        return replace(hosted.refused(ask, refusal), steps=upkeep(observed.places))
    step = plan_removal(ask.owner, observed.children)
    waits = hosted.awaiting_end(ask)
    return replace(step, steps=[*removal(observed.places), *step.steps], status=waits.status)


def _unheld(ask: Ask, made: Plan, observed: Observed) -> Plan:
    """Return *made* with the release of the Service, because no ProxyGroup is to expose the Service any more.

    The Service isn't released until its Tailscale Service is completely removed.
    """
    if not hosted.is_held(ask) or made.release:
        return made
    if left := observed.left:
        again = earliest(made.requeue_after, _STILL_THERE)
        return replace(made, notes=[*made.notes, *hosted.left_notes(left)], requeue_after=again)
    status = None if is_deleting(ask.service) else hosted.without_traces(ask, made.status or ask.status)
    return replace(made, status=status, release=HA_SERVICE_FINALIZER)


def _awaiting_name(ask: Ask) -> Plan:
    """Return the plan that reports that a Service gets a proxy of its own once the name is free."""
    message = "it waits until its Tailscale Service is gone; then a proxy of its own gets the name"
    shown = condition(CONDITION_PROXY_READY, False, "ProxyPending", message)
    return Plan(status=ask.status_with(shown, without=set(hosted.CONDITIONS)))


def _waiting_for_class(ask: Ask, refusal: Refusal) -> Plan:
    if refusal.is_passing:
        return Plan(whole=False)
    type_: Literal["Normal", "Warning"] = "Normal" if refusal.reason == "ProxyPending" else "Warning"
    return _not_made(ask, Note(type_, refusal.reason, refusal.message))


def _not_made(ask: Ask, note: Note, reason: str = "") -> Plan:
    """Return the plan that reports by *note* why a Service has no working proxy; its condition has this *reason*."""
    shown = condition(CONDITION_PROXY_READY, False, reason or note.reason, note.message)
    return Plan(status=ask.status_with(shown), notes=[note])


def rewritten_to(ask: Ask, plan: Plan) -> str:
    """Return the external name by which *plan* points a Service at its proxy; empty if it doesn't do that."""
    bodies = (
        each.body for each in plan.steps if isinstance(each, Patch) and (each.resource, each.key) == (SERVICE, ask.key)
    )
    return next((body["spec"]["externalName"] for body in bodies), "")


def plan_deletion(ask: Ask, observed: Observed) -> Plan:
    """Return the plan with the next step of removing the children of a Service.

    The finalizer stays until all children are gone, and no ProxyGroup's ConfigMap has an entry for the Service.
    """
    held, places = not holds_nothing(ask.service, observed.children), observed.places
    step = plan_removal(ask.owner, observed.children) if held else Plan()
    if not places.is_empty:
        rest = earliest(step.requeue_after, _STILL_THERE)
        step = replace(step, steps=[*removal(places), *step.steps], release="", requeue_after=rest)
    if hanging := [pod for pod in awaited_pods(observed.children) if uid(pod) in observed.children.overdue]:
        shown = condition(CONDITION_PROXY_READY, False, TERMINATING, removal_message(hanging))
        return replace(step, status=ask.status_with(shown))
    if is_deleting(ask.service):
        return step
    if exposure.shows(ask, proxy_device(observed.children)):
        # This comes before the Secret is deleted, because only the Secret tells that the device shown is ours.
        return replace(Plan() if step.release else step, status={**ask.status, "loadBalancer": {}})
    if not ask.conditions or not places.is_empty or (held and not step.release):
        return step
    left = ask.status_with(without={CONDITION_PROXY_READY, *grouped.CONDITIONS})
    return step if left == ask.status else replace(step, status=left)


def failed(ask: Ask, _observed: Observed, refusal: Refusal) -> Plan:
    """Return the plan that tells the user of a Service why a step failed. The operator tries again."""
    if ask.mode is ServiceMode.HOSTED:
        return hosted.failed(ask, refusal)
    if ask.group and ask.is_egress:
        return grouped.failed(ask, refusal)
    return replace(_not_made(ask, refusal.note("ProxyFailed")), error=refusal.error)


def _status(ask: Ask, shown: Object, places: Places) -> Object:
    """Return the status of a Service with the condition *shown*.

    The conditions about ProxyGroups stay as long as the Service has a place at one.
    """
    return ask.status_with(shown, without=() if places.services else grouped.CONDITIONS)
