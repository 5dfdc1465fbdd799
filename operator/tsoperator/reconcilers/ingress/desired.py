"""Decides what an Ingress needs (standalone-proxies.md 6)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tsoperator.api.names import (
    ANNOTATION_DEFAULT_INGRESS_CLASS,
    ANNOTATION_FORWARD_CLUSTER_TRAFFIC,
    ANNOTATION_FUNNEL,
    ANNOTATION_HTTP_ENDPOINT,
    ANNOTATION_HTTP_REDIRECT,
    ANNOTATION_TAGS,
    FINALIZER,
    INGRESS_CONTROLLER,
    PARENT_INGRESS,
    PROXY_GROUP,
)
from tsoperator.api.objects import Key, Object, annotations, has_finalizer, is_deleting, key_of, uid
from tsoperator.api.rules import dns_label_error, is_true, split_tags, tag_error
from tsoperator.desired import advice
from tsoperator.desired.children import Owner
from tsoperator.desired.classref import accepts_routes, class_problem, class_spec, is_changing
from tsoperator.desired.plan import Note, Plan
from tsoperator.desired.proxy import Children, Proxy, plan_proxy, plan_removal, proxy_device
from tsoperator.desired.secret import ReportedDevice
from tsoperator.desired.statefulset import ServeIngress
from tsoperator.desired.tailscaled import ProxyConfig
from tsoperator.reconcilers.ingress.certificate import News, Seen, news
from tsoperator.reconcilers.ingress.serve import Serving, funnels, redirects, serving, tls_host
from tsoperator.settings import Settings

_LABEL_MAX = 63  # characters of a label's value: children carry their parent's name
_SWITCHES = (ANNOTATION_FUNNEL, ANNOTATION_HTTP_REDIRECT, ANNOTATION_FORWARD_CLUSTER_TRAFFIC)


@dataclass(frozen=True, slots=True)
class Observed:
    """What an Ingress's plan depends on besides the Ingress; *services* are those of its namespace that it names,
    *certificate* is None where there is to be none.
    """

    children: Children
    services: Mapping[str, Object]
    proxy_class: Object | None = None
    certificate: Seen | None = None


def owner(key: Key) -> Owner:
    """Return the owner of the children of the Ingress named *key*."""
    return Owner(PARENT_INGRESS, key)


def is_ours(ingress: Object, settings: Settings) -> bool:
    """Tell whether *ingress* is of our class and not served by a ProxyGroup."""
    ours: bool = ingress["spec"].get("ingressClassName") == settings.ingress_class
    return ours and not annotations(ingress).get(PROXY_GROUP)


def is_leaving(ingress: Object, settings: Settings) -> bool:
    """Tell whether what we made for *ingress* has to go."""
    return is_deleting(ingress) or not is_ours(ingress, settings)


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


def refusal(ingress: Object, observed: Observed, settings: Settings) -> Plan | None:
    """Return the plan for an Ingress that can't be served as it is; None if it can. What runs stays as it is."""
    notes: list[Note] = []
    if len(name := key_of(ingress).name) > _LABEL_MAX:
        words = f"its name must have at most {_LABEL_MAX} characters, not {len(name)}: make it anew with another"
        notes.append(Note("Warning", "InvalidName", words))
    if error := dns_label_error(hostname(ingress)):
        notes.append(Note("Warning", "InvalidHostname", f"the hostname {error}: set another by spec.tls[0].hosts[0]"))
    wrong_tags = [error for tag in tags(ingress, settings) if (error := tag_error(tag))]
    notes += [
        Note("Warning", "InvalidTags", f"invalid value of annotation {ANNOTATION_TAGS}: {error}")
        for error in wrong_tags
    ]
    problem = class_problem(ingress, observed.proxy_class, settings.proxy_class)
    if problem and not is_changing(observed.proxy_class):  # which is no news, and over in a moment
        notes.append(Note("Warning", problem.reason, problem.message))
    served = serving(ingress, observed.services)
    if served.config is None:
        message = "no backend can be served: give a default backend or a path whose Service exists"
        return Plan(notes=[*notes, *served.notes, Note("Warning", "NoValidBackends", message)])
    return Plan(notes=notes) if notes or problem else None


