"""Decides what an egress Service or an exposed Service needs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tsoperator.api.conditions import condition, remove_condition, set_condition
from tsoperator.api.names import (
    ANNOTATION_HOSTNAME,
    ANNOTATION_TAGS,
    CONDITION_PROXY_READY,
    PARENT_SERVICE,
    PROXY_GROUP,
)
from tsoperator.api.objects import SERVICE, Key, Object, annotations, is_deleting, key_of, uid
from tsoperator.api.rules import dns_label_error, split_tags, tag_error
from tsoperator.dns.clusternames import is_opted_out, name_notes
from tsoperator.dns.nameclaims import Claim, taken_notes
from tsoperator.proxy.classref import ClassProblem, accepts_routes, chosen_class
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
from tsoperator.reconcilers.service import egress, exposure, grouped
from tsoperator.reconcilers.service.mode import Mode, mode_of
from tsoperator.reconcilers.service.moves import led_to
from tsoperator.reconcilers.service.notices import notices, told
from tsoperator.reconcilers.service.places import NOWHERE, Places, moved_out, removal, upkeep
from tsoperator.runtime import unsupported
from tsoperator.runtime.ownership import Owner
from tsoperator.runtime.plan import Note, Patch, Plan, Refusal, earliest
from tsoperator.runtime.reverts import NO_REVERTS, Reverts
from tsoperator.settings import Settings
from tsoperator.tailnet.zones import NO_SUFFIXES, Suffixes

TERMINATING = "ProxyTerminating"
DEVICE_REASONS = {Effect.PENDING: "ProxyPending", Effect.FAILED: "ProxyFailed"}
"""The reasons of the condition, by the effect of a finding about the device."""

_READY = condition(CONDITION_PROXY_READY, True, "ProxyCreated", "ProxyCreated")
_STILL_THERE = 5.0  # s until another look at a deletion that should have ended by a watch event


@dataclass(frozen=True, slots=True)
class Observed:
    """The facts on which a Service's plan depends besides the Service.

    *has_dnsconfig* tells whether there is a DNSConfig, so that Pods look up names. *holder* is the claim of the object
    that has the name of the device in the cluster's DNS, if the Service can't use it.
    """

    children: Children
    proxy_class: Object | None = None
    tailnet: TailnetView = OWN_TAILNET
    reverts: Reverts = NO_REVERTS
    places: Places = NOWHERE
    has_dnsconfig: bool = False
    holder: Claim | None = None


def owner(key: Key) -> Owner:
    """Return the owner of the children of the Service named *key*."""
    return Owner(PARENT_SERVICE, key)


def is_leaving(service: Object, settings: Settings) -> bool:
    """Tell whether *service* asks for nothing, so that what was made for it has to go."""
    return mode_of(service, settings) is Mode.NOTHING


def violations(
    service: Object, settings: Settings, suffixes: Suffixes = NO_SUFFIXES, *, is_public: bool = False
) -> list[str]:
    """Return what is wrong with *service*; each violation is part of a sentence, and says how to fix it.

    *suffixes* are the known ones of MagicDNS names. With *is_public* its proxy has a serve config now.
    """
    exposed = exposure.asks(service, settings)
    given = annotations(service)
    found: list[str] = []
    if service["spec"].get("clusterIP") == "None":
        found.append(
            "headless Services are not supported: use a Service "
            + ("with a cluster IP, which the proxy forwards to" if exposed else "of type ExternalName")
        )
    if exposed:
        found += exposure.violations(service, settings, is_public=is_public)
    found += egress.violations(service, settings.zones, suffixes)
    if error := dns_label_error(hostname(service)):
        found.append(
            f"annotation {ANNOTATION_HOSTNAME}: {error}"
            if ANNOTATION_HOSTNAME in given
            else f"the default hostname {error}: set annotation {ANNOTATION_HOSTNAME} to a shorter one"
        )
    if given.get(PROXY_GROUP) == "":
        found.append(f"annotation {PROXY_GROUP} names no ProxyGroup: name one, or remove the annotation")
    if ANNOTATION_TAGS in given:
        found += [
            f"annotation {ANNOTATION_TAGS}: {error}"
            for tag in split_tags(given[ANNOTATION_TAGS])
            if (error := tag_error(tag))
        ]
    return found


def hostname(service: Object) -> str:
    """Return the name that the proxy's device asks for."""
    key = key_of(service)
    return annotations(service).get(ANNOTATION_HOSTNAME, f"{key.namespace}-{key.name}")


