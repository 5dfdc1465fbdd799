"""Egress Services: to which tailnet device they lead, and how they point at their proxies."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from tsoperator.api.device import lookup_name
from tsoperator.api.names import (
    ANNOTATION_TAILNET_FQDN,
    ANNOTATION_TAILNET_IP,
    ANNOTATION_TAILNET_TARGET_IP_DEPRECATED,
    FINALIZER,
    PROXY_CLASS,
    PROXY_GROUP,
)
from tsoperator.api.objects import SERVICE, Key, Object, annotations, has_finalizer, key_of
from tsoperator.api.rules import child_base_name, fqdn_error, needs_route, target_ip_error
from tsoperator.proxy.proxypod import ProxyPod, egress_to_ip, egress_to_name
from tsoperator.runtime.plan import Patch, Plan
from tsoperator.runtime.reverts import Reverts
from tsoperator.settings import Settings
from tsoperator.tailnet.zones import TS_NET, Suffixes, name_error

BY_DESTINATION: Final = "destination"
"""The index of Services by the device that they lead to."""


def asks(service: Object) -> bool:
    """Tell whether *service* names a tailnet device to lead to."""
    return bool(_target_ip(service) or annotations(service).get(ANNOTATION_TAILNET_FQDN))


def violations(service: Object, zones: Sequence[str], suffixes: Suffixes) -> list[str]:
    """Return what is wrong with how *service* names its device; *zones* are those that the user gives."""
    fqdn = annotations(service).get(ANNOTATION_TAILNET_FQDN, "")
    ip, ip_annotation = _target_ip(service), _ip_annotation(service)
    found: list[str] = []
    if fqdn and ip and not outranks_name(service):
        found.append(f"only one of {ip_annotation} and {ANNOTATION_TAILNET_FQDN} may be set: remove one of them")
    if fqdn and target_ip_error(fqdn) is None:
        found.append(
            f"annotation {ANNOTATION_TAILNET_FQDN} has the address {fqdn}: write it in {ANNOTATION_TAILNET_IP}"
        )
    elif fqdn and (error := name_error(fqdn, zones, suffixes)):
        found.append(f"annotation {ANNOTATION_TAILNET_FQDN}: {error}")
    if ip and fqdn_error(ip, [TS_NET, *zones]) is None:
        found.append(f"annotation {ip_annotation} has the name {ip}: write it in {ANNOTATION_TAILNET_FQDN}")
    elif ip and (error := target_ip_error(ip)):
        found.append(f"annotation {ip_annotation}: {error}")
    return found


def needs_suffix(service: Object) -> bool:
    """Tell whether *service* names a device by a name outside of ts.net, which is right only with a known suffix."""
    fqdn = annotations(service).get(ANNOTATION_TAILNET_FQDN, "")
    return bool(fqdn) and fqdn_error(fqdn, [TS_NET]) is not None


def given(service: Object) -> list[str]:
    """Return the annotations by which *service* names a device."""
    names = (ANNOTATION_TAILNET_FQDN, ANNOTATION_TAILNET_IP, ANNOTATION_TAILNET_TARGET_IP_DEPRECATED)
    return [name for name in names if annotations(service).get(name)]


def outranks_name(service: Object) -> bool:
    """Tell whether *service* gives a name, but also an address in the deprecated annotation, which then counts.

    The Go operator treats them so.
    """
    named = annotations(service).get(ANNOTATION_TAILNET_FQDN)
    return bool(named) and _ip_annotation(service) == ANNOTATION_TAILNET_TARGET_IP_DEPRECATED


def magic_dns_name(service: Object) -> str:
    """Return the MagicDNS name of the device; empty if *service* leads to an address."""
    if outranks_name(service):
        return ""
    return annotations(service).get(ANNOTATION_TAILNET_FQDN, "").removesuffix(".")


def lacks_route(service: Object, *, accepts_routes: bool) -> bool:
    """Tell whether a valid *service* leads to an address that its proxy can't reach without accepting routes."""
    ip = _target_ip(service)
    return bool(ip) and not accepts_routes and needs_route(ip)


def pod(service: Object) -> ProxyPod:
    """Return the Pods of the proxy of a valid *service*."""
    fqdn = magic_dns_name(service)
    return egress_to_name(f"{fqdn}.") if fqdn else egress_to_ip(_target_ip(service))


def routes_not_accepted(service: Object) -> str:
    """Say what the proxy of *service* needs in order to reach an address that is no device's."""
    return (
        f"{_target_ip(service)} is not an address that the tailnet gives to devices, so the proxy reaches it only by a "
        "route that a device advertises: set tailscale.acceptRoutes: true in a ProxyClass, and name that in "
        f"annotation {PROXY_CLASS}"
    )


def destination(service: Object) -> str:
    """Return the MagicDNS name or address that *service* leads to; empty if it names none."""
    return magic_dns_name(service) or _target_ip(service)


