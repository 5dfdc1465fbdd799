"""The violations of a Service, by the mode in which it asks to be served."""

from collections.abc import Iterable
from typing import Final

from tsoperator.api.names import (
    ANNOTATION_FUNNEL,
    ANNOTATION_HOSTNAME,
    ANNOTATION_TAGS,
    ANNOTATION_TAILNET_FQDN,
    ANNOTATION_TAILNET_IP,
    HEALTH_PORT_NAME,
    PROXY_GROUP,
)
from tsoperator.api.objects import annotations, spec_of
from tsoperator.api.rules import dns_label_error, fqdn_error, is_address, split_tags, tag_error, target_ip_error
from tsoperator.group.egress import entry_name
from tsoperator.group.grouptype import EGRESS, type_of
from tsoperator.group.places import Places
from tsoperator.reconcilers.service.ask import FUNNEL_PORTS, Ask
from tsoperator.tailnet.zones import NO_SUFFIXES, TS_NET, Suffixes, name_error

_PROTOCOLS: Final = ("TCP", "UDP")


def violations(ask: Ask, suffixes: Suffixes = NO_SUFFIXES, *, is_public: bool = False) -> list[str]:
    """Return the violations of a Service that asks for a proxy of its own.

    *suffixes* are the known suffixes of MagicDNS names. If it *is_public*, its proxy has a serve config now, and
    the Internet reaches it. Then a port that Funnel can't serve is a violation, so that the proxy stays as it is.
    """
    given, spec = annotations(ask.service), ask.service["spec"]
    found: list[str] = []
    if spec.get("clusterIP") == "None":
        found.append(
            "headless Services are not supported: use a Service "
            + ("with a cluster IP, which the proxy forwards to" if ask.is_exposed else "of type ExternalName")
        )
    if ask.is_exposed and ask.points_at_own_proxy:
        found.append(
            f"spec.externalName {spec['externalName']} is this Service's own proxy, from when it led to the tailnet: "
            "set spec.type to ClusterIP and a selector, or spec.externalName to what is to be exposed"
        )
    elif ask.is_exposed and ask.is_balanced and is_public:
        found += funnel_violations(ask)
    found += _device_violations(ask, suffixes)
    if error := dns_label_error(ask.hostname):
        found.append(
            f"annotation {ANNOTATION_HOSTNAME}: {error}"
            if ANNOTATION_HOSTNAME in given
            else f"the default hostname {error}: set annotation {ANNOTATION_HOSTNAME} to a shorter one"
        )
    if given.get(PROXY_GROUP) == "":
        found.append(f"annotation {PROXY_GROUP} names no ProxyGroup: name one, or remove the annotation")
    return [*found, *_wrong_tags(given.get(ANNOTATION_TAGS))]


def group_violations(ask: Ask, places: Places, suffixes: Suffixes) -> list[str]:
    """Return the violations of an egress Service that names a ProxyGroup.

    *suffixes* are the known suffixes of MagicDNS names.
    """
    found: list[str] = []
    spec = ask.service["spec"]
    if spec.get("clusterIP") == "None":
        found.append("headless Services are not supported: use a Service of type ExternalName")
    found += _device_violations(ask, suffixes)
    found += _wrong_tags(annotations(ask.service).get(ANNOTATION_TAGS) or None)
    found += _wrong_ports(ask)
    if spec.get("type") != "ExternalName":
        found.append("spec.type must be ExternalName, and spec.externalName any name, which the operator replaces")
    group = places.group(ask.group).obj
    if group and type_of(group) is not EGRESS:
        found.append(
            f"ProxyGroup {ask.group!r} is of type {spec_of(group).get('type')}, which can't lead to devices of the "
            f"tailnet: name one of type egress in annotation {PROXY_GROUP}"
        )
    if places.rival:
        found.append(
            f"ProxyGroup {ask.group!r} would know it as {entry_name(ask.key)!r}, which is Service {places.rival} "
            f"there: rename one of the two, or name another ProxyGroup in annotation {PROXY_GROUP}"
        )
    return found


def funnel_violations(ask: Ask) -> list[str]:
    """Return a violation if a Service asks for Funnel, and has ports that Funnel can't serve."""
    if not ask.unfunnelled:
        return []
    taken = f"{', '.join(map(str, FUNNEL_PORTS[:-1]))} and {FUNNEL_PORTS[-1]}"
    return [
        f"Funnel can't serve port {', '.join(ask.unfunnelled)}: it works on TCP ports {taken} only; "
        f"give spec.ports those (targetPort may be any), or remove annotation {ANNOTATION_FUNNEL}"
    ]


def _device_violations(ask: Ask, suffixes: Suffixes) -> Iterable[str]:
    """Yield the violations in the annotations that name the target of a Service."""
    fqdn, ip = ask.fqdn, ask.ip
    if fqdn and ip and not ask.outranks_name:
        yield f"only one of {ask.ip_annotation} and {ANNOTATION_TAILNET_FQDN} may be set: remove one of them"
    if fqdn and is_address(fqdn) and target_ip_error(fqdn) is None:
        yield f"annotation {ANNOTATION_TAILNET_FQDN} has the address {fqdn}: write it in {ANNOTATION_TAILNET_IP}"
    elif fqdn and (error := name_error(fqdn, ask.zones, suffixes)):
        yield f"annotation {ANNOTATION_TAILNET_FQDN}: {error}"
    if ip and fqdn_error(ip, [TS_NET, *ask.zones]) is None:
        yield f"annotation {ask.ip_annotation} has the name {ip}: write it in {ANNOTATION_TAILNET_FQDN}"
    elif ip and (error := target_ip_error(ip)):
        yield f"annotation {ask.ip_annotation}: {error}"


def _wrong_tags(given: str | None) -> Iterable[str]:
    tags = () if given is None else split_tags(given)
    return [f"annotation {ANNOTATION_TAGS}: {error}" for tag in tags if (error := tag_error(tag))]


def _wrong_ports(ask: Ask) -> Iterable[str]:
    if not ask.ports:
        yield "it has no ports: list those of the device that clients need in spec.ports"
    for (protocol, port), name in ask.ports.items():
        if protocol not in _PROTOCOLS:
            yield f"port {port}/{protocol}: the proxies forward TCP and UDP only"
        if name == HEALTH_PORT_NAME:
            yield f"the port name {HEALTH_PORT_NAME} is taken by the operator: give the port another name"