def tags(service: Object, settings: Settings) -> Sequence[str]:
    """Return the tags of the proxy's device."""
    given = annotations(service).get(ANNOTATION_TAGS)
    return split_tags(given) if given else settings.proxy_tags


def wanted(service: Object, observed: Observed, settings: Settings) -> Proxy | Plan:
    """Return the proxy that *service* should have, or the plan for a Service that needs none or can't have one."""
    mode = mode_of(service, settings)
    if mode is Mode.NOTHING:
        return plan_deletion(service, observed)
    if mode is Mode.GROUP:
        return _grouped(service, observed, settings)
    kept = upkeep(observed.places, settings)
    if mode is Mode.UNSUPPORTED:
        return replace(_unsupported(service), steps=kept)
    is_public = any(map(serves, observed.children.statefulsets))
    if wrong := violations(service, settings, observed.places.suffixes, is_public=is_public):
        message = f"invalid Service: {'; '.join(wrong)}"
        status = not_ready(service, "ProxyInvalid", message)
        return Plan(steps=kept, status=status, notes=[Note("Warning", "INVALIDSERVICE", message)])
    chosen = chosen_class(service, observed.proxy_class, settings.proxy_class)
    if isinstance(chosen, ClassProblem):
        return replace(_waiting_for_class(service, chosen), steps=kept)
    exposed = exposure.asks(service, settings)  # takes precedence over egress
    serve_config = exposure.serve_config(service, settings) if exposed else None
    own = owner(key_of(service))
    return Proxy(
        owner=own,
        parent_uid=uid(service),
        key=proxy_key(own, uid(service), observed.children, settings),
        pod=exposure.pod(service, settings) if exposed else egress.pod(service),
        config=ProxyConfig(
            hostname(service), observed.tailnet.login_url, serve_config, accept_routes=accepts_routes(chosen)
        ),
        tags=tags(service, settings),
        magic_dns_name=_magic_dns_name(service, observed, settings),
        proxy_class=chosen,
    )


def _magic_dns_name(service: Object, observed: Observed, settings: Settings) -> str:
    """Return the name by which Pods find a valid *service*; empty if they don't."""
    if not exposure.asks(service, settings):
        return "" if is_opted_out(service) or observed.holder else egress.magic_dns_name(service)
    device = proxy_device(observed.children)
    return device.fqdn if device and exposure.cluster_naming(service, settings).leads else ""


def plan(
    service: Object, wanted: Proxy | Plan, observed: Observed, settings: Settings, keys: Keys | Refusal = NO_KEYS
) -> Plan:
    """Return what *service* needs; *wanted* is what `wanted` returned, *keys* are the auth keys of the replicas."""
    made = _planned(service, wanted, observed, settings, keys)
    return told(made, service, notices(service, settings), settings)


def _planned(
    service: Object, wanted: Proxy | Plan, observed: Observed, settings: Settings, keys: Keys | Refusal
) -> Plan:
    if isinstance(wanted, Plan):
        return wanted
    kept = upkeep(observed.places, settings)
    if isinstance(keys, Refusal):
        return replace(failed(service, keys), steps=kept)
    if awaits_keys(keys, observed.children):
        return Plan(steps=kept, error=keys.pending)
    devices = proxy_devices(wanted, observed.children, observed.tailnet, settings)
    made = plan_proxy(wanted, observed.children, settings, keys, devices)
    problem = proxy_problem(wanted, observed.children, keys)
    pending = condition(CONDITION_PROXY_READY, False, "ProxyPending", problem) if problem else None
    if exposure.asks(service, settings):
        gone = replace(made, steps=[*removal(observed.places), *made.steps])
        shown = _exposed(service, wanted, gone, pending, observed, settings)
    else:
        name = leads_to(service, observed.children, observed.places, settings)
        starts = name != wanted.key.name and all(each.effect < Effect.PENDING for each in devices.findings)
        ready = pending or (_starting(wanted.key, name) if starts else _READY)
        moved = moved_out(service, wanted.key.name, made, observed.places, settings)
        pointed = _pointed(service, name, moved, ready, observed.reverts, settings)
        shown = told(
            pointed, service, [*_unreached(service, wanted, observed.tailnet), *_taken(service, observed)], settings
        )
    if not observed.places.services and shown.status:
        left = grouped.without_conditions(shown.status["conditions"])
        shown = replace(shown, status={**shown.status, "conditions": left})
    return with_findings(shown, devices.findings, condition=CONDITION_PROXY_READY, reasons=DEVICE_REASONS)