def by_destination(service: Object) -> Iterable[str]:
    """Index Services by the device that they lead to, also by the first label of its name, all that Headscale gives.

    A ProxyGroup leads to the name even if the Service also gives an address in the deprecated annotation.
    """
    given = annotations(service)
    named = given.get(ANNOTATION_TAILNET_FQDN) if given.get(PROXY_GROUP) else ""
    if text := named or destination(service):
        name = lookup_name(text)
        yield from {name, name.partition(".")[0]}


def strays(service: Object, proxy_name: str, settings: Settings) -> list[str]:
    """Return the fields of *service* that don't point at the proxy called *proxy_name*; none if the name is empty."""
    if not proxy_name:
        return []
    wanted = {"externalName": f"{proxy_name}{_proxies_domain(settings)}", "type": "ExternalName"}
    return [f"spec.{name}" for name, value in wanted.items() if service["spec"].get(name) != value]


def rewrite(service: Object, proxy_name: str, settings: Settings) -> list[Patch]:
    """Return what points *service* at the proxy called *proxy_name*; nothing if it already does."""
    if not strays(service, proxy_name, settings):
        return []
    external_name = f"{proxy_name}{_proxies_domain(settings)}"
    body = {"spec": {"type": "ExternalName", "externalName": external_name, "selector": None}}
    return [Patch(SERVICE, key_of(service), body)]


def pointed(service: Object, proxy_name: str, made: Plan, reverts: Reverts, settings: Settings) -> Plan:
    """Return *made* with the step that points *service* at the proxy called *proxy_name*, unless *reverts* say to wait.

    An empty name says to wait, too. The step comes last. But a Service that we don't hold yet gets the finalizer by the
    same write, which comes first.
    """
    patches = [] if reverts.wait else rewrite(service, proxy_name, settings)
    if not patches or has_finalizer(service, FINALIZER):
        return replace(made, steps=[*made.steps, *patches])
    metadata = service["metadata"]
    finalizers = [*(metadata.get("finalizers") or ()), FINALIZER]
    held = {"finalizers": finalizers, "resourceVersion": metadata["resourceVersion"]}
    patches = [replace(each, body={**each.body, "metadata": held}) for each in patches]
    return replace(made, hold="", steps=[*patches, *made.steps])


def starting(proxy: Key, leads_to: str) -> str:
    """Say that *proxy* doesn't serve yet, and that clients are led to the place called *leads_to*, if to any."""
    meanwhile = f"; until then clients are led to {leads_to}" if leads_to else ""
    return (
        f"the Service leads to its proxy once the proxy's Pod is ready and has joined the tailnet{meanwhile}. If that "
        f"takes more than a minute, look at the Pod: kubectl -n {proxy.namespace} describe pod {proxy.name}-0"
    )


def overwritten(reverts: Reverts, proxy_name: str) -> str:
    """Return what to tell the user about *reverts* of a Service that should point at the proxy called *proxy_name*."""
    fields = " and ".join(reverts.fields)
    return (
        f"{reverts.who} keeps setting {fields} back, so that clients don't get to the proxy {proxy_name}: "
        "leave spec.type, spec.externalName and spec.selector out of what it applies, or let it ignore them. Argo CD: "
        "ignoreDifferences for /spec/type, /spec/externalName and /spec/selector with the sync option "
        "RespectIgnoreDifferences=true. Flux: ignore rules for these paths in the Kustomization, or the annotation "
        "kustomize.toolkit.fluxcd.io/ssa: IfNotPresent on the Service"
    )


def is_rewritten(service: Object, settings: Settings) -> bool:
    """Tell whether *service* still points at the egress proxy that it has, or once had."""
    spec, domain = service["spec"], _proxies_domain(settings)
    name: str = spec.get("externalName", "")
    proxy_base = name.removesuffix(domain).rpartition("-")[0]
    ours = name.endswith(domain) and proxy_base == child_base_name(key_of(service).name)
    return ours and spec.get("type") == "ExternalName"


def pointed_at(service: Object, settings: Settings) -> str:
    """Return the name of the Service in our namespace that *service* points at; empty if it points elsewhere."""
    name: str = service["spec"].get("externalName", "")
    domain = _proxies_domain(settings)
    ours = service["spec"].get("type") == "ExternalName" and name.endswith(domain)
    return name.removesuffix(domain) if ours else ""


def target_ip(service: Object) -> str:
    """Return the address of the device, as the user wrote it; empty if *service* gives none."""
    return _target_ip(service)


def _proxies_domain(settings: Settings) -> str:
    return f".{settings.namespace}.svc.{settings.cluster_domain}"


def _target_ip(service: Object) -> str:
    return annotations(service).get(_ip_annotation(service), "")


def _ip_annotation(service: Object) -> str:
    """Return the annotation that counts: the deprecated one counts only if the other is empty."""
    given = annotations(service)
    deprecated = given.get(ANNOTATION_TAILNET_TARGET_IP_DEPRECATED) and not given.get(ANNOTATION_TAILNET_IP)
    return ANNOTATION_TAILNET_TARGET_IP_DEPRECATED if deprecated else ANNOTATION_TAILNET_IP