def proxy(ingress: Object, observed: Observed, settings: Settings) -> Proxy:
    """Return the proxy that *ingress* should have."""
    device = proxy_device(observed.children)
    proxy_class = class_spec(observed.proxy_class)
    serve_config = serving(ingress, observed.services).config
    forward = is_true(annotations(ingress).get(ANNOTATION_FORWARD_CLUSTER_TRAFFIC))
    return Proxy(
        owner=owner(key_of(ingress)),
        parent_uid=uid(ingress),
        target=ServeIngress(forward),
        config=ProxyConfig(
            hostname(ingress), settings.control_url, serve_config, accept_routes=accepts_routes(proxy_class)
        ),
        tags=tags(ingress, settings),
        magic_dns_name=_magic_dns_name(device),
        proxy_class=proxy_class,
    )


def plan(ingress: Object, observed: Observed, settings: Settings, auth_keys: Mapping[int, str]) -> Plan:
    """Return what *ingress*, which `refusal` has nothing against, needs; *auth_keys* are by replica."""
    device = proxy_device(observed.children)
    made = plan_proxy(proxy(ingress, observed, settings), observed.children, settings, auth_keys)
    told = news(observed.certificate) if observed.certificate else News()
    waits = [seconds for seconds in (made.requeue_after, told.look_again) if seconds is not None]
    policy = advice.funnel_notes(made, tags(ingress, settings)) if funnels(ingress) else []
    notes = [*made.notes, *_notes(ingress, serving(ingress, observed.services), device), *policy, *told.notes]
    return replace(made, status=_status(ingress, device), notes=notes, requeue_after=min(waits, default=None))


def plan_deletion(ingress: Object, observed: Observed) -> Plan:
    """Return the next step of taking away what was made for *ingress*."""
    if not has_finalizer(ingress, FINALIZER):
        return Plan()
    step = plan_removal(observed.children)
    if not step.release or is_deleting(ingress):
        return step
    device = proxy_device(observed.children)
    shown = (((ingress.get("status") or {}).get("loadBalancer") or {}).get("ingress") or [{}])[0].get("hostname")
    ours = device is not None and shown in (device.fqdn, device.https_name)
    return replace(step, status=_status(ingress, None)) if ours else step


def failed(_ingress: Object, message: str, reason: str = "") -> Plan:
    """Return the plan that says by an Event why nothing could be made for an Ingress; it is tried again."""
    return Plan(notes=[Note("Warning", reason or "ProxyFailed", message)])


def _magic_dns_name(device: ReportedDevice | None) -> str:
    """A proxy that starts again reports its HTTPS name anew: until then it keeps the name of its device."""
    if device is None or device.serves_no_https:
        return ""
    return device.https_name or device.fqdn


def _notes(ingress: Object, served: Serving, device: ReportedDevice | None) -> list[Note]:
    notes = [*served.notes, *_ignored_annotations(ingress)]
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


def _ignored_annotations(ingress: Object) -> Iterator[Note]:
    """Say which annotations of ours have no effect."""
    given = annotations(ingress)
    for name in _SWITCHES:
        if given.get(name, "true") not in ("true", "false"):
            words = f'annotation {name} is "{given[name]}", which turns nothing on: write "true", or remove it'
            yield Note("Warning", "IgnoredAnnotation", words)
    if ANNOTATION_HTTP_ENDPOINT in given:
        words = (
            f"annotation {ANNOTATION_HTTP_ENDPOINT} has no effect without a ProxyGroup: plain HTTP is answered with a "
            f"redirect to HTTPS if annotation {ANNOTATION_HTTP_REDIRECT} is true, else not at all"
        )
        yield Note("Warning", "IgnoredAnnotation", words)


def _status(ingress: Object, device: ReportedDevice | None) -> Object:
    status = ingress.get("status") or {}
    if device is None or not device.https_name:
        return {**status, "loadBalancer": {}}
    ports = [{"port": port, "protocol": "TCP"} for port in ((443, 80) if redirects(ingress) else (443,))]
    return {**status, "loadBalancer": {"ingress": [{"hostname": device.https_name, "ports": ports}]}}
