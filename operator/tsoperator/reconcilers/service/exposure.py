"""Exposed Services: which ask for it, where their proxies lead, and what they show (standalone-proxies.md 5).

A proxy forwards to one address family only, that of the Service's first cluster IP.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address

from tsoperator.api.conditions import condition
from tsoperator.api.names import ANNOTATION_EXPOSE, CONDITION_PROXY_READY, LOAD_BALANCER_CLASS
from tsoperator.api.objects import Object, annotations
from tsoperator.api.rules import is_true
from tsoperator.desired import advice
from tsoperator.desired.plan import Note, Plan
from tsoperator.desired.proxypod import ProxyPod, exposed_ip, exposed_name, served_service
from tsoperator.desired.secret import ReportedDevice
from tsoperator.reconcilers.service import egress, funnel
from tsoperator.settings import Settings


@dataclass(frozen=True, slots=True)
class Shown:
    """What a Service shows of its proxy: a condition, the load balancer's entries (None if it isn't ours), Events."""

    condition: Object
    entries: Sequence[Object] | None = ()
    notes: Sequence[Note] = ()


def asks(service: Object, settings: Settings) -> bool:
    """Tell whether *service* asks to be reachable from the tailnet; a headless one may ask, but can't be exposed."""
    spec = service["spec"]
    exposed = is_true(annotations(service).get(ANNOTATION_EXPOSE))
    by_name = exposed and spec.get("type") == "ExternalName" and bool(spec.get("externalName"))
    return by_name or (bool(spec.get("clusterIP")) and (exposed or _is_balanced(service, settings)))


def violations(service: Object, settings: Settings) -> list[str]:
    """Return why *service* can't be exposed, though it asks for that."""
    if egress.is_rewritten(service, settings):
        return [
            f"spec.externalName {service['spec']['externalName']} is this Service's own proxy, from when it led to the "
            "tailnet: set spec.type to ClusterIP and a selector, or spec.externalName to what is to be exposed"
        ]
    return funnel.violations(service) if _is_public(service, settings) else []


def pod(service: Object, settings: Settings) -> ProxyPod:
    """Return the Pods of the proxy of a valid *service*."""
    if _is_public(service, settings):
        return served_service()
    spec = service["spec"]
    return exposed_ip(spec["clusterIP"]) if spec.get("clusterIP") else exposed_name(spec["externalName"])


def serve_config(service: Object, settings: Settings) -> Object | None:
    """Return what the proxy is told to serve; None if it forwards everything."""
    return funnel.serve_config(service) if _is_public(service, settings) else None


def shown(service: Object, device: ReportedDevice | None, settings: Settings) -> Shown:
    """Return what *service* shows while its proxy reports *device*."""
    if not _is_balanced(service, settings):
        return Shown(_ready(), None, (funnel.ignored(),) if funnel.asks(service) else ())
    if funnel.asks(service):
        return _public(device)
    if device is None or not device.fqdn:
        return Shown(_pending("the proxy has not joined the tailnet yet: no hostname is known"))
    version = _version(service["spec"]["clusterIP"])
    ips = [ip for ip in device.ips if _version(ip) == version != 0]
    return Shown(_ready(), ({"hostname": device.fqdn}, *({"ip": ip} for ip in ips)))


def _public(device: ReportedDevice | None) -> Shown:
    """Return what a Service with Funnel shows: only the name, because the Internet can't use tailnet addresses."""
    if device is not None and device.serves_no_https:
        note = advice.no_https(device, "Funnel")
        pending = note.reason if note.reason == advice.UNSUPPORTED else "ProxyPending"
        return Shown(_not_ready(pending, note.message), notes=(note,))
    if device is None or not device.https_name:
        return Shown(_pending("the proxy does not serve HTTPS yet: no hostname is known"))
    return Shown(_ready(), ({"hostname": device.https_name},))


def policy_notes(service: Object, made: Plan, settings: Settings, tags: Sequence[str]) -> list[Note]:
    """Return what the policy must say, if *made* writes what the proxy of *service* serves; the proxy has *tags*."""
    return advice.funnel_notes(made, tags) if _is_public(service, settings) else []


def load_balancer(service: Object, entries: Sequence[Object]) -> Object:
    """Return the ``loadBalancer`` of a status that shows *entries*.

    This is the live one if it differs only by defaults of the API server.
    """
    there: Object = (service.get("status") or {}).get("loadBalancer") or {}
    plain = [{name: value for name, value in entry.items() if name != "ipMode"} for entry in there.get("ingress") or ()]
    if plain == [*entries]:
        return there
    return {"ingress": [*entries]} if entries else {}


def shows(service: Object, device: ReportedDevice | None) -> bool:
    """Tell whether the status of *service* shows *device*; only then may we clear its load balancer."""
    if device is None:
        return False
    ours = {device.fqdn, device.https_name, *device.ips} - {""}
    entries = ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()
    return any({entry.get("hostname"), entry.get("ip")} & ours for entry in entries)


def _is_balanced(service: Object, settings: Settings) -> bool:
    spec = service["spec"]
    class_ = spec.get("loadBalancerClass")
    ours = class_ == LOAD_BALANCER_CLASS or (class_ is None and settings.default_load_balancer)
    return ours and spec.get("type") == "LoadBalancer"


def _is_public(service: Object, settings: Settings) -> bool:
    return funnel.asks(service) and _is_balanced(service, settings)


def _version(ip: str) -> int:
    """Return the IP version of an address; 0 if it isn't an address."""
    try:
        return ip_address(ip).version
    except ValueError:
        return 0


def _ready() -> Object:
    return condition(CONDITION_PROXY_READY, True, "ProxyCreated", "ProxyCreated")


def _pending(message: str) -> Object:
    return _not_ready("ProxyPending", message)


def _not_ready(reason: str, message: str) -> Object:
    return condition(CONDITION_PROXY_READY, False, reason, message)
