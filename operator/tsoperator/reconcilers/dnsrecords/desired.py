"""Decides what the nameserver serves: all records, computed whole from live objects (dns-crds-chart.md 1.3, 1.4)."""

import ipaddress
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from tsnameserver.errors import RecordsError
from tsnameserver.records import CONFIGMAP_NAME, RECORDS_KEY, Records, parse, render

from tsoperator.api.names import (
    ANNOTATION_MAGIC_DNSNAME,
    ANNOTATION_TAILNET_FQDN,
    PROXY_GROUP,
)
from tsoperator.api.objects import (
    CONFIGMAP,
    DNSCONFIG,
    INGRESS,
    Object,
    annotations,
    is_deleting,
    key_of,
    resource_of,
    uid,
)
from tsoperator.desired.nameserver import nameserver_labels, owner_reference
from tsoperator.desired.plan import Patch, Plan, contains
from tsoperator.settings import Settings

_SERIALS = 2**32


@dataclass(frozen=True, slots=True)
class NamedProxy:
    """A proxy's headless Service, the object that it is for, if that is there, and its EndpointSlices."""

    service: Object
    parent: Object | None
    slices: Sequence[Object]


@dataclass(frozen=True, slots=True)
class Observed:
    """All that the records are computed from, and the ConfigMap that holds them."""

    configmap: Object | None
    proxies: Sequence[NamedProxy] = field(default_factory=tuple)


def plan(dnsconfig: Object, observed: Observed, settings: Settings) -> Plan:
    """Return what brings the ConfigMap, which belongs to *dnsconfig*, up to date."""
    live = observed.configmap
    if live is not None and is_deleting(live):
        return Plan()
    document = render(_with_serial(records_of(observed.proxies, settings), live))
    name = dnsconfig["metadata"]["name"]
    metadata = {
        "labels": nameserver_labels(name, settings.namespace),
        "ownerReferences": [owner_reference(DNSCONFIG, name, uid(dnsconfig))],
    }
    body: Object = {"metadata": metadata, "data": {RECORDS_KEY: document}}
    if live is None:
        identity = {"namespace": settings.namespace, "name": CONFIGMAP_NAME}
        head = {"apiVersion": CONFIGMAP.api_version, "kind": CONFIGMAP.kind}
        return Plan(apply=[{**head, **body, "metadata": {**identity, **metadata}}])
    if contains(live, body):
        return Plan()
    metadata["resourceVersion"] = live["metadata"]["resourceVersion"]
    return Plan(apply=[Patch(CONFIGMAP, key_of(live), body)])


def records_of(proxies: Iterable[NamedProxy], settings: Settings) -> Records:
    """Return the records of *proxies*; a name whose proxies are all down has no address, but exists."""
    found: dict[str, set[str]] = {}
    for proxy in proxies:
        if name := _name(proxy, settings):
            found.setdefault(name, set()).update(_ready_addresses(proxy.slices))
    ip4 = {name: _of_version(4, addresses) for name, addresses in found.items()}
    ip6 = {name: of6 for name, addresses in found.items() if (of6 := _of_version(6, addresses))}
    return Records(ip4=ip4, ip6=ip6, zones=list(settings.zones))


def _name(proxy: NamedProxy, settings: Settings) -> str:
    """Return the name that *proxy* answers to, folded; empty if it has none, or what it is for is going."""
    parent = proxy.parent
    if parent is None or is_deleting(parent) or is_deleting(proxy.service):
        return ""
    given = annotations(parent)
    if resource_of(parent) == INGRESS:
        asks = parent["spec"].get("ingressClassName") == settings.ingress_class and not given.get(PROXY_GROUP)
    else:
        asks = bool(given.get(ANNOTATION_TAILNET_FQDN)) and PROXY_GROUP not in given
    return annotations(proxy.service).get(ANNOTATION_MAGIC_DNSNAME, "").removesuffix(".").lower() if asks else ""


def _ready_addresses(slices: Iterable[Object]) -> Iterator[str]:
    for endpoint_slice in slices:
        for endpoint in endpoint_slice.get("endpoints") or ():
            if _is_ready(endpoint.get("conditions") or {}):
                yield from endpoint.get("addresses") or ()


def _is_ready(conditions: Object) -> bool:
    """What a condition doesn't say counts as good."""
    return (
        conditions.get("ready") is not False
        and conditions.get("serving") is not False
        and conditions.get("terminating") is not True
    )


def _of_version(version: int, addresses: Iterable[str]) -> list[str]:
    """Return those of *addresses* that are of IP *version*, in order; a zone or a name is no address to serve."""
    parsed = set()
    for address in addresses:
        try:
            parsed.add(ipaddress.ip_address(address))
        except ValueError:
            continue
    return [
        str(ip) for ip in sorted(ip for ip in parsed if ip.version == version and not getattr(ip, "scope_id", None))
    ]


def _with_serial(records: Records, configmap: Object | None) -> Records:
    """Return *records* with the serial that the ConfigMap has, moved on if they differ; what can't be read is
    replaced.
    """
    document = ((configmap or {}).get("data") or {}).get(RECORDS_KEY)
    try:
        last = parse(document) if document else Records()
    except RecordsError:
        last = Records()
    serial = last.serial or 0
    same = last.model_copy(update={"serial": None}) == records
    return records.model_copy(update={"serial": serial if same and serial else (serial + 1) % _SERIALS or 1})
