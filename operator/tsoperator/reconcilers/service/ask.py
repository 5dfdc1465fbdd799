"""Parses a user's Service into an `Ask` once, so that decisions don't read its annotations again."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from tsoperator.api.conditions import set_condition
from tsoperator.api.device import lookup_name
from tsoperator.api.names import (
    ANNOTATION_EXPOSE,
    ANNOTATION_FUNNEL,
    ANNOTATION_HOSTNAME,
    ANNOTATION_TAGS,
    ANNOTATION_TAILNET_FQDN,
    ANNOTATION_TAILNET_IP,
    ANNOTATION_TAILNET_TARGET_IP_DEPRECATED,
    LOAD_BALANCER_CLASS,
    PARENT_SERVICE,
    PROXY_GROUP,
)
from tsoperator.api.objects import Key, Object, annotations, is_deleting, key_of, uid
from tsoperator.api.rules import child_base_name, fqdn_error, is_true, split_tags
from tsoperator.group.clusterip import Target
from tsoperator.group.ports import Wanted
from tsoperator.proxy.classref import class_name
from tsoperator.runtime.ownership import Owner
from tsoperator.settings import Settings
from tsoperator.tailnet.zones import TS_NET

BY_DESTINATION: Final = "destination"
"""The index that finds Services by the device to which they lead."""

UNNAMED: Final = "tailscale-unnamed"
"""The name that a port gets if it has none in the user's Service."""

FUNNEL_PORTS: Final = (443, 8443, 10000)
"""The ports at which Funnel can listen."""


class ServiceMode(Enum):
    """The mode in which a Service asks to be served. Its annotations and its class decide."""

    NOTHING = auto()
    PROXY = auto()
    """A proxy of its own serves the Service."""
    GROUP = auto()
    """A ProxyGroup leads clients of the Service to the tailnet."""
    HOSTED = auto()
    """A ProxyGroup exposes the Service to the tailnet."""


@dataclass(frozen=True, slots=True)
class Ask:
    """The requests in a user's *service*, completed by the operator's settings.

    *is_exposed* tells whether the Service asks to be reachable from the tailnet, which takes precedence over egress; a
    headless Service can ask, but can't be exposed. *is_balanced* tells whether it is a load balancer of our class. With
    *wants_funnel*, the Internet is to reach it, too; Funnel can't serve the ports *unfunnelled*.

    *fqdn* and *ip* name the device to which the Service should lead, as the user wrote them; *ip_annotation* is the
    annotation with the address. *target* is the one of the two that the operator uses. *ports* are the ports and their
    names, in their order. *group* is the ProxyGroup, and *class_name* the ProxyClass; both are empty if there is none.
    The proxy's device asks for *hostname* and *tags*. *zones* are those that the user gives for MagicDNS names.

    Proxies are in *namespace*, and the names of their Services end with *proxies_domain*. *points_at* is the name of
    the Service in that namespace at which the user's Service points; it is empty if the user's Service points
    elsewhere.
    """

    service: Object
    key: Key
    mode: ServiceMode
    is_exposed: bool
    is_balanced: bool
    wants_funnel: bool
    unfunnelled: Sequence[str]
    fqdn: str
    ip: str
    ip_annotation: str
    target: Target
    ports: Mapping[Wanted, str]
    group: str
    class_name: str
    hostname: str
    tags: Sequence[str]
    zones: Sequence[str]
    namespace: str
    proxies_domain: str
    points_at: str

    @property
    def owner(self) -> Owner:
        """The owner of the Service's children, as their labels name it."""
        return Owner(PARENT_SERVICE, self.key)

    @property
    def uid(self) -> str:
        """The UID of the Service."""
        return uid(self.service)

    @property
    def is_egress(self) -> bool:
        """True if the Service names a tailnet device to lead to."""
        return any(self.target)

    @property
    def is_public(self) -> bool:
        """True if the Internet is to reach the Service, by Funnel.

        Otherwise only the tailnet reaches it, at any port.
        """
        return self.wants_funnel and self.is_balanced and not self.unfunnelled

    @property
    def outranks_name(self) -> bool:
        """True if the Service gives the name of its target, but also an address in the deprecated annotation.

        The Service's own proxy uses the address; a ProxyGroup uses the name. The Go operator does the same.
        """
        return bool(self.fqdn) and self.ip_annotation == ANNOTATION_TAILNET_TARGET_IP_DEPRECATED

    @property
    def exposes_tailnet(self) -> bool:
        """True if the Service exposes a name that only devices of a tailnet have. Pods can't look such a name up."""
        spec = self.service["spec"]
        is_named = self.is_exposed and spec.get("type") == "ExternalName"
        return is_named and fqdn_error(spec["externalName"], [TS_NET, *self.zones]) is None

    @property
    def magic_dns_name(self) -> str:
        """The MagicDNS name of the device to which the Service leads; empty if it leads to an address."""
        return self.target.fqdn.removesuffix(".")

    @property
    def destination(self) -> str:
        """The MagicDNS name or address that the Service leads to; empty if it is exposed, or if it names none."""
        return "" if self.is_exposed else self.magic_dns_name or self.target.ip

    @property
    def cluster_name(self) -> str:
        """The name of the Service in the cluster's DNS."""
        return f"{self.key.name}.{self.key.namespace}{self.proxies_domain.removeprefix(f'.{self.namespace}')}"

    @property
    def points_at_own_proxy(self) -> bool:
        """True if the Service still points at the egress proxy that it has, or once had."""
        return self.points_at.rpartition("-")[0] == child_base_name(self.key.name)

    @property
    def status(self) -> Object:
        """The status of the Service, empty if it has none."""
        return self.service.get("status") or {}

    @property
    def conditions(self) -> Sequence[Object]:
        """The conditions in the status of the Service."""
        return self.status.get("conditions") or ()

    def status_with(self, *conditions: Object, without: Collection[str] = ()) -> Object:
        """Return the status of the Service with these *conditions*.

        Its conditions of the types *without* are left out.
        """
        left = [each for each in self.conditions if each["type"] not in without]
        return {**self.status, "conditions": set_condition(left, conditions, now="")}


