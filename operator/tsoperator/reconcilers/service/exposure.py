"""Exposed Services: the targets of their proxies, and the device that the status of a Service shows.

A proxy forwards connections of one IP version only, which is that of the Service's first cluster IP.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address

from tsoperator.api import policy
from tsoperator.api.conditions import condition
from tsoperator.api.names import CERT_DOMAIN, CONDITION_PROXY_READY
from tsoperator.api.objects import Object
from tsoperator.dns.clusternames import Naming, Way, naming
from tsoperator.proxy import advice
from tsoperator.proxy.proxypod import ProxyPod, exposed_ip, exposed_name, served_service
from tsoperator.proxy.secret import ReportedDevice
from tsoperator.reconcilers.service.ask import Ask
from tsoperator.reconcilers.service.violations import funnel_violations
from tsoperator.runtime.plan import Note, Plan


@dataclass(frozen=True, slots=True)
class Shown:
    """The parts of a Service's status, and the Events, that tell the user about the proxy.

    These are a *condition*, and load balancer *entries*, which are None if the load balancer of the Service isn't
    ours. The Events *notes* are due at each reconcile, and the Events *news* only until the condition has their words.
    """

    condition: Object
    entries: Sequence[Object] | None = ()
    notes: Sequence[Note] = ()
    news: Sequence[Note] = ()


def pod(ask: Ask) -> ProxyPod:
    """Return the Pods of the proxy for a valid exposed Service."""
    if ask.is_public:
        return served_service()
    spec = ask.service["spec"]
    return exposed_ip(spec["clusterIP"]) if spec.get("clusterIP") else exposed_name(spec["externalName"])


def serve_config(ask: Ask) -> Object | None:
    """Return the serve config of the proxy; None if the proxy forwards everything.

    With Funnel the proxy ends TLS with the certificate of its device, and forwards each port to the cluster IP.
    """
    if not ask.is_public:
        return None
    address = ask.service["spec"]["clusterIP"]
    host = f"[{address}]" if ":" in address else address
    return {
        "TCP": {str(port): {"TCPForward": f"{host}:{port}", "TerminateTLS": CERT_DOMAIN} for _, port in ask.ports},
        "AllowFunnel": {f"{CERT_DOMAIN}:{port}": True for _, port in ask.ports},
    }


def cluster_naming(ask: Ask) -> Naming:
    """Return the addresses to which the name of a valid Service leads in the cluster."""
    return naming(ask.service, Way.TLS_SERVICE if ask.is_public else Way.FORWARDED)


def shown(ask: Ask, device: ReportedDevice | None) -> Shown:
    """Return the parts of the status and the Events of a Service whose proxy reports *device*."""
    name = device.fqdn if device else ""
    if not ask.is_balanced:
        return _named(name)
    if ask.is_public:
        return _public(ask, device)
    if device is None or not name:
        return _pending("the proxy has not joined the tailnet yet: no hostname is known")
    version = _version(ask.service["spec"]["clusterIP"])
    return _balanced(ask, name, [ip for ip in device.ips if _version(ip) == version != 0])


def port_notices(ask: Ask) -> list[Note]:
    """Return an Event if a load balancer asks for Funnel, but has other ports than Funnel serves."""
    if not ask.is_balanced or not (wrong := funnel_violations(ask)):
        return []
    words = f"{'; '.join(wrong)}. Until then only the tailnet reaches the Service, at all of its ports"
    return [Note("Warning", "FunnelIgnored", words, once=True)]


def _public(ask: Ask, device: ReportedDevice | None) -> Shown:
    """Return the load balancer entry and the Event of a Service with Funnel.

    The entry has the name of the device and no addresses, because the Internet can't use addresses of a tailnet.
    """
    if device is not None and device.serves_no_https:
        note = advice.no_https(device, "Funnel")
        pending = note.reason if note.reason == policy.UNSUPPORTED else "ProxyPending"
        return Shown(_not_ready(pending, note.message), notes=(note,))
    if device is None or not device.https_name:
        return _pending("the proxy does not serve HTTPS yet: no hostname is known")
    return _balanced(ask, device.https_name, ())


def _named(name: str) -> Shown:
    """Return a condition and an Event with the *name* of the device. Without a name, there is no Event.

    They are for a Service whose load balancer, if any, isn't ours.
    """
    if not name:
        return Shown(_ready(), None)
    return Shown(_ready(_reached(name)), None, news=(Note("Normal", "ProxyCreated", _reached(name), once=True),))


def _balanced(ask: Ask, name: str, ips: Sequence[str]) -> Shown:
    """Return load balancer entries with *name* and *ips*, and an Event with *name* until the status has that name."""
    entries = ({"hostname": name}, *({"ip": ip} for ip in ips))
    is_shown = any(entry.get("hostname") == name for entry in _entries(ask))
    return Shown(_ready(), entries, () if is_shown else (Note("Normal", "ProxyCreated", _reached(name)),))


def _reached(name: str) -> str:
    return f"it is reached in the tailnet as {name}"


def policy_notes(ask: Ask, made: Plan) -> list[Note]:
    """Return an Event about the tailnet's policy for Funnel, if the plan *made* writes the proxy's serve config."""
    return advice.funnel_notes(made, ask.tags) if ask.is_public else []


def load_balancer(ask: Ask, entries: Sequence[Object]) -> Object:
    """Return the ``loadBalancer`` of a status with these *entries*.

    If the live one differs only by defaults of the API server, return the live one.
    """
    plain = [{name: value for name, value in entry.items() if name != "ipMode"} for entry in _entries(ask)]
    if plain == [*entries]:
        there: Object = ask.status.get("loadBalancer") or {}
        return there
    return {"ingress": [*entries]} if entries else {}


def shows(ask: Ask, device: ReportedDevice | None) -> bool:
    """Tell whether the status of a Service shows *device*. If not, its load balancer entries aren't ours to remove."""
    if device is None:
        return False
    ours = {device.fqdn, device.https_name, *device.ips} - {""}
    return any({entry.get("hostname"), entry.get("ip")} & ours for entry in _entries(ask))


def _entries(ask: Ask) -> Sequence[Object]:
    return (ask.status.get("loadBalancer") or {}).get("ingress") or ()


def _version(ip: str) -> int:
    """Return the IP version of the address *ip*; 0 if it isn't an address."""
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
