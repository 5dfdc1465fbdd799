"""Exposed Services: which ask for it, where their proxies lead, and what they show.

A proxy forwards to one address family only, that of the Service's first cluster IP.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address

from tsoperator.api import policy
from tsoperator.api.conditions import condition
from tsoperator.api.names import ANNOTATION_EXPOSE, CONDITION_PROXY_READY, LOAD_BALANCER_CLASS
from tsoperator.api.objects import Object, annotations
from tsoperator.api.rules import is_true
from tsoperator.dns.clusternames import Naming, Way, naming
from tsoperator.proxy import advice
from tsoperator.proxy.proxypod import ProxyPod, exposed_ip, exposed_name, served_service
from tsoperator.proxy.secret import ReportedDevice
from tsoperator.reconcilers.service import egress, funnel
from tsoperator.runtime.plan import Note, Plan
from tsoperator.settings import Settings


@dataclass(frozen=True, slots=True)
class Shown:
    """The proxy as its Service shows it: a condition, the load balancer's entries (None if it isn't ours), and Events.

    *news* are Events until the condition says them.
    """

    condition: Object
    entries: Sequence[Object] | None = ()
    notes: Sequence[Note] = ()
    news: Sequence[Note] = ()


def asks(service: Object, settings: Settings) -> bool:
    """Tell whether *service* asks to be reachable from the tailnet; a headless one may ask, but can't be exposed."""
    spec = service["spec"]
    exposed = is_true(annotations(service).get(ANNOTATION_EXPOSE))
    by_name = exposed and spec.get("type") == "ExternalName" and bool(spec.get("externalName"))
    return by_name or (bool(spec.get("clusterIP")) and (exposed or is_balanced(service, settings)))


def violations(service: Object, settings: Settings, *, is_public: bool = False) -> list[str]:
    """Return why *service* can't be exposed, though it asks for that.

    With *is_public* the Internet reaches it now. It must not lose that because of a port that Funnel can't serve.
    """
    if egress.is_rewritten(service, settings):
        return [
            f"spec.externalName {service['spec']['externalName']} is this Service's own proxy, from when it led to the "
            "tailnet: set spec.type to ClusterIP and a selector, or spec.externalName to what is to be exposed"
        ]
    funnels = is_public and funnel.asks(service) and is_balanced(service, settings)
    return funnel.violations(service) if funnels else []


def notices(service: Object, settings: Settings) -> list[Note]:
    """Return an Event if *service* asks for Funnel, but is no load balancer of ours."""
    if not funnel.asks(service) or is_balanced(service, settings):
        return []
    return [Note("Warning", "FunnelIgnored", funnel.NEEDS_BALANCER, once=True)]


def pod(service: Object, settings: Settings) -> ProxyPod:
    """Return the Pods of the proxy of a valid *service*."""
    if _is_public(service, settings):
        return served_service()
    spec = service["spec"]
    return exposed_ip(spec["clusterIP"]) if spec.get("clusterIP") else exposed_name(spec["externalName"])


def serve_config(service: Object, settings: Settings) -> Object | None:
    """Return what the proxy is told to serve; None if it forwards everything."""
    return funnel.serve_config(service) if _is_public(service, settings) else None


def cluster_naming(service: Object, settings: Settings) -> Naming:
    """Return where the name of a valid *service* leads in the cluster."""
    return naming(service, Way.TLS_SERVICE if _is_public(service, settings) else Way.FORWARDED)


def shown(service: Object, device: ReportedDevice | None, settings: Settings) -> Shown:
    """Return what *service* shows while its proxy reports *device*."""
    name = device.fqdn if device else ""
    if not is_balanced(service, settings):
        return _named(name)
    if _is_public(service, settings):
        return _public(service, device)
    if device is None or not name:
        return _pending("the proxy has not joined the tailnet yet: no hostname is known")
    version = _version(service["spec"]["clusterIP"])
    ips = [ip for ip in device.ips if _version(ip) == version != 0]
    return _balanced(service, name, ips)


def port_notices(service: Object) -> list[Note]:
    """Return an Event if an exposed *service* asks for Funnel, but has other ports than Funnel serves."""
    if not funnel.asks(service) or not (wrong := funnel.violations(service)):
        return []
    words = f"{'; '.join(wrong)}. Until then only the tailnet reaches the Service, at all of its ports"
    return [Note("Warning", "FunnelIgnored", words, once=True)]


def _public(service: Object, device: ReportedDevice | None) -> Shown:
    """Return what a Service with Funnel shows: only the name, because the Internet can't use tailnet addresses."""
    if device is not None and device.serves_no_https:
        note = advice.no_https(device, "Funnel")
        pending = note.reason if note.reason == policy.UNSUPPORTED else "ProxyPending"
        return Shown(_not_ready(pending, note.message), notes=(note,))
    if device is None or not device.https_name:
        return _pending("the proxy does not serve HTTPS yet: no hostname is known")
    return _balanced(service, device.https_name, ())


def _named(name: str) -> Shown:
    """Return what a Service shows whose status has no load balancer of ours: the proxy's *name* in its condition."""
    if not name:
        return Shown(_ready(), None)
    return Shown(_ready(_reached(name)), None, news=(Note("Normal", "ProxyCreated", _reached(name), once=True),))


def _balanced(service: Object, name: str, ips: Sequence[str]) -> Shown:
    """Return what a load balancer shows. Its name is in its status, and an Event until it is there."""
    entries = ({"hostname": name}, *({"ip": ip} for ip in ips))
    is_shown = any(entry.get("hostname") == name for entry in _entries(service))
    return Shown(_ready(), entries, () if is_shown else (Note("Normal", "ProxyCreated", _reached(name)),))


def _reached(name: str) -> str:
    return f"it is reached in the tailnet as {name}"


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
    return any({entry.get("hostname"), entry.get("ip")} & ours for entry in _entries(service))


def _entries(service: Object) -> Sequence[Object]:
    return ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()


def is_balanced(service: Object, settings: Settings) -> bool:
    """Tell whether *service* is a load balancer of our class."""
    spec = service["spec"]
    class_ = spec.get("loadBalancerClass")
    ours = class_ == LOAD_BALANCER_CLASS or (class_ is None and settings.default_load_balancer)
    return ours and spec.get("type") == "LoadBalancer"


def _is_public(service: Object, settings: Settings) -> bool:
    """Tell whether the Internet is to reach *service*. Otherwise the tailnet reaches it, at any port."""
    return funnel.asks(service) and is_balanced(service, settings) and not funnel.violations(service)


def _version(ip: str) -> int:
    """Return the IP version of an address; 0 if it isn't an address."""
    try:
        return ip_address(ip).version
    except ValueError:
        return 0


def _ready(message: str = "ProxyCreated") -> Object:
    return condition(CONDITION_PROXY_READY, True, "ProxyCreated", message)


def _pending(message: str) -> Shown:
    return Shown(_not_ready("ProxyPending", message), notes=(Note("Normal", "ProxyPending", message),))


def _not_ready(reason: str, message: str) -> Object:
    return condition(CONDITION_PROXY_READY, False, reason, message)