def _starting(proxy: Key, leads_to: str) -> Object:
    """Return the condition of an egress Service that leads elsewhere until its *proxy* serves, if it *leads_to* any."""
    return condition(CONDITION_PROXY_READY, False, "ProxyPending", egress.starting(proxy, leads_to))


def _unreached(service: Object, proxy: Proxy, tailnet: TailnetView) -> list[Note]:
    """Return an Event if the *proxy* of an egress *service* needs the routes of other devices, but leaves them out."""
    found = tailnet.destination and tailnet.destination.device
    if found or not egress.lacks_route(service, accepts_routes=proxy.config.accept_routes):
        return []
    return [Note("Warning", "RoutesNotAccepted", egress.routes_not_accepted(service), once=True)]


def _taken(service: Object, observed: Observed) -> list[Note]:
    """Return an Event if another object has the name that Pods would use for an egress *service*."""
    return taken_notes(service, observed.holder) if observed.has_dnsconfig else []


def _exposed(
    service: Object, proxy: Proxy, made: Plan, pending: Object | None, observed: Observed, settings: Settings
) -> Plan:
    """Return *made* with what an exposed *service* shows of its proxy.

    *pending* is the condition of a proxy that can't log in.
    """
    device = proxy_device(observed.children)
    shown = exposure.shown(service, device, settings)
    status = _with_condition(service, pending or shown.condition)
    if shown.entries is not None or exposure.shows(service, device):
        status["loadBalancer"] = exposure.load_balancer(service, shown.entries or ())
    policy = exposure.policy_notes(service, made, settings, proxy.tags)
    news = exposure.port_notices(service) if exposure.is_balanced(service, settings) else []
    if observed.has_dnsconfig:
        news += name_notes(exposure.cluster_naming(service, settings))
    if pending:
        return told(replace(made, status=status, notes=[*made.notes, *policy]), service, news, settings)
    complete = replace(made, status=status, notes=[*made.notes, *shown.notes, *policy])
    return told(complete, service, [*shown.news, *news], settings)


def current_place(service: Object, children: Children, places: Places, settings: Settings) -> str:
    """Return the name of the place where an egress *service* should be served: that of its own proxy, or at a group."""
    if mode_of(service, settings) is Mode.GROUP:
        return grouped.place_name(service, places, settings)
    return own_name(service, children, settings)


def own_name(service: Object, children: Children, settings: Settings) -> str:
    """Return the name of the proxy that *service* has or could have for itself."""
    return proxy_key(owner(key_of(service)), uid(service), children, settings).name


def leads_to(service: Object, children: Children, places: Places, settings: Settings) -> str:
    """Return the name of the place to which an egress *service* should lead now; empty if it should lead to none."""
    is_own = mode_of(service, settings) is not Mode.GROUP
    new, old = places.new_and_old(current_place(service, children, places, settings), is_own=is_own)
    return led_to(egress.pointed_at(service, settings), new, old)


def _grouped(service: Object, observed: Observed, settings: Settings) -> Plan:
    """Return what a *service* needs that a ProxyGroup serves; its own proxy goes when clients no longer need it."""
    made = grouped.plan(service, owner(key_of(service)), observed.places, settings, is_named=observed.holder is None)
    if observed.places.ports is not None:
        made = told(made, service, _taken(service, observed), settings)
    own = observed.places.own
    if own is None or not observed.places.is_abandoned(own.name, settings):
        return made
    step = plan_removal(owner(key_of(service)), observed.children)
    return replace(
        made,
        steps=[*made.steps, *step.steps],
        notes=[*made.notes, *step.notes],
        requeue_after=earliest(made.requeue_after, step.requeue_after),
        way_out=step.way_out,
    )