def parse(service: Object, settings: Settings) -> Ask:
    """Return the requests of the user in *service*, also those that are invalid."""
    given, spec, key = annotations(service), service["spec"], key_of(service)
    type_, name = spec.get("type"), spec.get("externalName", "")
    class_ = spec.get("loadBalancerClass")
    is_ours = class_ == LOAD_BALANCER_CLASS or (class_ is None and settings.default_load_balancer)
    is_balanced, is_named = is_ours and type_ == "LoadBalancer", type_ == "ExternalName" and bool(name)
    is_annotated = is_true(given.get(ANNOTATION_EXPOSE))
    has_ip = bool(spec.get("clusterIP"))
    is_exposed = (is_annotated and (has_ip or is_named)) or (is_balanced and has_ip)
    wants_funnel, tags = is_true(given.get(ANNOTATION_FUNNEL)), given.get(ANNOTATION_TAGS)
    group, target, ip_annotation = given.get(PROXY_GROUP, ""), _target(given), _ip_annotation(given)
    if is_deleting(service) or not (is_exposed or any(target)):
        mode = ServiceMode.NOTHING
    elif not group:
        mode = ServiceMode.PROXY
    else:
        mode = ServiceMode.HOSTED if is_exposed else ServiceMode.GROUP
    domain = f".{settings.namespace}.svc.{settings.cluster_domain}"
    return Ask(
        service,
        key,
        mode,
        is_exposed,
        is_balanced,
        wants_funnel,
        unfunnelled=_unfunnelled(spec) if wants_funnel else (),
        fqdn=given.get(ANNOTATION_TAILNET_FQDN, ""),
        ip=given.get(ip_annotation, ""),
        ip_annotation=ip_annotation,
        target=target,
        ports=_ports(spec),
        group=group,
        class_name=class_name(service, settings.proxy_class),
        hostname=given.get(ANNOTATION_HOSTNAME, f"{key.namespace}-{key.name}"),
        tags=split_tags(tags) if tags else settings.proxy_tags,
        zones=settings.zones,
        namespace=settings.namespace,
        proxies_domain=domain,
        points_at=name.removesuffix(domain) if is_named and name.endswith(domain) else "",
    )


def needs_suffix(service: Object) -> bool:
    """Tell whether *service* names a device outside of ts.net.

    Such a name is valid only if it ends with a known suffix of MagicDNS names.
    """
    fqdn = annotations(service).get(ANNOTATION_TAILNET_FQDN, "")
    return bool(fqdn) and fqdn_error(fqdn, [TS_NET]) is not None


def by_destination(service: Object) -> Iterable[str]:
    """Yield the values for the index `BY_DESTINATION`: the name or address of the device to which *service* leads.

    The first label of the name is another value, because Headscale tells no more of a device's name.
    """
    target = _target(annotations(service))
    if any(target):
        name = lookup_name(target.fqdn.removesuffix(".") or target.ip)
        yield from {name, name.partition(".")[0]}


def _target(given: Mapping[str, str]) -> Target:
    """Return the name or address to which a Service leads, as the user wrote it.

    A ProxyGroup leads to the name even if the Service also gives an address in the deprecated annotation.
    """
    fqdn, ip_annotation = given.get(ANNOTATION_TAILNET_FQDN, ""), _ip_annotation(given)
    if ip_annotation == ANNOTATION_TAILNET_TARGET_IP_DEPRECATED and not given.get(PROXY_GROUP):
        fqdn = ""
    return Target(fqdn, "" if fqdn else given.get(ip_annotation, ""))


def _ip_annotation(given: Mapping[str, str]) -> str:
    """Return the annotation that gives the address of the device.

    The deprecated annotation is used only if the present one is empty.
    """
    deprecated = given.get(ANNOTATION_TAILNET_TARGET_IP_DEPRECATED) and not given.get(ANNOTATION_TAILNET_IP)
    return ANNOTATION_TAILNET_TARGET_IP_DEPRECATED if deprecated else ANNOTATION_TAILNET_IP


def _ports(spec: Object) -> dict[Wanted, str]:
    """Return the ports in the *spec* of a Service, in their order, with their names."""
    return {
        Wanted(each.get("protocol", "TCP"), each["port"]): each.get("name") or UNNAMED
        for each in spec.get("ports") or ()
    }


def _unfunnelled(spec: Object) -> list[str]:
    return [
        f"{port['port']}/{protocol}"
        for port in spec.get("ports") or ()
        if (protocol := port.get("protocol", "TCP")) != "TCP" or port["port"] not in FUNNEL_PORTS
    ]
