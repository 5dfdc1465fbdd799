"""Which name a proxy answers to, and at which addresses."""

from dataclasses import replace
from typing import NamedTuple

import pytest
from tsoperator.api.objects import Key, Object, key_of
from tsoperator.desired.children import Owner
from tsoperator.reconcilers.dnsrecords.records import NamedProxy, Record, record_of

from tests.support.objects import (
    FQDN,
    deleting,
    egress_service,
    endpoint,
    endpoint_slice,
    headless,
    live_ingress,
    settings,
)

UP = endpoint_slice("ts-db", endpoint("192.0.2.1"))
UP6 = endpoint_slice("ts-db", endpoint("2001:db8::1"))
EMPTY = endpoint_slice("ts-db")


def proxy(*slices: Object, parent: Object | None = None, name: str = FQDN, **metadata: str) -> NamedProxy:
    """The proxy of *parent*, an egress Service if it isn't given, whose own Service carries *name*."""
    user_object = egress_service() if parent is None else parent
    owner = Owner("ingress" if user_object["kind"] == "Ingress" else "svc", key_of(user_object))
    return NamedProxy(headless(owner, "uid", "ts-db", name, **metadata), user_object, slices)


def both(proxy: NamedProxy) -> tuple[Object, Object]:
    """The record of *proxy* by family, as a document has it."""
    record = record_of(proxy, settings())
    if record is None:
        return {}, {}
    return {record.name: list(record.ip4)}, {record.name: list(record.ip6)} if record.ip6 else {}


class Named(NamedTuple):
    parent: Object | None
    name: str
    served: str


@pytest.mark.parametrize(
    "case",
    [
        Named(egress_service(), FQDN, FQDN),
        Named(egress_service(), "DB.Tail1234.TS.net.", FQDN),
        Named(egress_service(), "", ""),
        Named(egress_service({"tailscale.com/tailnet-ip": "100.64.0.1"}), FQDN, ""),
        Named(egress_service({"tailscale.com/tailnet-fqdn": ""}), FQDN, ""),
        Named(egress_service({"tailscale.com/tailnet-fqdn": FQDN, "tailscale.com/proxy-group": "g"}), FQDN, ""),
        Named(egress_service({}), FQDN, ""),
        Named(deleting(egress_service()), FQDN, ""),
        Named(live_ingress(), "web.tail1234.ts.net", "web.tail1234.ts.net"),
        Named(live_ingress(), "", ""),
        Named(live_ingress(spec={"ingressClassName": "nginx"}), "web.tail1234.ts.net", ""),
        Named(live_ingress({"tailscale.com/proxy-group": "g"}), "web.tail1234.ts.net", ""),
        Named(deleting(live_ingress()), "web.tail1234.ts.net", ""),
    ],
)
def test_a_name_is_served_while_its_parent_asks_for_it(case: Named) -> None:
    assert both(proxy(UP, parent=case.parent, name=case.name))[0] == (
        {case.served: ["192.0.2.1"]} if case.served else {}
    )


GROUPED = egress_service({"tailscale.com/tailnet-fqdn": f"{FQDN.upper()}.", "tailscale.com/proxy-group": "g"})
IPS = {"clusterIP": "192.0.2.50", "clusterIPs": ["192.0.2.50", "2001:db8::50"]}


def grouped(parent: Object = GROUPED, name: str = "", labels: Object | None = None, **spec: object) -> NamedProxy:
    """What a ProxyGroup's reconcilers made of *parent*, whose proxies' own addresses are in EndpointSlices."""
    made = proxy(UP, parent=parent, name=name)
    more = {"tailscale.com/proxy-group": "g", "tailscale.com/svc-type": "egress"} if labels is None else labels
    metadata = {**made.service["metadata"], "labels": {**made.service["metadata"]["labels"], **more}}
    spec = {"type": "ClusterIP", **(spec or IPS)}
    return NamedProxy({**made.service, "metadata": metadata, "spec": spec}, made.parent, made.slices)


def test_a_name_that_a_proxygroup_leads_to_has_its_services_addresses() -> None:
    assert both(grouped()) == ({FQDN: ["192.0.2.50"]}, {FQDN: ["2001:db8::50"]})


class Grouped(NamedTuple):
    proxy: NamedProxy
    records: Object


@pytest.mark.parametrize(
    "case",
    [
        Grouped(grouped(clusterIP="192.0.2.51"), {FQDN: ["192.0.2.51"]}),
        Grouped(grouped(clusterIP=""), {FQDN: []}),
        Grouped(grouped(clusterIP="None"), {FQDN: []}),
        Grouped(grouped(name="old.tail1234.ts.net"), {"old.tail1234.ts.net": ["192.0.2.50"]}),
        Grouped(grouped(egress_service()), {}),
        Grouped(grouped(egress_service({"tailscale.com/proxy-group": "g"}), FQDN), {}),
        Grouped(grouped(labels={"tailscale.com/proxy-group": "g"}), {}),
        Grouped(grouped(type="ExternalName"), {}),
        Grouped(grouped(deleting(GROUPED)), {}),
    ],
)
def test_a_proxygroups_name_is_served_while_its_parent_asks_for_it(case: Grouped) -> None:
    assert both(case.proxy)[0] == case.records