def _unsupported(service: Object) -> Plan:
    message = (
        f"this version of the operator can't expose a Service by a ProxyGroup: what runs for it stays as it is; remove "
        f"annotation {PROXY_GROUP} to give it a proxy of its own"
    )
    return Plan(
        status=not_ready(service, "NotSupportedYet", message), notes=[Note("Warning", "NotSupportedYet", message)]
    )


def _waiting_for_class(service: Object, problem: ClassProblem) -> Plan:
    if problem.is_passing:
        return Plan(whole=False)
    note = Note("Normal" if problem.reason == "ProxyPending" else "Warning", problem.reason, problem.message)
    return Plan(status=not_ready(service, note.reason, note.message), notes=[note])


def rewrites(plan: Plan, service: Object) -> bool:
    """Tell whether *plan* points *service* at its proxy."""
    patched = (step for step in plan.steps if isinstance(step, Patch))
    return any((step.resource, step.key) == (SERVICE, key_of(service)) for step in patched)


def _pointed(service: Object, proxy_name: str, made: Plan, ready: Object, reverts: Reverts, settings: Settings) -> Plan:
    """Return *made* with the steps that point an egress *service* at its proxy, unless *reverts* say to wait.

    *ready* is the condition if no other writer reverts the Service.
    """
    notes = list(made.notes)
    if reverts.fields:
        message = egress.overwritten(reverts, proxy_name)
        notes.append(Note("Warning", "ExternalNameOverwritten", message))
        if reverts.settles:
            ready = condition(CONDITION_PROXY_READY, False, "ProxyPending", message)
    return replace(
        egress.pointed(service, proxy_name, made, reverts, settings),
        status=_with_condition(service, ready) | {"loadBalancer": {}},
        notes=notes,
        requeue_after=earliest(reverts.wait or reverts.settles or None, made.requeue_after),
    )


def plan_deletion(service: Object, observed: Observed) -> Plan:
    """Return the next step of removing what was made for *service*.

    The finalizer stays until nothing is left, and no ProxyGroup's ConfigMap has an entry for the Service.
    """
    held, places = not holds_nothing(service, observed.children), observed.places
    step = plan_removal(owner(key_of(service)), observed.children) if held else Plan()
    if not places.is_empty:
        rest = earliest(step.requeue_after, _STILL_THERE)
        step = replace(step, steps=[*removal(places), *step.steps], release="", requeue_after=rest)
    if hanging := [pod for pod in awaited_pods(observed.children) if uid(pod) in observed.children.overdue]:
        return replace(step, status=not_ready(service, TERMINATING, removal_message(hanging)))
    if is_deleting(service):
        return replace(step, notes=(*step.notes, *unsupported.blocked_notes(service, hostname(service))))
    status = service.get("status") or {}
    if exposure.shows(service, proxy_device(observed.children)):
        # This comes before the Secret is deleted, because only the Secret tells that the device shown is ours.
        return replace(Plan() if step.release else step, status={**status, "loadBalancer": {}})
    if "conditions" not in status or not places.is_empty or (held and not step.release):
        return step
    left = grouped.without_conditions(remove_condition(status["conditions"], CONDITION_PROXY_READY))
    return step if left == status["conditions"] else replace(step, status={**status, "conditions": left})


def failed(service: Object, refusal: Refusal) -> Plan:
    """Return the plan that says on *service* why nothing could be made for it, and tries again."""
    if annotations(service).get(PROXY_GROUP) and egress.asks(service):
        return grouped.failed(service, refusal)
    reason = refusal.reason or "ProxyFailed"
    return Plan(
        status=not_ready(service, reason, refusal.message),
        notes=[Note("Warning", reason, refusal.message)],
        error=refusal.error,
    )


def not_ready(service: Object, reason: str, message: str) -> Object:
    """Return the status that says why *service* has no working proxy."""
    return _with_condition(service, condition(CONDITION_PROXY_READY, False, reason, message))


def _with_condition(service: Object, wanted: Object) -> Object:
    status = service.get("status") or {}
    return {**status, "conditions": set_condition(status.get("conditions") or [], [wanted], now="")}
