"""Decides what an Ingress needs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

from tsoperator.api.names import (
    ANNOTATION_DEFAULT_INGRESS_CLASS,
    ANNOTATION_FORWARD_CLUSTER_TRAFFIC,
    ANNOTATION_TAGS,
    INGRESS_CONTROLLER,
    PARENT_INGRESS,
)
from tsoperator.api.objects import Key, Object, annotations, is_deleting, key_of, uid
from tsoperator.api.rules import dns_label_error, is_true, split_tags, tag_error
from tsoperator.dns.clusternames import is_opted_out
from tsoperator.proxy import advice
from tsoperator.proxy.annotations import ignored
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
from tsoperator.reconcilers.ingress.certificate import News, ObservedCertificate, news
from tsoperator.reconcilers.ingress.notices import VOCABULARY, class_notes, group_notes
from tsoperator.reconcilers.ingress.serve import backend_names, funnels, redirects, serving, tls_host
from tsoperator.runtime import unsupported
from tsoperator.runtime.ownership import Owner, first
from tsoperator.runtime.plan import Note, Plan, Refusal, earliest
from tsoperator.settings import Settings

_TOGETHER = 2.0  # s for which a new Ingress may lack its Services; we may see them later
_UNSEEN = 60.0  # s until another look at an Ingress whose backends the operator could not see
_LABEL_MAX = 63  # characters of a label's value: children carry their parent's name


@dataclass(frozen=True, slots=True)
class Observed:
    """The facts on which an Ingress's plan depends besides the Ingress.

    *services* are the Services of its namespace that it names. *knows_services* is True if the operator sees the
    Services of that namespace. *certificate* is None if the Ingress needs no certificate. *class_exists* is True if the
    IngressClass that the Ingress names exists. *names_ingresses* is True if the DNSConfig gives all Ingresses names in
    the cluster's DNS. *age* is the age of the Ingress in seconds; it may be below 0 if the clocks differ.
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

    @property
    def has_proxy(self) -> bool:
        """Whether the Ingress has a proxy."""
        return bool(self.children.statefulsets or self.children.secrets)


@dataclass(frozen=True, slots=True)
class ProxyIdentity:
    """The *hostname* and the *tags* for the proxy's device.

    The *warnings* say what is wrong with the hostname and the tags in the Ingress. If there are any, a new Ingress gets
    no proxy. An existing proxy stays as it is, because the Go operator accepts more than we do.
    """

    hostname: str
    tags: Sequence[str]
    warnings: Sequence[Note] = ()


def owner(key: Key) -> Owner:
    """Return the owner of the children of the Ingress named *key*."""
    return Owner(PARENT_INGRESS, key)


def is_ours(ingress: Object, settings: Settings) -> bool:
    """Tell whether *ingress* is of our class."""
    return bool(ingress["spec"].get("ingressClassName") == settings.ingress_class)


def class_warning(ingress_class: Object | None, name: str) -> str:
    """Say what is wrong with the IngressClass called *name*; empty if nothing is."""
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


def hostname(ingress: Object) -> str:
    """Return the name that the proxy's device asks for: the first label of the TLS host."""
    key = key_of(ingress)
    return tls_host(ingress).partition(".")[0] or f"{key.namespace}-{key.name}-ingress"


def tags(ingress: Object, settings: Settings) -> Sequence[str]:
    """Return the tags of the proxy's device."""
    given = annotations(ingress).get(ANNOTATION_TAGS)
    return split_tags(given) if given else settings.proxy_tags


def wanted(ingress: Object, observed: Observed, settings: Settings) -> Proxy | Plan:
    """Return the proxy that *ingress* should have, or the plan for an Ingress that is leaving or can't be served.

    If it can't be served, a running proxy stays as it is.
    """
    if is_deleting(ingress):
        return plan_deletion(ingress, observed, unsupported.blocked_notes(ingress, hostname(ingress)))
    if not is_ours(ingress, settings):
        return plan_deletion(ingress, observed, class_notes(ingress, settings, class_exists=observed.class_exists))
    grouped = group_notes(ingress, has_proxy=observed.has_proxy)
    if grouped and not observed.has_proxy:
        return plan_deletion(ingress, observed, grouped)
    if not observed.knows_services:
        return Plan(requeue_after=_UNSEEN, whole=False)
    missing = {*backend_names(ingress)} - observed.services.keys()
    if missing and 0 <= observed.age < _TOGETHER and not observed.has_proxy:
        return Plan(requeue_after=_TOGETHER)
    identity = _identity(ingress, observed, settings)
    too_long = _too_long(ingress)
    notes = [*grouped, *too_long, *identity.warnings, *ignored(ingress, VOCABULARY)]
    is_refused = too_long or (identity.warnings and not observed.has_proxy)
    chosen = chosen_class(ingress, observed.proxy_class, settings.proxy_class)
    if isinstance(chosen, Refusal) and not chosen.is_passing:
        notes.append(Note("Warning", chosen.reason, chosen.message))
    served = serving(ingress, observed.services)
    if served.config is None:
        message = "no backend can be served: give a default backend or a path whose Service exists"
        return Plan(notes=[*notes, *served.notes, Note("Warning", "NoValidBackends", message)])
    if is_refused or isinstance(chosen, Refusal):
        return Plan(notes=notes, whole=not isinstance(chosen, Refusal))
    own = owner(key_of(ingress))
    forward = _takes_cluster_traffic(ingress, names_ingresses=observed.names_ingresses)
    return Proxy(
        owner=own,
        parent_uid=uid(ingress),
        key=proxy_key(own, uid(ingress), observed.children, settings),
        pod=served_ingress(forward_cluster_traffic=forward),
        config=ProxyConfig(
            identity.hostname, observed.tailnet.login_url, served.config, accept_routes=accepts_routes(chosen)
        ),
        tags=identity.tags,
        magic_dns_name="" if is_opted_out(ingress) else _magic_dns_name(proxy_device(observed.children)),
        proxy_class=chosen,
        notes=[*notes, *served.notes],
    )


