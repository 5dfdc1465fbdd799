"""The requests of an egress Service to a ProxyGroup, and their possible faults."""

from collections.abc import Iterable, Sequence
from typing import Final

from tsoperator.api.names import ANNOTATION_TAGS, ANNOTATION_TAILNET_FQDN, HEALTH_PORT_NAME, PROXY_GROUP
from tsoperator.api.objects import Object, annotations, key_of
from tsoperator.api.rules import split_tags, tag_error
from tsoperator.group.egress import entry_name
from tsoperator.reconcilers.service import egress
from tsoperator.reconcilers.service.clusterip import Target
from tsoperator.reconcilers.service.places import Places
from tsoperator.settings import Settings

_PROTOCOLS: Final = ("TCP", "UDP")


def target(service: Object) -> Target:
    """Return where *service* leads, as the user wrote it."""
    fqdn = annotations(service).get(ANNOTATION_TAILNET_FQDN, "")
    return Target(fqdn, "" if fqdn else egress.target_ip(service))


def group_name(service: Object) -> str:
    """Return the ProxyGroup that *service* names; empty if it names none."""
    return annotations(service).get(PROXY_GROUP, "")


def violations(service: Object, places: Places, settings: Settings) -> list[str]:
    """Return what is wrong with *service*; each violation is part of a sentence, and says how to fix it."""
    found: list[str] = []
    spec, name = service["spec"], group_name(service)
    if spec.get("clusterIP") == "None":
        found.append("headless Services are not supported: use a Service of type ExternalName")
    found += egress.violations(service, settings.zones, places.suffixes)
    given = annotations(service).get(ANNOTATION_TAGS)
    found += [
        f"annotation {ANNOTATION_TAGS}: {error}"
        for tag in (split_tags(given) if given else ())
        if (error := tag_error(tag))
    ]
    found += _wrong_ports(spec.get("ports") or ())
    if spec.get("type") != "ExternalName":
        found.append("spec.type must be ExternalName, and spec.externalName any name, which the operator replaces")
    group = places.group(name).obj
    type_ = group["spec"].get("type") if group else "egress"
    if type_ != "egress":
        found.append(
            f"ProxyGroup {name!r} is of type {type_}, which this version of the operator doesn't run for Services yet: "
            f"name one of type egress in annotation {PROXY_GROUP}"
        )
    if places.rival:
        found.append(
            f"ProxyGroup {name!r} would know it as {entry_name(key_of(service))!r}, which is Service {places.rival} "
            f"there: rename one of the two, or name another ProxyGroup in annotation {PROXY_GROUP}"
        )
    return found


def _wrong_ports(ports: Sequence[Object]) -> Iterable[str]:
    if not ports:
        yield "it has no ports: list those of the device that clients need in spec.ports"
    for each in ports:
        if each.get("protocol", "TCP") not in _PROTOCOLS:
            yield f"port {each['port']}/{each['protocol']}: the proxies forward TCP and UDP only"
        if each.get("name") == HEALTH_PORT_NAME:
            yield f"the port name {HEALTH_PORT_NAME} is taken by the operator: give the port another name"
