"""Builders of an egress Service's place at a ProxyGroup, and of the group's objects, for the tables of this folder."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tsoperator.api.conditions import condition, set_condition
from tsoperator.api.names import CONDITION_PROXYGROUP_AVAILABLE
from tsoperator.api.objects import CONFIGMAP, POD, PROXYGROUP, Key, Object
from tsoperator.group.clusterip import Target, cluster_ip_service, place_labels
from tsoperator.group.egress import entry_of
from tsoperator.group.places import Places
from tsoperator.group.ports import Wanted
from tsoperator.group.proxygroup import Group
from tsoperator.group.slices import Serving, endpoint_slices
from tsoperator.proxy.entries import Entry, Port, ProxyReport, render_entries, slim_configmap
from tsoperator.runtime.ownership import Owner

from tests.support.objects import FQDN, OPERATOR_NAMESPACE, obj, stored

OWNER = Owner("svc", Key("default", "db"))
GROUP = "egress"
PLACE = "ts-db-place"
PORTS = {Wanted("TCP", 5432): 10437}
PORT = Port("TCP", 10437, 5432)
NAMES = {Wanted("TCP", 5432): "tailscale-unnamed"}
CLUSTER_DOMAIN = "k8s.example.org"
IPS = ["192.0.2.50"]
BOTH = [*IPS, "2001:db8::50"]


def place(name: str = PLACE, group: str = GROUP, ips: Sequence[str] = IPS, **metadata: Any) -> Object:
    """Return the live ClusterIP Service *name*, which is in front of the proxies of *group* for the Service default/db.

    It has the cluster IPs *ips*, and *metadata*.
    """
    made = cluster_ip_service(Key(OPERATOR_NAMESPACE, name), place_labels(OWNER, group), Target(FQDN, ""), PORTS, NAMES)
    live = stored(made, **metadata)
    return {**live, "spec": {**live["spec"], "clusterIP": ips[0], "clusterIPs": [*ips]}}


_made = entry_of(place(), CLUSTER_DOMAIN)
assert _made is not None
ENTRY: Entry = _made


def live_group(*, available: bool = True, **spec: Any) -> Object:
    """Return a ProxyGroup with two replicas, of type egress unless *spec* says otherwise."""
    shown = set_condition([], [condition(CONDITION_PROXYGROUP_AVAILABLE, available, "Test", "")], "")
    content = {"spec": {"type": "egress", "replicas": 2, **spec}, "status": {"conditions": shown}}
    return obj(PROXYGROUP, Key("", GROUP), content)


def pod(ordinal: int, *ips: str, **metadata: Any) -> Object:
    """Return a Pod of the group with the addresses *ips*."""
    status = {"podIPs": [{"ip": ip} for ip in ips]}
    return obj(POD, Key(OPERATOR_NAMESPACE, f"{GROUP}-{ordinal}"), {"status": status}, **metadata)


def serving(*pods: Object) -> Serving:
    """Return a map from the port of the Service default/db to *pods*, which serve the port."""
    return {PORT: pods}


def configmap(entries: dict[str, Entry] | None = None, **annotations: str) -> Object:
    """Return the slim ConfigMap of the group, with the entry of the Service default/db unless *entries* are given."""
    written = {"default-db": ENTRY} if entries is None else entries
    data = {"binaryData": {"egress-services": render_entries(written)}}
    key = Key(OPERATOR_NAMESPACE, f"{GROUP}-egress-config")
    return slim_configmap(obj(CONFIGMAP, key, data, annotations=annotations))


def report(ip4: str = "", ip6: str = "", entry: Entry | None = ENTRY) -> ProxyReport:
    """Return the report of a proxy at these addresses, with *entry* or, if that is None, without entries."""
    return ProxyReport(ip4, ip6, {"default-db": entry} if entry else {})


POD_IPS = ("10.0.0.1", "10.0.0.2")


def group(serving: int = 2, **changes: Any) -> Group:
    """Return the group with two replicas, of which the first *serving* replicas report the Service's entry."""
    found: dict[str, Any] = {
        "obj": live_group(),
        "configmap": configmap(),
        "pods": [pod(ordinal, ip) for ordinal, ip in enumerate(POD_IPS)],
        "reports": {f"{GROUP}-{ordinal}": report(ip) for ordinal, ip in enumerate(POD_IPS[:serving])},
    }
    return Group(GROUP, **{**found, **changes})


GRACE = 10.0
"""Seconds for which an old place stays in these tests."""
NEW_PLACE, OLD_PLACE, THIRD_PLACE = place("ts-db-new"), place("ts-db-old", "old"), place("ts-db-third", "third")


def slice_of(service: Object, *pods: Object) -> Object:
    """Return the live EndpointSlice of a ClusterIP Service, with *pods* as its endpoints."""
    (made,) = endpoint_slices(service, service["spec"]["ports"], {4: serving(*pods)})
    return stored(made)


NEW_UP, NEW_DOWN = slice_of(NEW_PLACE, pod(0, "10.0.0.1")), slice_of(NEW_PLACE)
OLD_UP, OLD_DOWN = slice_of(OLD_PLACE, pod(0, "10.0.0.1")), slice_of(OLD_PLACE)
GROUPS = {name: replace(group(), name=name) for name in (GROUP, "old", "third")}


def moving(services: Sequence[Object], slices: Sequence[Object], ages: Mapping[str, float], **more: Any) -> Places:
    """Return the `Places` of a Service that moves to the group. *more* are further fields of the result."""
    found = {"ports": PORTS, "cluster_domain": CLUSTER_DOMAIN, "move_grace": GRACE, **more}
    return Places(services, slices, GROUPS, ages=ages, **found)
