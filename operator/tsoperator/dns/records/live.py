"""Finds the records of proxies in live objects. A record is a name in the cluster's DNS, with its addresses.

`clusternames` decides whether the name of a proxy leads to the proxy itself. See docs/development/names.md.
"""

import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tsoperator.api.names import (
    ANNOTATION_LAST_CLUSTER_IP,
    ANNOTATION_LAST_TAILNET_TARGET_FQDN,
    ANNOTATION_MAGIC_DNSNAME,
    ANNOTATION_TAILNET_FQDN,
    LABEL_SERVICE_TYPE,
    PARENT_SERVICE,
    PROXY_GROUP,
    SERVICE_TYPE_EGRESS,
)
from tsoperator.api.objects import Object, annotations, is_deleting, key_of, labels
from tsoperator.dns.clusternames import Leads, Way, is_opted_out, naming, way_of
from tsoperator.dns.nameclaims import UNCONTESTED, Claim, holding, noted_claim
from tsoperator.proxy.endpoints import ready_addresses
from tsoperator.runtime.ownership import Owner
from tsoperator.settings import Settings


@dataclass(frozen=True, slots=True)
class NamedProxy:
    """A proxy that can have a name, and the objects on which its record depends.

    *service* is the headless Service of the proxy, or the Service that leads to a ProxyGroup's proxies. *slices* are
    the EndpointSlices of *service*. *parent* is the object for which the operator made the proxy; None if the operator
    doesn't find it. If the parent's namespace is not *watched*, the parent can exist although the operator doesn't find
    it. *leads* is true if the parent points at *service*, false if it points at another Service that the operator made
    for it, and None if it points at no such Service.
    """

    service: Object
    parent: Object | None
    slices: Sequence[Object]
    watched: bool = True
    leads: bool | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """A name in the cluster's DNS and its sorted addresses.

    *claim* decides which proxy has the name if several proxies ask for it. The record *serves* if connections to the
    addresses reach something. A cluster IP without an endpoint reaches nothing.
    """

    name: str
    ip4: tuple[str, ...]
    ip6: tuple[str, ...]
    claim: Claim = UNCONTESTED
    serves: bool = True

    @property
    def has_addresses(self) -> bool:
        """True if the name leads to any address now."""
        return bool(self.ip4 or self.ip6)


def record_of(proxy: NamedProxy, settings: Settings) -> Record | None:
    """Return the record of *proxy*; None if it has no name.

    If the name leads to the proxy's Pods, and none of them is ready, the record has no address.
    """
    way = way_of(proxy.service)
    name = _name(proxy, way, settings)
    parent = proxy.parent or _noted_parent(proxy.service)
    leads = naming(parent, way).leads if name else None
    if leads is None:
        return None
    claim = noted_claim(proxy.service, proxy.parent, name)
    if leads is Leads.PROXY:
        return Record(name, *in_order(ready_addresses(proxy.slices)), claim)
    serves = leads is Leads.BACKEND or any(ready_addresses(proxy.slices))
    return Record(name, *in_order(_cluster_ips(parent if leads is Leads.BACKEND else proxy.service)), claim, serves)


def hosted_record(service: Object, name: str) -> Record | None:
    """Return the record of a user's *service* that a ProxyGroup exposes under the MagicDNS *name*.

    Pods reach the Service at its own cluster IPs. Return None if the user has turned the name off.
    """
    if is_opted_out(service):
        return None
    claim = Claim(
        created=service["metadata"].get("creationTimestamp", ""), owner=Owner(PARENT_SERVICE, key_of(service))
    )
    return Record(name, *in_order(_cluster_ips(service)), claim)


def shared_record(records: Sequence[Record]) -> Record:
    """Return one record in place of *records*, which all have the same name. *records* must not be empty.

    The records with the same ports as the winning claim share the name. If some of these records serve, the result has
    only the addresses of those that serve.
    """
    first, *others = records
    if not others:
        return first
    ports = holding(each.claim for each in records).ports
    sharing = [each for each in records if each.claim.ports == ports]
    chosen = [each for each in sharing if each.serves] or sharing
    return Record(first.name, *in_order(address for each in chosen for address in each.ip4 + each.ip6))


def _noted_parent(service: Object) -> Object:
    """Return an object that stands for a proxy's parent, which the operator can't see.

    The object has the facts about the parent that are noted on *service*, the headless Service of the proxy.
    """
    return {"metadata": {}, "spec": {"clusterIP": annotations(service).get(ANNOTATION_LAST_CLUSTER_IP, "")}}


def _name(proxy: NamedProxy, way: Way, settings: Settings) -> str:
    """Return the name of *proxy* in the cluster's DNS, in lower case; empty if it has none.

    A proxy has no name if its parent is being deleted. If the parent's namespace isn't watched, the name is the one
    noted on the Service. While the parent moves from one proxy to another, only the proxy at which the parent points
    has the name, because the other proxy possibly doesn't serve.
    """
    parent = proxy.parent
    if is_deleting(proxy.service) or (parent is not None and is_deleting(parent)):
        return ""
    grouped = way is Way.EGRESS_GROUP
    noted = annotations(proxy.service).get(ANNOTATION_MAGIC_DNSNAME, "")
    if parent is None:
        stays = not proxy.watched and (_is_grouped_egress(proxy.service) or not grouped)
        return _folded(noted) if stays else ""
    given = annotations(parent)
    if proxy.leads is False:
        return ""
    if grouped:
        asks = _is_grouped_egress(proxy.service) and bool(proxy.leads or given.get(PROXY_GROUP))
        fqdn = given.get(ANNOTATION_TAILNET_FQDN, "")
        if not noted and ANNOTATION_LAST_TAILNET_TARGET_FQDN not in annotations(proxy.service):
            noted = fqdn  # the Go operator notes no name
        return _folded(noted) if asks and fqdn else ""  # the noted name, because the proxies still lead to that device
    if way is Way.FORWARDED:
        asks = True  # the name leads to the right place as long as the proxy's Service exists
    elif way is Way.INGRESS:
        asks = parent["spec"].get("ingressClassName") == settings.ingress_class
    else:
        asks = bool(given.get(ANNOTATION_TAILNET_FQDN)) and (bool(proxy.leads) or PROXY_GROUP not in given)
    return _folded(noted) if asks else ""


def _folded(name: str) -> str:
    return name.removesuffix(".").lower()


def _is_grouped_egress(service: Object) -> bool:
    return labels(service).get(LABEL_SERVICE_TYPE) == SERVICE_TYPE_EGRESS and service["spec"].get("type") == "ClusterIP"


def _cluster_ips(service: Object) -> Sequence[str]:
    spec = service["spec"]
    found: Sequence[str] = spec.get("clusterIPs") or [spec.get("clusterIP", "")]
    return found


def in_order(addresses: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the IPv4 and the IPv6 addresses among *addresses*, sorted.

    Texts that are names are left out, and so are addresses with a zone, such as fe80::1%eth0.
    """
    of4: set[ipaddress.IPv4Address] = set()
    of6: set[ipaddress.IPv6Address] = set()
    for address in addresses:
        try:
            parsed = ipaddress.ip_address(address)
        except ValueError:
            continue
        if isinstance(parsed, ipaddress.IPv4Address):
            of4.add(parsed)
        elif not parsed.scope_id:
            of6.add(parsed)
    return tuple(map(str, sorted(of4))), tuple(map(str, sorted(of6)))