def test_a_proxy_whose_parent_is_gone_has_no_name() -> None:
    orphan = NamedProxy(headless(Owner("svc", Key("default", "db")), "uid", "ts-db", FQDN), None, [UP])
    assert both(orphan) == ({}, {})


class Unknown(NamedTuple):
    proxy: NamedProxy
    records: Object


@pytest.mark.parametrize(
    "case",
    [
        Unknown(proxy(UP, name=f"{FQDN.upper()}."), {FQDN: ["192.0.2.1"]}),
        Unknown(proxy(UP, parent=live_ingress(), name="web.tail1234.ts.net"), {"web.tail1234.ts.net": ["192.0.2.1"]}),
        Unknown(proxy(EMPTY), {FQDN: []}),
        Unknown(proxy(UP, name=""), {}),
        Unknown(proxy(UP, deletionTimestamp="2026-01-02T03:04:05Z"), {}),
        Unknown(grouped(name=FQDN), {FQDN: ["192.0.2.50"]}),
        Unknown(grouped(), {}),
        Unknown(grouped(name=FQDN, type="ExternalName"), {}),
    ],
)
def test_a_proxy_of_whose_parent_nothing_is_known_keeps_its_name_and_follows_its_pods(case: Unknown) -> None:
    assert both(replace(case.proxy, parent=None, watched=False))[0] == case.records


def test_a_proxys_service_that_goes_takes_the_name_along() -> None:
    assert both(proxy(UP, deletionTimestamp="2026-01-02T03:04:05Z")) == ({}, {})


def test_the_class_of_ingresses_can_be_another() -> None:
    private = proxy(UP, parent=live_ingress(spec={"ingressClassName": "private"}), name="web.tail1234.ts.net")
    assert record_of(private, settings(ingress_class="private")) == Record("web.tail1234.ts.net", ("192.0.2.1",), ())


def test_families_are_apart() -> None:
    assert both(proxy(UP, UP6)) == ({FQDN: ["192.0.2.1"]}, {FQDN: ["2001:db8::1"]})


def test_a_v6_only_name_exists_in_both_and_has_no_v4() -> None:
    assert both(proxy(UP6)) == ({FQDN: []}, {FQDN: ["2001:db8::1"]})


@pytest.mark.parametrize(
    "slices",
    [[], [EMPTY], [{**EMPTY, "endpoints": None}], [endpoint_slice("ts-db", endpoint("192.0.2.1", ready=False))]],
)
def test_a_name_whose_proxies_are_all_down_has_no_address_but_exists(slices: list[Object]) -> None:
    assert both(proxy(*slices)) == ({FQDN: []}, {})


class Ready(NamedTuple):
    conditions: dict[str, bool | None]
    ready: bool


@pytest.mark.parametrize(
    "case",
    [
        Ready({}, True),
        Ready({"ready": True}, True),
        Ready({"ready": None, "serving": None, "terminating": None}, True),
        Ready({"ready": True, "serving": True, "terminating": False}, True),
        Ready({"ready": False}, False),
        Ready({"ready": True, "serving": False}, False),
        Ready({"ready": True, "terminating": True}, False),
    ],
)
def test_a_condition_that_is_not_given_counts_as_ready(case: Ready) -> None:
    found = endpoint_slice("ts-db", endpoint("192.0.2.1", **case.conditions))
    assert both(proxy(found))[0] == {FQDN: ["192.0.2.1"] if case.ready else []}


def test_null_conditions_and_addresses_are_none() -> None:
    found = endpoint_slice("ts-db", {"addresses": None}, {**endpoint("192.0.2.1"), "conditions": None})
    assert both(proxy(found))[0] == {FQDN: ["192.0.2.1"]}


def test_of_two_endpoints_only_the_ready_one_is_served() -> None:
    found = endpoint_slice("ts-db", endpoint("192.0.2.1", ready=False), endpoint("192.0.2.2"))
    assert both(proxy(found))[0] == {FQDN: ["192.0.2.2"]}


def test_addresses_are_in_order_as_numbers_and_once_each() -> None:
    found = endpoint_slice("ts-db", endpoint("192.0.2.10", "192.0.2.9", "2001:db8::a", "2001:db8::9", "192.0.2.10"))
    longer = endpoint_slice("ts-db", endpoint("2001:0db8::0009"))
    assert both(proxy(found, longer)) == ({FQDN: ["192.0.2.9", "192.0.2.10"]}, {FQDN: ["2001:db8::9", "2001:db8::a"]})


@pytest.mark.parametrize(
    "address", ["2001:db8::1%eth0", "db.example.org", "", "192.0.2.256", "192.0.2.0/24", "192.0.2.01"]
)
def test_a_text_that_is_no_address_to_serve_is_left_out(address: str) -> None:
    assert both(proxy(endpoint_slice("ts-db", endpoint(address, "192.0.2.1")))) == ({FQDN: ["192.0.2.1"]}, {})
