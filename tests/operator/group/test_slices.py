"""The EndpointSlices of a Service at a ProxyGroup, and the proxies in them."""

from dataclasses import replace
from typing import NamedTuple

import pytest
from tsoperator.api.objects import Object
from tsoperator.group.proxygroup import Group
from tsoperator.group.slices import connected_pods, endpoint_slices, families, serves, serving_pods, without_newcomers
from tsoperator.proxy.entries import Entry, Port

from tests.operator.group.places import BOTH, ENTRY, IPS, PLACE, PORT, group, place, pod, report, serving
from tests.support.objects import deleting, down, endpoint, stored

IP4, IP6 = "10.0.0.1", "2001:db8::1"
FEWER_PORTS = replace(ENTRY, ports=frozenset())


def one(pod: Object, **reports: object) -> Group:
    """Return a group whose only Pod is *pod*. The proxy in this Pod reports what `report` makes from *reports*."""
    return group(pods=[pod], reports={"egress-0": report(**reports)})  # type: ignore[arg-type]


class Case(NamedTuple):
    group: Group
    serving4: int = 0
    serving6: int = 0
    entry: Entry | None = ENTRY


CASES = {
    "both": Case(group(), 2),
    "one": Case(group(1), 1),
    "none": Case(group(0)),
    "not configured": Case(group(), entry=None),
    "leaving": Case(one(deleting(pod(0, IP4)), ip4=IP4)),
    "without an address": Case(one(pod(0), ip4=IP4)),
    "another Pod's report": Case(one(pod(0, IP4), ip4="10.0.0.9")),
    "no entry reported": Case(one(pod(0, IP4), ip4=IP4, entry=None)),
    "old ports reported": Case(one(pod(0, IP4), ip4=IP4, entry=FEWER_PORTS)),
    "old target reported": Case(one(pod(0, IP4), ip4=IP4, entry=replace(ENTRY, fqdn="old.tail1234.ts.net"))),
    "dual stack": Case(one(pod(0, IP4, IP6), ip4=IP4, ip6=IP6), 1, 1),
    "IPv4 alone": Case(one(pod(0, IP4), ip4=IP4), 1),
    "IPv6 alone": Case(one(pod(0, IP6), ip6=IP6), 0, 1),
    "IPv6 not reported": Case(one(pod(0, IP4, IP6), ip4=IP4), 1),
    "report of a Pod that is gone": Case(group(pods=[]), 0),
    "one of two down": Case(group(pods=[down(pod(0, IP4)), pod(1, "10.0.0.2")]), 1),
    "both down": Case(group(pods=[down(pod(0, IP4)), down(pod(1, "10.0.0.2"))]), 2),
    "down, and the other one doesn't serve": Case(group(1, pods=[down(pod(0, IP4)), pod(1, "10.0.0.2")]), 1),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_proxy_serves_an_entry_if_its_report_has_the_entry_and_the_address_of_its_pod(case: Case) -> None:
    found = [serving_pods(case.group, "default-db", case.entry, version) for version in (4, 6)]
    assert [len(each.get(PORT, ())) for each in found] == [case.serving4, case.serving6]


def test_a_pod_that_is_down_gets_no_connections_if_another_pod_serves() -> None:
    pods = [down(pod(0, IP4)), pod(1, "10.0.0.2")]
    assert serving_pods(group(pods=pods), "default-db", ENTRY, 4) == {PORT: [pods[1]]}


@pytest.mark.parametrize(
    ("new", "led", "leading"),
    [
        ((), (), (0, 1)),
        ((1,), (), (0,)),
        ((1,), (0,), (0,)),
        ((1,), (0, 1), (0, 1)),
        ((1,), (1,), (0, 1)),
        ((0, 1), (), (0, 1)),
        ((0, 1), (0,), (0, 1)),
    ],
)
def test_a_new_pod_gets_no_connections_while_an_older_pod_serves(
    new: tuple[int, ...], led: tuple[int, ...], leading: tuple[int, ...]
) -> None:
    pods = [pod(ordinal) for ordinal in range(2)]
    fresh = Group("egress", new={pods[each]["metadata"]["uid"]: 1.0 for each in new})
    found = without_newcomers(fresh, pods, {pods[each]["metadata"]["uid"] for each in led})
    assert found == [pods[each] for each in leading]


def test_each_ip_family_of_the_service_has_an_endpointslice_as_the_go_operator_makes_it() -> None:
    own = place()["metadata"]["labels"]
    service = place(ips=BOTH, labels={**own, "example.org/team": "db"})
    made = endpoint_slices(service, service["spec"]["ports"], {4: serving(pod(0, IP4, IP6)), 6: serving()})
    assert [(each["metadata"]["name"], each["addressType"]) for each in made] == [
        (f"{PLACE}-ipv4", "IPv4"),
        (f"{PLACE}-ipv6", "IPv6"),
    ]
    assert made[0]["metadata"]["labels"] == own | {
        "kubernetes.io/service-name": PLACE,
        "endpointslice.kubernetes.io/managed-by": "tailscale.com",
    }
    assert made[0]["ports"] == [
        {"name": "tailscale-unnamed", "protocol": "TCP", "port": 10437},
        {"name": "tailscale-health-check", "protocol": "TCP", "port": 9002},
    ]
    conditions = {"ready": True, "serving": True, "terminating": False}
    assert made[0]["endpoints"] == [{"addresses": [IP4], "hostname": "egress-0-uid", "conditions": conditions}]
    assert made[1]["endpoints"] == []


ADDED = Port("UDP", 10001, 53)
WITH_DNS = place()
WITH_DNS["spec"]["ports"].insert(1, {"name": "dns", "protocol": "UDP", "port": 53, "targetPort": 10001})
FIRST, SECOND, THIRD = pod(0, IP4), pod(1, "10.0.0.2"), pod(2, "10.0.0.3")
SQL, DNS, CHECKS = "tailscale-unnamed", "dns", "tailscale-health-check"


@pytest.mark.parametrize(
    ("sql", "dns", "led"),
    [
        ([], [], {(SQL, DNS, CHECKS): []}),
        ([FIRST, SECOND], [], {(DNS,): [], (SQL, CHECKS): [FIRST, SECOND]}),
        ([FIRST, SECOND], [FIRST], {(DNS,): [FIRST], (SQL, CHECKS): [FIRST, SECOND]}),
        ([FIRST, SECOND], [FIRST, SECOND], {(SQL, DNS, CHECKS): [FIRST, SECOND]}),
        ([FIRST], [SECOND], {(SQL,): [FIRST], (DNS,): [SECOND], (CHECKS,): [FIRST, SECOND]}),
        ([SECOND, THIRD], [FIRST, SECOND, THIRD], {(SQL,): [SECOND, THIRD], (DNS, CHECKS): [FIRST, SECOND, THIRD]}),
    ],
    ids=["none", "a new port", "read by one", "read by all", "one port each", "an old port read by fewer"],
)
def test_each_port_leads_to_the_pods_that_serve_it_and_ports_with_the_same_pods_share_a_slice(
    sql: list[Object], dns: list[Object], led: dict[tuple[str, ...], list[Object]]
) -> None:
    made = endpoint_slices(WITH_DNS, WITH_DNS["spec"]["ports"], {4: {PORT: sql, ADDED: dns}})
    found = {
        tuple(each["name"] for each in slice_["ports"]): [each["hostname"] for each in slice_["endpoints"]]
        for slice_ in made
    }
    assert found == {ports: [pod["metadata"]["uid"] for pod in pods] for ports, pods in led.items()}
    assert len({each["metadata"]["name"] for each in made}) == len(made)
    assert made[-1]["metadata"]["name"] == f"{PLACE}-ipv4"


def test_the_name_of_an_additional_slice_depends_on_its_ports() -> None:
    names = set()
    for target in (10001, 10002):
        ports = [{"name": "dns", "protocol": "UDP", "port": 53, "targetPort": target}]
        made = endpoint_slices(place(), [*place()["spec"]["ports"], *ports], {4: serving(FIRST)})
        names |= {each["metadata"]["name"] for each in made}
    assert len(names) == 3


def test_a_proxy_serves_the_ports_that_it_reports_and_no_others() -> None:
    wanted = replace(ENTRY, ports=ENTRY.ports | {ADDED})
    changed = replace(ENTRY, ports=frozenset([Port("TCP", 10437, 80), ADDED]))
    reports = {"egress-0": report(IP4), "egress-1": report("10.0.0.2", entry=changed)}
    assert serving_pods(group(reports=reports), "default-db", wanted, 4) == {PORT: [FIRST], ADDED: [SECOND]}


def test_the_ip_families_of_a_service_are_those_of_its_cluster_ips() -> None:
    specs: list[Object] = [{"clusterIPs": BOTH}, {"clusterIPs": BOTH[1:]}, {"clusterIP": IPS[0]}]
    specs += [{"clusterIP": "None"}, {}]
    assert [families({"spec": spec}) for spec in specs] == [[4, 6], [6], [4], [], []]


def slice_of(service: Object, version: int, *endpoints: Object) -> Object:
    (made,) = endpoint_slices(service, [], {version: {}})
    return {**stored(made), "endpoints": [*endpoints] or None}


SINGLE, DUAL = place(), place(ips=BOTH)
UP = slice_of(SINGLE, 4, endpoint(IP4))


def test_the_pods_to_which_a_service_leads_are_read_from_the_endpointslices_of_the_service() -> None:
    service, other = place(), place("other")
    made = endpoint_slices(service, [], {4: serving(pod(0, IP4)), 6: {}})
    made += endpoint_slices(other, [], {4: serving(pod(1, IP4))})
    assert connected_pods(service, [*made, slice_of(service, 6)]) == {"egress-0-uid"}


def test_a_place_serves_if_each_of_its_addresses_and_ports_leads_to_a_proxy() -> None:
    assert serves(SINGLE, [UP])
    assert serves(DUAL, [slice_of(DUAL, 4, endpoint(IP4)), slice_of(DUAL, 6, endpoint(IP6))])
    for service, slices in (
        (SINGLE, []),
        (SINGLE, [slice_of(SINGLE, 4)]),
        (SINGLE, [deleting(UP)]),
        (SINGLE, [slice_of(place("other"), 4, endpoint(IP4))]),
        (DUAL, [slice_of(DUAL, 4, endpoint(IP4))]),
        (DUAL, [slice_of(DUAL, 4, endpoint(IP4)), slice_of(DUAL, 6)]),
        (SINGLE, [UP, slice_of(SINGLE, 4)]),
        (SINGLE, [slice_of(SINGLE, 4), UP]),
        (deleting(SINGLE), [UP]),
        ({**SINGLE, "spec": {}}, [UP]),
    ):
        assert not serves(service, slices)
