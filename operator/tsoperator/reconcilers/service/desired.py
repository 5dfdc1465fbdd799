"""Decides what an egress Service or an exposed Service needs (standalone-proxies.md 5)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tsoperator.api.conditions import condition, remove_condition, set_condition
from tsoperator.api.names import (
    ANNOTATION_HOSTNAME,
    ANNOTATION_TAGS,
    CONDITION_PROXY_READY,
    FINALIZER,
    PARENT_SERVICE,
    PROXY_GROUP,
)
from tsoperator.api.objects import SERVICE, Key, Object, annotations, has_finalizer, is_deleting, key_of, uid
from tsoperator.api.rules import dns_label_error, split_tags, tag_error
from tsoperator.desired.children import Owner
from tsoperator.desired.classref import ClassProblem, accepts_routes, chosen_class
from tsoperator.desired.devices import OWN_TAILNET, TailnetView
from tsoperator.desired.findings import Effect, with_findings
from tsoperator.desired.login import NO_KEYS, Keys
from tsoperator.desired.plan import Note, Patch, Plan, Refusal, earliest
from tsoperator.desired.proxy import (
    Children,
    Proxy,
    plan_proxy,
    plan_removal,
    proxy_device,
    proxy_devices,
    proxy_key,
    proxy_problem,
)
from tsoperator.desired.tailscaled import ProxyConfig
from tsoperator.reconcilers.service import egress, exposure, group
from tsoperator.reconcilers.service.rewrites import NO_REVERTS, Reverts
from tsoperator.settings import Settings

DEVICE_REASONS = {Effect.PENDING: "ProxyPending", Effect.FAILED: "ProxyFailed"}
"""The reasons of the condition, by the effect of a finding about the device."""


@dataclass(frozen=True, slots=True)
class Observed:
    """What a Service's plan depends on besides the Service."""

    children: Children
    proxy_class: Object | None = None
    tailnet: TailnetView = OWN_TAILNET
    reverts: Reverts = NO_REVERTS


def owner(key: Key) -> Owner:
    """Return the owner of the children of the Service named *key*."""
    return Owner(PARENT_SERVICE, key)


def is_leaving(service: Object, settings: Settings) -> bool:
    """Tell whether *service* asks for no proxy of its own, so that a proxy that was made for it has to go."""
    asks = egress.asks(service) or exposure.asks(service, settings)
    return is_deleting(service) or PROXY_GROUP in annotations(service) or not asks


def violations(service: Object, settings: Settings) -> list[str]:
    """Return what is wrong with *service*; each violation is part of a sentence, and says how to fix it (5.5)."""
    exposed = exposure.asks(service, settings)
    given = annotations(service)
    found: list[str] = []
    if service["spec"].get("clusterIP") == "None":
        found.append(
            "headless Services are not supported: use a Service "
            + ("with a cluster IP, which the proxy forwards to" if exposed else "of type ExternalName")
        )
    if exposed:
        found += exposure.violations(service, settings)
    found += egress.violations(service, settings.zones)
    if error := dns_label_error(hostname(service)):
        found.append(
            f"invalid value of annotation {ANNOTATION_HOSTNAME}: {error}"
            if ANNOTATION_HOSTNAME in given
            else f"the default hostname {error}: set annotation {ANNOTATION_HOSTNAME} to a shorter one"
        )
    if ANNOTATION_TAGS in given:
        found += [
            f"invalid value of annotation {ANNOTATION_TAGS}: {error}"
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
    """Return the proxy that *service* should have, or the plan for a Service that is leaving or can't have one."""
    if is_leaving(service, settings):
        return plan_deletion(service, observed)
    if wrong := violations(service, settings):
        message = f"unable to provision proxy resources: invalid Service: {', '.join(wrong)}"
        status = not_ready(service, "ProxyInvalid", message)
        return Plan(status=status, notes=[Note("Warning", "INVALIDSERVICE", message)])
    chosen = chosen_class(service, observed.proxy_class, settings.proxy_class)
    if isinstance(chosen, ClassProblem):
        return Plan() if chosen.is_passing else Plan(status=not_ready(service, chosen.reason, chosen.message))
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
        magic_dns_name="" if exposed else egress.magic_dns_name(service),
        proxy_class=chosen,
    )


def plan(
    service: Object, wanted: Proxy | Plan, observed: Observed, settings: Settings, keys: Keys | Refusal = NO_KEYS
) -> Plan:
    """Return what *service* needs; *wanted* is what `wanted` returned, *keys* are the auth keys of the replicas."""
    if isinstance(wanted, Plan):
        return wanted
    if isinstance(keys, Refusal):
        return failed(service, keys)
    devices = proxy_devices(wanted, observed.children, observed.tailnet, settings)
    made = plan_proxy(wanted, observed.children, settings, keys, devices)
    problem = proxy_problem(wanted, observed.children, keys)
    pending = condition(CONDITION_PROXY_READY, False, "ProxyPending", problem) if problem else None
    if exposure.asks(service, settings):
        shown = _exposed(service, wanted, made, pending, observed, settings)
    else:
        ready = pending or condition(CONDITION_PROXY_READY, True, "ProxyCreated", "ProxyCreated")
        shown = _pointed(service, wanted.key.name, made, ready, observed.reverts, settings)
    return with_findings(shown, devices.findings, condition=CONDITION_PROXY_READY, reasons=DEVICE_REASONS)


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
    return replace(made, status=status, notes=[*made.notes, *shown.notes, *policy])


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
        made,
        steps=[*made.steps, *([] if reverts.wait else egress.rewrite(service, proxy_name, settings))],
        status=_with_condition(service, ready) | {"loadBalancer": {}},
        notes=notes,
        requeue_after=earliest(reverts.wait or reverts.settles or None, made.requeue_after),
    )


def plan_deletion(service: Object, observed: Observed) -> Plan:
    """Return the next step of removing what was made for *service*, except for what a ProxyGroup made for it."""
    held = has_finalizer(service, FINALIZER)
    removal = plan_removal(owner(key_of(service)), observed.children) if held else Plan()
    step = group.without_the_groups(service, observed.children, removal)
    if is_deleting(service):
        return step
    status = service.get("status") or {}
    if exposure.shows(service, proxy_device(observed.children)):
        # This comes before the Secret is deleted, because only the Secret tells that the device shown is ours.
        return replace(Plan() if removal.release else step, status={**status, "loadBalancer": {}})
    if "conditions" not in status or (held and not removal.release) or (step.release and group.is_grouped(service)):
        return step  # the condition goes last: beside a ProxyGroup's annotation it tells that the finalizer is ours
    left = remove_condition(status["conditions"], CONDITION_PROXY_READY)
    return step if left == status["conditions"] else replace(step, status={**status, "conditions": left})


def failed(service: Object, refusal: Refusal) -> Plan:
    """Return the plan that says on *service* why nothing could be made for it, and tries again."""
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
