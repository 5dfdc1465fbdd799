"""Makes the plan for an Ingress: decides which children, status and Events it should have."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

from tsoperator.api.names import ANNOTATION_DEFAULT_INGRESS_CLASS, ANNOTATION_TAGS, INGRESS_CONTROLLER
from tsoperator.api.objects import Object, annotations, is_deleting
from tsoperator.api.rules import dns_label_error, tag_error
from tsoperator.group.hosted import Hosting
from tsoperator.proxy import advice
from tsoperator.proxy.certificate import News, ObservedCertificate, news
from tsoperator.proxy.classref import accepts_routes, chosen_class
from tsoperator.proxy.devices import OWN_TAILNET, TailnetView
from tsoperator.proxy.findings import with_findings
from tsoperator.proxy.login import NO_KEYS, Keys
from tsoperator.proxy.proxy import Children, Proxy
from tsoperator.proxy.proxypod import served_ingress
from tsoperator.proxy.secret import ReportedDevice, hostname_of
from tsoperator.proxy.tailscaled import ProxyConfig
from tsoperator.proxy.workload import (
    awaits_keys,
    holds_nothing,
    plan_proxy,
    plan_removal,
    proxy_device,
    proxy_devices,
    proxy_key,
)
from tsoperator.reconcilers.ingress.ask import Ask, IngressMode
from tsoperator.reconcilers.ingress.grouped import NOWHERE, AtGroups, blocked_notes, can_take_over, ended
from tsoperator.reconcilers.ingress.grouped import plan as grouped_plan
from tsoperator.reconcilers.ingress.notices import class_notes, ignored_notes
from tsoperator.reconcilers.ingress.serve import reached_notes, renamed_notes, serving
from tsoperator.runtime.ownership import first
from tsoperator.runtime.plan import Note, Plan, Refusal, earliest
from tsoperator.settings import Settings

_TOGETHER = 2.0  # s for which the operator waits for the Services of a new Ingress
_UNSEEN = 60.0  # s until another look at an Ingress whose backends the operator could not see
_LABEL_MAX = 63  # characters of a label's value: children carry their parent's name


@dataclass(frozen=True, slots=True)
class Observed:
    """The facts on which an Ingress's plan depends, besides the Ingress itself.

    *services* are the Services of its namespace that it names. *knows_services* is True if the operator sees the
    Services of that namespace. *certificate* is None if the Ingress needs no certificate. *class_exists* is True if
    the IngressClass that the Ingress names exists. *names_ingresses* is True if the DNSConfig gives all Ingresses
    names in the cluster's DNS. *age* is the age of the Ingress in seconds; it can be below 0 if the clocks differ.
    *at_groups* are the facts about the Ingress and its ProxyGroups.
    """

    children: Children
    services: Mapping[str, Object]
    proxy_class: Object | None = None
    certificate: ObservedCertificate | None = None
    tailnet: TailnetView = OWN_TAILNET
    knows_services: bool = True
    class_exists: bool = False
    names_ingresses: bool = False
    age: float = inf
    at_groups: AtGroups = NOWHERE

    @property
    def has_proxy(self) -> bool:
        """True if the Ingress has a proxy."""
        return bool(self.children.statefulsets or self.children.secrets)


@dataclass(frozen=True, slots=True)
class ProxyIdentity:
    """The *hostname* and the *tags* for the proxy's device.

    The *warnings* say what is wrong with the hostname and the tags in the Ingress. If there are any, a new Ingress gets
    no proxy. An existing proxy stays as it is, because the Go operator accepts more than we do.
    """

    hostname: str
    tags: Sequence[str]
    warnings: Sequence[Note]


def class_warning(ingress_class: Object | None, name: str) -> str:
    """Return a warning about what is wrong with *ingress_class*, which is called *name*; empty if nothing is.

    *ingress_class* is None if there is no such IngressClass.
    """
    if ingress_class is None:
        return (
            f"there is no IngressClass {name}: Ingresses that name it are served, but tools may not know it; create it"
        )
    controller = (ingress_class.get("spec") or {}).get("controller")
    if controller != INGRESS_CONTROLLER:
        return (
            f"IngressClass {name} is of controller {controller}, not {INGRESS_CONTROLLER}: that one may serve the same "
            "Ingresses; give it a class of its own, and this operator another by OPERATOR_INGRESS_CLASS_NAME"
        )
    if annotations(ingress_class).get(ANNOTATION_DEFAULT_INGRESS_CLASS):
        return (
            f"IngressClass {name} is marked as the default by {ANNOTATION_DEFAULT_INGRESS_CLASS}: the operator serves "
            "only Ingresses whose spec.ingressClassName names it, and the API server may set that where it is missing"
        )
    return ""


def wanted(ask: Ask, observed: Observed, settings: Settings) -> Proxy | Plan:
    """Return the proxy that an Ingress should have, or a plan if there should be no proxy.

    There is a plan if the Ingress is being deleted, or can't be served. If it can't be served, a running proxy
    stays as it is.
    """
    if is_deleting(ask.ingress):
        return plan_deletion(ask, observed)
    if ask.mode is IngressMode.NOTHING:
        found = class_notes(ask, settings.ingress_class, class_exists=observed.class_exists)
        return plan_deletion(ask, observed, found)
    if not observed.knows_services:
        return Plan(requeue_after=_UNSEEN, whole=False)
    missing = {*ask.backends} - observed.services.keys()
    is_early = bool(missing) and 0 <= observed.age < _TOGETHER and not observed.has_proxy
    hosting = observed.at_groups.hosting
    if hosting and (not observed.has_proxy or can_take_over(ask, hosting, observed.services)):
        return _grouped(ask, hosting, observed, settings, is_early=is_early)
    if is_early or (ask.is_held and observed.at_groups.left and not observed.has_proxy):
        return Plan(requeue_after=_TOGETHER if is_early else None)
    identity = _identity(ask, observed)
    too_long = _too_long(ask)
    blocked = blocked_notes(hosting) if hosting else []
    notes = [*blocked, *too_long, *identity.warnings, *ignored_notes(ask)]
    is_refused = too_long or (identity.warnings and not observed.has_proxy)
    chosen = chosen_class(ask.ingress, observed.proxy_class, settings.proxy_class)
    if isinstance(chosen, Refusal) and not chosen.is_passing:
        notes.append(Note("Warning", chosen.reason, chosen.message))
    served = serving(ask, observed.services)
    if served.config is None:
        message = "no backend can be served: give a default backend or a path whose Service exists"
        return Plan(notes=[*notes, *served.notes, Note("Warning", "NoValidBackends", message)])
    if is_refused or isinstance(chosen, Refusal):
        return Plan(notes=notes, whole=not isinstance(chosen, Refusal))
    by_default = observed.names_ingresses and not ask.is_opted_out
    forward = by_default if ask.takes_cluster_traffic is None else ask.takes_cluster_traffic
    return Proxy(
        owner=ask.owner,
        parent_uid=ask.uid,
        key=proxy_key(ask.owner, ask.uid, observed.children, settings),
        pod=served_ingress(forward_cluster_traffic=forward),
        config=ProxyConfig(
            identity.hostname, observed.tailnet.login_url, served.config, accept_routes=accepts_routes(chosen)
        ),
        tags=identity.tags,
        magic_dns_name="" if ask.is_opted_out else _magic_dns_name(proxy_device(observed.children)),
        proxy_class=chosen,
        notes=[*notes, *served.notes],
    )


def plan(
    ask: Ask, wanted: Proxy | Plan, observed: Observed, settings: Settings, keys: Keys | Refusal = NO_KEYS
) -> Plan:
    """Return the plan for an Ingress.

    *wanted* is the result of the function `wanted`, and *keys* are the auth keys of the replicas.
    """
    made = wanted if isinstance(wanted, Plan) else _proxied(ask, wanted, observed, settings, keys)
    return made if ask.mode is IngressMode.GROUP else ended(ask, observed.at_groups, made)


def _grouped(ask: Ask, hosting: Hosting, observed: Observed, settings: Settings, *, is_early: bool) -> Plan:
    """Return the plan for an Ingress that a ProxyGroup should serve. The plan removes the Ingress's own proxy first.

    If this reconcile *is_early*, the plan reports nothing about backends, because the user can have created the Ingress
    a moment before its Services.
    """
    services = None if is_early else observed.services
    made = grouped_plan(ask, hosting, observed.at_groups, services, observed.certificate, settings)
    if is_early:
        made = replace(made, requeue_after=earliest(made.requeue_after, _TOGETHER))
    if holds_nothing(ask.ingress, observed.children):
        return made
    # The Ingress makes its claim once the device is gone, because the device has the name of the Tailscale Service.
    step = plan_removal(ask.owner, observed.children)
    again = earliest(made.requeue_after, step.requeue_after)
    return replace(step, status=made.status, notes=[*step.notes, *made.notes], requeue_after=again)


def _proxied(ask: Ask, wanted: Proxy, observed: Observed, settings: Settings, keys: Keys | Refusal) -> Plan:
    """Return the plan for an Ingress that should have the proxy *wanted*."""
    if isinstance(keys, Refusal):
        return failed(ask, observed, keys)
    if awaits_keys(keys, observed.children):
        return Plan(error=keys.pending)
    devices = proxy_devices(wanted, observed.children, observed.tailnet, settings)
    made = plan_proxy(wanted, observed.children, settings, keys, devices)
    device = proxy_device(observed.children)
    certificate = news(observed.certificate) if observed.certificate else News()
    policy = advice.funnel_notes(made, wanted.tags) if ask.funnels else []
    status = _status(ask, device)
    told = [*_device_notes(ask, device), *policy, *certificate.notes]
    complete = replace(
        made,
        status=status,
        notes=[*made.notes, *told, *reached_notes(ask, status, device.ips if device else ())],
        requeue_after=earliest(made.requeue_after, certificate.requeue_after),
    )
    return with_findings(complete, devices.findings)


def plan_deletion(ask: Ask, observed: Observed, notes: Sequence[Note] = ()) -> Plan:
    """Return the plan with the next step of removing the children of an Ingress, and with these *notes*."""
    if holds_nothing(ask.ingress, observed.children):
        return Plan(notes=notes)
    step = plan_removal(ask.owner, observed.children)
    step = replace(step, notes=(*step.notes, *notes))
    if not step.release or is_deleting(ask.ingress):
        return step
    device = proxy_device(observed.children)
    ours = device is not None and ask.shown_name in (device.fqdn, device.https_name)
    return replace(step, status=_status(ask, None)) if ours else step


def failed(_ask: Ask, _observed: Observed, refusal: Refusal) -> Plan:
    """Return the plan that tells the user of an Ingress why its proxy could not be made. The operator tries again."""
    return Plan(notes=[refusal.note("ProxyFailed")], error=refusal.error)


def _too_long(ask: Ask) -> list[Note]:
    """Return an Event if the name of an Ingress is too long for the labels of its children.

    No operator can have served such an Ingress.
    """
    if len(name := ask.key.name) <= _LABEL_MAX:
        return []
    words = f"its name must have at most {_LABEL_MAX} characters, not {len(name)}: make it anew with another"
    return [Note("Warning", "InvalidName", words)]


def _identity(ask: Ask, observed: Observed) -> ProxyIdentity:
    """Return the hostname and the tags for the device of an Ingress, with warnings about those in the Ingress."""
    name, given = ask.hostname, ask.tags
    warnings: list[Note] = []
    if error := dns_label_error(name):
        secret = first(observed.children.secrets)
        kept = hostname_of(secret) if secret else ""
        until = f"; until then the proxy keeps the hostname {kept}" if kept else ""
        words = f"the hostname {error}: set another by spec.tls[0].hosts[0]{until}"
        warnings.append(Note("Warning", "InvalidHostname", words))
        name = kept or name
    wrong = [error for tag in given if (error := tag_error(tag))]
    if wrong:
        reported = proxy_device(observed.children)
        device = observed.tailnet.devices.get(reported.id) if reported else None
        until = "; until then its device keeps its tags" if observed.has_proxy else ""
        warnings += [Note("Warning", "InvalidTags", f"annotation {ANNOTATION_TAGS}: {each}{until}") for each in wrong]
        given = device.tags if device else given
    return ProxyIdentity(name, given, warnings)


def _magic_dns_name(device: ReportedDevice | None) -> str:
    """Return the HTTPS name that the proxy reports; empty if it has no device, or can't serve HTTPS.

    If the proxy has just restarted and not reported that name yet, return the name of its device.
    """
    if device is None or device.serves_no_https:
        return ""
    return device.https_name or device.fqdn


def _device_notes(ask: Ask, device: ReportedDevice | None) -> list[Note]:
    """Return an Event if an Ingress is served under another name than its host, or not by HTTPS."""
    notes = renamed_notes(ask, device.https_name if device else "")
    if device and device.serves_no_https:
        notes.append(advice.no_https(device, "HTTPS Ingress"))
    return notes


def _status(ask: Ask, device: ReportedDevice | None) -> Object:
    if device is None or not device.https_name:
        return {**ask.status, "loadBalancer": {}}
    ports = [{"port": port, "protocol": "TCP"} for port in ((443, 80) if ask.redirects else (443,))]
    return {**ask.status, "loadBalancer": {"ingress": [{"hostname": device.https_name, "ports": ports}]}}