def plan(
    ingress: Object, wanted: Proxy | Plan, observed: Observed, settings: Settings, keys: Keys | Refusal = NO_KEYS
) -> Plan:
    """Return the plan for *ingress*; *wanted* is from `wanted`, and *keys* are the auth keys of the replicas."""
    if isinstance(wanted, Plan):
        return wanted
    if isinstance(keys, Refusal):
        return failed(ingress, observed, keys)
    if awaits_keys(keys, observed.children):
        return Plan(error=keys.pending)
    devices = proxy_devices(wanted, observed.children, observed.tailnet, settings)
    made = plan_proxy(wanted, observed.children, settings, keys, devices)
    device = proxy_device(observed.children)
    certificate = news(observed.certificate) if observed.certificate else News()
    policy = advice.funnel_notes(made, wanted.tags) if funnels(ingress) else []
    complete = replace(
        made,
        status=_status(ingress, device),
        notes=[*made.notes, *_device_notes(ingress, device), *policy, *certificate.notes],
        requeue_after=earliest(made.requeue_after, certificate.requeue_after),
    )
    return with_findings(complete, devices.findings)


def plan_deletion(ingress: Object, observed: Observed, notes: Sequence[Note] = ()) -> Plan:
    """Return the plan with the next step of removing the children of *ingress*, and with these *notes*."""
    if holds_nothing(ingress, observed.children):
        return Plan(notes=notes)
    step = plan_removal(owner(key_of(ingress)), observed.children)
    step = replace(step, notes=(*step.notes, *notes))
    if not step.release or is_deleting(ingress):
        return step
    device = proxy_device(observed.children)
    shown = (((ingress.get("status") or {}).get("loadBalancer") or {}).get("ingress") or [{}])[0].get("hostname")
    ours = device is not None and shown in (device.fqdn, device.https_name)
    return replace(step, status=_status(ingress, None)) if ours else step


def failed(_ingress: Object, _observed: Observed, refusal: Refusal) -> Plan:
    """Return the plan that reports by an Event why the proxy of an Ingress could not be made, and tries again."""
    return Plan(notes=[Note("Warning", refusal.reason or "ProxyFailed", refusal.message)], error=refusal.error)


def _too_long(ingress: Object) -> list[Note]:
    """Return an Event if the name of *ingress* is too long for children's labels; no operator has served it then."""
    if len(name := key_of(ingress).name) <= _LABEL_MAX:
        return []
    words = f"its name must have at most {_LABEL_MAX} characters, not {len(name)}: make it anew with another"
    return [Note("Warning", "InvalidName", words)]


def _identity(ingress: Object, observed: Observed, settings: Settings) -> ProxyIdentity:
    """Return the hostname and the tags for the device of *ingress*, with warnings about those in the Ingress."""
    name, given = hostname(ingress), tags(ingress, settings)
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


def _takes_cluster_traffic(ingress: Object, *, names_ingresses: bool) -> bool:
    """Tell whether Pods may reach *ingress*: its annotation decides, or without one the DNSConfig for all."""
    given = annotations(ingress).get(ANNOTATION_FORWARD_CLUSTER_TRAFFIC)
    return is_true(given) if given is not None else names_ingresses and not is_opted_out(ingress)


def _magic_dns_name(device: ReportedDevice | None) -> str:
    """Return the HTTPS name that the proxy reports, or the name of its device until a restarted proxy reports it."""
    if device is None or device.serves_no_https:
        return ""
    return device.https_name or device.fqdn


def _device_notes(ingress: Object, device: ReportedDevice | None) -> list[Note]:
    """Return an Event if the host of *ingress* is served under another name, or not by HTTPS."""
    notes: list[Note] = []
    host = tls_host(ingress)
    if device and device.https_name and "." in host and host != device.https_name:
        message = (
            f"host {host} of spec.tls is served as {device.https_name}: names of the tailnet have its domain; its "
            f"certificate is of that name, so write {host.partition('.')[0]} to say so"
        )
        notes.append(Note("Warning", "IgnoredTLSHosts", message))
    if device and device.serves_no_https:
        notes.append(advice.no_https(device, "HTTPS Ingress"))
    return notes


def _status(ingress: Object, device: ReportedDevice | None) -> Object:
    status = ingress.get("status") or {}
    if device is None or not device.https_name:
        return {**status, "loadBalancer": {}}
    ports = [{"port": port, "protocol": "TCP"} for port in ((443, 80) if redirects(ingress) else (443,))]
    return {**status, "loadBalancer": {"ingress": [{"hostname": device.https_name, "ports": ports}]}}
