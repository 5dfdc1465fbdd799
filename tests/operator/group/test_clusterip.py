"""The ClusterIP Service in front of a ProxyGroup's proxies, and the ports at which the proxies listen."""

import pytest
from tsoperator.api.objects import Key, Object
from tsoperator.group.clusterip import (
    FIRST_PORT,
    PORT_COUNT,
    Target,
    Wanted,
    allocate,
    allocated,
    cluster_ip_service,
    is_place,
    new_name,
    place_labels,
)

from tests.operator.group.places import NAMES, OWNER, PLACE, place, user_service
from tests.support.objects import egress_service

KEY = Key("tailscale", "ts-db-x7k2p")
SQL, DNS, DNS_TCP = Wanted("TCP", 5432), Wanted("UDP", 53), Wanted("TCP", 53)
BY_NAME = Target("db.tail1234.ts.net.", "")
ALL_PORTS = range(FIRST_PORT, FIRST_PORT + PORT_COUNT)


def made(ports: dict[Wanted, int], target: Target = BY_NAME) -> Object:
    names = NAMES if SQL in ports else dict.fromkeys(ports, "a")
    return cluster_ip_service(KEY, place_labels(OWNER, "foo"), target, ports, names)


def test_the_clusterip_service_is_as_the_go_operator_makes_it_and_names_its_target() -> None:
    service = made({SQL: 10437})
    assert service["metadata"] == {
        "namespace": "tailscale",
        "name": "ts-db-x7k2p",
        "labels": {
            "tailscale.com/managed": "true",
            "tailscale.com/parent-resource-type": "svc",
            "tailscale.com/parent-resource": "db",
            "tailscale.com/parent-resource-ns": "default",
            "tailscale.com/proxy-group": "foo",
            "tailscale.com/svc-type": "egress",
        },
        "annotations": {
            "tailscale.com/operator-last-set-ts-tailnet-target-fqdn": "db.tail1234.ts.net.",
            "tailscale.com/magic-dnsname": "db.tail1234.ts.net",
        },
    }
    assert service["spec"] == {
        "type": "ClusterIP",
        "ipFamilyPolicy": "PreferDualStack",
        "ports": [
            {"name": "tailscale-unnamed", "protocol": "TCP", "port": 5432, "targetPort": 10437},
            {"name": "tailscale-health-check", "protocol": "TCP", "port": 9002, "targetPort": 9002},
        ],
    }


def test_the_clusterip_service_for_an_address_has_no_magicdns_name() -> None:
    notes = made({SQL: 10437}, Target("", "100.64.0.9"))["metadata"]["annotations"]
    assert notes == {"tailscale.com/operator-last-set-ts-tailnet-target-ip": "100.64.0.9"}


def test_the_health_port_avoids_the_users_ports() -> None:
    for numbers, health in (((9001, 9003), 9002), ((9002,), 9003), ((9002, 9003), 9004), ((80,), 9002)):
        ports = {Wanted("UDP", number): 10000 + number for number in numbers}
        assert made(ports)["spec"]["ports"][-1]["port"] == health


def test_only_target_ports_in_the_proxies_range_count_as_allocated() -> None:
    ports = [
        {"name": "sql", "port": 5432, "targetPort": 10437},
        {"name": "low", "protocol": "TCP", "port": 1, "targetPort": 9999},
        {"name": "high", "protocol": "TCP", "port": 2, "targetPort": 11000},
        {"name": "named", "protocol": "TCP", "port": 3, "targetPort": "sql"},
        {"name": "tailscale-health-check", "protocol": "TCP", "port": 9002, "targetPort": 10500},
    ]
    live = egress_service(spec={"ports": ports})
    assert (allocated(live), allocated(None)) == ({SQL: 10437}, {})


@pytest.mark.parametrize(
    ("wanted", "before", "kept"),
    [
        ([SQL, DNS], {SQL: 10437}, {SQL: 10437}),
        ([SQL], {SQL: 10437, DNS: 10001}, {SQL: 10437}),
        ([DNS_TCP, SQL], {SQL: 10437, DNS_TCP: 10001}, {SQL: 10437, DNS_TCP: 10001}),
        ([DNS_TCP], {DNS: 10001}, {}),
        ([], {SQL: 10437}, {}),
    ],
    ids=["one more", "one less", "another order", "another protocol", "none"],
)
def test_an_allocated_port_stays_as_long_as_the_service_has_the_port_for_it(
    wanted: list[Wanted], before: dict[Wanted, int], kept: dict[Wanted, int]
) -> None:
    found = allocate("db-uid", wanted, before, ()) or {}
    assert list(found.items())[: len(kept)] == list(kept.items())
    assert found.keys() == {*wanted}
    assert {*found.values()} <= {*ALL_PORTS}


def test_allocation_is_deterministic_and_differs_between_services() -> None:
    found = [allocate(uid, [SQL], {}, ()) for uid in ("a", "a", "b")]
    assert found[0] == found[1] != found[2]


def test_allocation_finds_the_only_free_port_anywhere_in_the_range() -> None:
    for free in (FIRST_PORT, FIRST_PORT + 500, FIRST_PORT + PORT_COUNT - 1):
        assert allocate("db-uid", [SQL], {}, set(ALL_PORTS) - {free}) == {SQL: free}


def numbered(count: int) -> list[Wanted]:
    return [Wanted("TCP", number) for number in range(1, count + 1)]


def test_the_ports_of_one_service_differ_and_it_gets_none_if_too_few_are_free() -> None:
    assert sorted((allocate("db-uid", numbered(PORT_COUNT), {}, ()) or {}).values()) == [*ALL_PORTS]
    for count, used in ((1, ALL_PORTS), (PORT_COUNT + 1, ()), (2, ALL_PORTS[1:])):
        assert allocate("db-uid", numbered(count), {}, {*used}) is None


def test_the_name_of_a_new_place_depends_on_the_service_and_its_group() -> None:
    names = {new_name(user_service(uid=uid), group) for uid in ("a", "b") for group in ("egress", "other")}
    assert (len(names), {name[:6] for name in names}) == (4, {"ts-db-"})


def test_only_a_clusterip_service_for_egress_is_a_place() -> None:
    assert is_place(place(PLACE))
    assert not is_place(egress_service(labels=OWNER.labels))
