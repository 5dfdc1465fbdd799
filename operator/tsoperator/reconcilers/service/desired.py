"""Decides what a Service needs that leaves the cluster or is exposed to the tailnet (standalone-proxies.md 5)."""

from collections.abc import Mapping, Sequence
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
from tsoperator.desired.classref import accepts_routes, class_problem, class_spec, is_changing
from tsoperator.desired.findings import Effect
from tsoperator.desired.plan import Note, Patch, Plan
from tsoperator.desired.proxy import Children, Proxy, plan_proxy, plan_removal, proxy_device, proxy_key, proxy_problem
from tsoperator.desired.tailscaled import ProxyConfig
from tsoperator.reconcilers.service import egress, exposure, group
from tsoperator.reconcilers.service.rewrites import PEACE, Rivalry
from tsoperator.settings import Settings

DEVICE_REASONS = {Effect.PENDING: "ProxyPending", Effect.FAILED: "ProxyFailed"}
"""Those of the condition, by what is found of the device."""


@dataclass(frozen=True, slots=True)
class Observed:
    """What a Service's plan depends on besides the Service."""

    children: Children
    proxy_class: Object | None = None
    rivalry: Rivalry = PEACE


def owner(key: Key) -> Owner:
    """Return the owner of the children of the Service named *key*."""
    return Owner(PARENT_SERVICE, key)


def is_leaving(service: Object, settings: Settings) -> bool:
    """Tell whether what we made for *service* has to go: it asks for no proxy of its own."""
    asks = egress.asks(service) or exposure.asks(service, settings)
    return is_deleting(service) or PROXY_GROUP in annotations(service) or not asks


def violations(service: Object, settings: Settings) -> list[str]:
    """Return what is wrong with *service*, each as a sentence's part with the words to mend it (5.5)."""
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


def proxy(service: Object, settings: Settings, proxy_class: Object | None = None) -> Proxy:
    """Return the proxy that a valid *service* should have, *proxy_class* the class that it names.

    To be exposed comes before egress.
    """
    spec = class_spec(proxy_class)
    exposed = exposure.asks(service, settings)
    serve_config = exposure.serve_config(service, settings) if exposed else None
    return Proxy(
        owner=owner(key_of(service)),
        parent_uid=uid(service),
        target=exposure.target(service, settings) if exposed else egress.target(service),
        config=ProxyConfig(hostname(service), settings.control_url, serve_config, accept_routes=accepts_routes(spec)),
        tags=tags(service, settings),
        magic_dns_name="" if exposed else egress.magic_dns_name(service),
        proxy_class=spec,
    )


def refusal(service: Object, observed: Observed, settings: Settings) -> Plan | None:
    """Return the plan for a Service that can't be served as it is; None if it can. What runs stays as it is."""
    if wrong := violations(service, settings):
        message = f"unable to provision proxy resources: invalid Service: {', '.join(wrong)}"
        status = not_ready(service, "ProxyInvalid", message)
        return Plan(status=status, notes=[Note("Warning", "INVALIDSERVICE", message)])
    if problem := class_problem(service, observed.proxy_class, settings.proxy_class):
        if is_changing(observed.proxy_class):  # which is no news, and over in a moment
            return Plan()
        return Plan(status=not_ready(service, problem.reason, problem.message))
    return None


def plan(service: Object, observed: Observed, settings: Settings, auth_keys: Mapping[int, str]) -> Plan:
    """Return what *service*, which `refusal` has nothing against, needs; *auth_keys* are by replica."""
    wanted = proxy(service, settings, observed.proxy_class)
    made = plan_proxy(wanted, observed.children, settings, auth_keys)
    problem = proxy_problem(wanted, observed.children, auth_keys)
    pending = condition(CONDITION_PROXY_READY, False, "ProxyPending", problem) if problem else None
    if exposure.asks(service, settings):
        device = proxy_device(observed.children)
        shown = exposure.shown(service, device, settings)
        status = _with_condition(service, pending or shown.condition)
        if shown.entries is not None or exposure.shows(service, device):
            status["loadBalancer"] = exposure.load_balancer(service, shown.entries or ())
        policy = exposure.policy_notes(service, made, settings, wanted.tags)
        return replace(made, status=status, notes=[*made.notes, *shown.notes, *policy])
    name = proxy_key(wanted, observed.children, settings).name
    told = pending or condition(CONDITION_PROXY_READY, True, "ProxyCreated", "ProxyCreated")
    return _pointed(service, name, made, told, observed.rivalry, settings)


def rewrites(plan: Plan, service: Object) -> bool:
    """Tell whether *plan* points *service* at its proxy."""
    patched = (step for step in plan.apply if isinstance(step, Patch))
    return any((step.resource, step.key) == (SERVICE, key_of(service)) for step in patched)


def _pointed(service: Object, proxy_name: str, made: Plan, told: Object, rivalry: Rivalry, settings: Settings) -> Plan:
    """Return *made* with what points an egress *service* at its proxy, as far as a *rivalry* lets it; *told* is the
    condition where there is none.
    """
    notes = list(made.notes)
    if rivalry.fields:
        message = egress.overwritten(rivalry, proxy_name)
        notes.append(Note("Warning", "ExternalNameOverwritten", message))
        if rivalry.settles:
            told = condition(CONDITION_PROXY_READY, False, "ProxyPending", message)
    pauses = [pause for pause in (rivalry.wait or rivalry.settles, made.requeue_after) if pause]
    return replace(
        made,
        apply=[*made.apply, *([] if rivalry.wait else egress.rewrite(service, proxy_name, settings))],
        status=_with_condition(service, told) | {"loadBalancer": {}},
        notes=notes,
        requeue_after=min(pauses, default=None),
    )


def plan_deletion(service: Object, observed: Observed) -> Plan:
    """Return the next step of taking away what was made for *service*, but for what a ProxyGroup made for it."""
    held = has_finalizer(service, FINALIZER)
    removal = plan_removal(observed.children) if held else Plan()
    step = group.without_the_groups(service, observed.children, removal)
    if is_deleting(service):
        return step
    status = service.get("status") or {}
    if exposure.shows(service, proxy_device(observed.children)):
        # Before the Secret goes, which alone tells that the device shown is ours.
        return replace(Plan() if removal.release else step, status={**status, "loadBalancer": {}})
    if "conditions" not in status or (held and not removal.release) or (step.release and group.is_grouped(service)):
        return step  # beside a ProxyGroup's annotation the condition tells that the finalizer is ours: it goes last
    left = remove_condition(status["conditions"], CONDITION_PROXY_READY)
    return step if left == status["conditions"] else replace(step, status={**status, "conditions": left})


def failed(service: Object, message: str, reason: str = "") -> Plan:
    """Return the plan that says why nothing could be made for *service*; it is tried again."""
    named = reason or "ProxyFailed"
    return Plan(status=not_ready(service, named, message), notes=[Note("Warning", named, message)])


def not_ready(service: Object, reason: str, message: str) -> Object:
    """Return the status that says why *service* has no working proxy."""
    return _with_condition(service, condition(CONDITION_PROXY_READY, False, reason, message))


def _with_condition(service: Object, wanted: Object) -> Object:
    status = service.get("status") or {}
    return {**status, "conditions": set_condition(status.get("conditions") or [], [wanted], now="")}
