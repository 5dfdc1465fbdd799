"""The entry of a ClusterIP Service at a group, and the index that finds such Services by their group."""

from dataclasses import replace

import pytest
from tsoperator.api.names import HEALTH_PORT_NAME
from tsoperator.api.objects import SERVICE, Key, Object
from tsoperator.group import egress as egressgroup
from tsoperator.proxy.entries import Entry, Port

from tests.support.objects import obj

FQDN = "db.tail1234.ts.net"
URL = "http://ts-db-x7k2p.tailscale.svc.cluster.local:9002/healthz"

# The example of docs/development/groups.md.
DATABASE = Entry(FQDN, "", frozenset([Port("TCP", 10437, 5432)]), URL)
LABELS = {
    "tailscale.com/managed": "true",
    "tailscale.com/parent-resource-type": "svc",
    "tailscale.com/parent-resource": "db",
    "tailscale.com/parent-resource-ns": "default",
    "tailscale.com/proxy-group": "foo",
    "tailscale.com/svc-type": "egress",
}
TCP: Object = {"name": "tailscale-unnamed", "protocol": "TCP", "port": 5432, "targetPort": 10437}
HEALTH: Object = {"name": HEALTH_PORT_NAME, "protocol": "TCP", "port": 9002, "targetPort": 9002}


def service(*ports: Object, **leading: str) -> Object:
    """Return the ClusterIP Service, with *ports*, of an egress Service. The keyword *fqdn* or *ip* is the target."""
    notes = {f"tailscale.com/operator-last-set-ts-tailnet-target-{name}": value for name, value in leading.items()}
    key = Key("tailscale", "ts-db-x7k2p")
    return obj(SERVICE, key, {"spec": {"ports": [*ports]}}, annotations=notes, labels=LABELS)


USERS = service({**TCP, "port": 9002}, {**HEALTH, "port": 9003}, fqdn=FQDN)
UNNAMED = service({"port": 53, "targetPort": 10001}, {"protocol": "UDP", "port": 53, "targetPort": 10002}, fqdn=FQDN)
DNS = frozenset([Port("TCP", 10001, 53), Port("UDP", 10002, 53)])
AT_9004 = replace(DATABASE, health_check=URL.replace("9002", "9004"))
LED = {
    "a name": (service(TCP, HEALTH, fqdn=FQDN), DATABASE),
    "an address": (service(TCP, HEALTH, ip="100.64.0.1"), Entry("", "100.64.0.1", DATABASE.ports, URL)),
    "both": (service(TCP, HEALTH, fqdn=FQDN, ip="100.64.0.1"), DATABASE),
    "the Go operator's": (service(TCP, HEALTH), None),
    "no health port": (service(TCP, fqdn=FQDN), Entry(FQDN, "", DATABASE.ports)),
    "the health port alone": (service(HEALTH, fqdn=FQDN), Entry(FQDN, "", frozenset(), URL)),
    "no ports": (service(fqdn=FQDN), Entry(FQDN, "", frozenset())),
    "another health port": (service(TCP, {**HEALTH, "port": 9004}, fqdn=FQDN), AT_9004),
    "a user's port 9002": (USERS, Entry(FQDN, "", frozenset([Port("TCP", 10437, 9002)]), URL.replace("9002", "9003"))),
    "no protocol, no name": (UNNAMED, Entry(FQDN, "", DNS)),
    "a target port by name": (service({**TCP, "targetPort": "sql"}, HEALTH, fqdn=FQDN), None),
    "a health port by name": (service(TCP, {**HEALTH, "targetPort": "health"}, fqdn=FQDN), DATABASE),
    "no target port": (service({"port": 5432}, fqdn=FQDN), None),
}


@pytest.mark.parametrize(("given", "entry"), LED.values(), ids=LED)
def test_the_entry_of_a_clusterip_service_has_its_target_its_ports_and_its_health_url(
    given: Object, entry: Entry | None
) -> None:
    assert egressgroup.entry_of(given, "cluster.local") == entry


def test_the_entry_of_a_service_has_a_health_url_in_the_domain_of_the_cluster() -> None:
    made = [egressgroup.health_url(service(TCP, HEALTH, **to), "cluster.example") for to in ({"fqdn": FQDN}, {})]
    assert made == ["http://ts-db-x7k2p.tailscale.svc.cluster.example:9002/healthz"] * 2


def test_an_index_finds_a_child_by_the_group_that_serves_it() -> None:
    others = {"tailscale.com/svc-type": "ingress", "tailscale.com/managed": "false", "tailscale.com/proxy-group": ""}
    given = [LABELS, *({**LABELS, name: value} for name, value in others.items())]
    children = [obj(SERVICE, Key("tailscale", "x"), labels=labels) for labels in given]
    assert [tuple(egressgroup.by_serving_group(child)) for child in children] == [("foo",), (), (), ()]


def test_the_labels_of_a_clusterip_service_at_a_group_name_the_users_service() -> None:
    assert egressgroup.served_service(service()) == Key("default", "db")


def test_the_name_of_an_entry_is_the_name_that_the_go_operator_gives_to_the_entry() -> None:
    assert egressgroup.entry_name(Key("default", "db")) == "default-db"
