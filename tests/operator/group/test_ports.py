"""The ports at which the proxies of a group listen: which are allocated, and which a Service gets."""

import pytest
from tsoperator.group.ports import FIRST_PORT, PORT_COUNT, Wanted, allocate, allocated

from tests.support.objects import egress_service

SQL, DNS, DNS_TCP = Wanted("TCP", 5432), Wanted("UDP", 53), Wanted("TCP", 53)
ALL_PORTS = range(FIRST_PORT, FIRST_PORT + PORT_COUNT)


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
def test_the_proxies_port_for_a_port_of_a_service_stays_as_long_as_the_service_has_that_port(
    wanted: list[Wanted], before: dict[Wanted, int], kept: dict[Wanted, int]
) -> None:
    found = allocate("db-uid", wanted, before, ()) or {}
    assert list(found.items())[: len(kept)] == list(kept.items())
    assert found.keys() == {*wanted}
    assert {*found.values()} <= {*ALL_PORTS}


def test_the_ports_allocated_to_a_service_are_the_same_each_time_and_differ_between_services() -> None:
    found = [allocate(uid, [SQL], {}, ()) for uid in ("a", "a", "b")]
    assert found[0] == found[1] != found[2]


def test_the_only_free_port_is_allocated_wherever_it_is_in_the_range() -> None:
    for free in (FIRST_PORT, FIRST_PORT + 500, FIRST_PORT + PORT_COUNT - 1):
        assert allocate("db-uid", [SQL], {}, set(ALL_PORTS) - {free}) == {SQL: free}


def numbered(count: int) -> list[Wanted]:
    return [Wanted("TCP", number) for number in range(1, count + 1)]


def test_a_service_gets_different_proxy_ports_for_all_its_ports_or_none_if_too_few_are_free() -> None:
    assert sorted((allocate("db-uid", numbered(PORT_COUNT), {}, ()) or {}).values()) == [*ALL_PORTS]
    (alone,) = (allocate("db-uid", [SQL], {}, ()) or {}).values()
    assert len({*(allocate("db-uid", [DNS, SQL], {DNS: alone}, ()) or {}).values()}) == 2
    for count, used in ((1, ALL_PORTS), (PORT_COUNT + 1, ()), (2, ALL_PORTS[1:])):
        assert allocate("db-uid", numbered(count), {}, {*used}) is None
