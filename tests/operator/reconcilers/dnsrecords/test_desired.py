"""What the nameserver serves."""

import json
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from tsnameserver.records import parse
from tsoperator.api.objects import CONFIGMAP, DNSCONFIG, Key, Object, key_of
from tsoperator.desired.children import Owner
from tsoperator.desired.nameserver import nameserver_labels, owner_reference
from tsoperator.desired.plan import Patch, Plan
from tsoperator.reconcilers.dnsrecords import desired
from tsoperator.reconcilers.dnsrecords.desired import NamedProxy, Observed

from tests.support.objects import (
    FQDN,
    children_of,
    deleting,
    dnsconfig,
    egress_service,
    endpoint,
    endpoint_slice,
    headless,
    ingress,
    obj,
    patches_of,
    settings,
)

SETTINGS = settings()
DNSCONFIG_OBJ = dnsconfig()
METADATA: Object = {
    "labels": nameserver_labels("ts-dns", "tailscale"),
    "ownerReferences": [owner_reference(DNSCONFIG, "ts-dns", "ts-dns-uid")],
}
UP = endpoint_slice("ts-db", endpoint("192.0.2.1"))
UP6 = endpoint_slice("ts-db", endpoint("2001:db8::1"))
EMPTY = endpoint_slice("ts-db")


def proxy(*slices: Object, parent: Object | None = None, name: str = FQDN, **metadata: str) -> NamedProxy:
    """The proxy of *parent*, an egress Service if it isn't given, whose own Service carries *name*."""
    user_object = egress_service() if parent is None else parent
    owner = Owner("ingress" if user_object["kind"] == "Ingress" else "svc", key_of(user_object))
    return NamedProxy(headless(owner, "uid", "ts-db", name, **metadata), user_object, slices)


def both(*proxies: NamedProxy, zones: tuple[str, ...] = ("ts.net",)) -> tuple[Object, Object]:
    """The records of *proxies* by family."""
    records = desired.records_of(proxies, settings(zones=zones))
    return records.ip4, records.ip6


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
        Named(ingress(), "web.tail1234.ts.net", "web.tail1234.ts.net"),
        Named(ingress(), "", ""),
        Named(ingress(spec={"ingressClassName": "nginx"}), "web.tail1234.ts.net", ""),
        Named(ingress({"tailscale.com/proxy-group": "g"}), "web.tail1234.ts.net", ""),
        Named(deleting(ingress()), "web.tail1234.ts.net", ""),
    ],
)
def test_a_name_is_served_while_its_parent_asks_for_it(case: Named) -> None:
    assert both(proxy(UP, parent=case.parent, name=case.name))[0] == (
        {case.served: ["192.0.2.1"]} if case.served else {}
    )


def test_a_proxy_whose_parent_is_gone_has_no_name() -> None:
    orphan = NamedProxy(headless(Owner("svc", Key("default", "db")), "uid", "ts-db", FQDN), None, [UP])
    assert both(orphan) == ({}, {})


def test_a_proxys_service_that_goes_takes_the_name_along() -> None:
    assert both(proxy(UP, deletionTimestamp="2026-01-02T03:04:05Z")) == ({}, {})


def test_the_class_of_ingresses_can_be_another() -> None:
    private = proxy(UP, parent=ingress(spec={"ingressClassName": "private"}), name="web.tail1234.ts.net")
    assert desired.records_of([private], settings(ingress_class="private")).ip4 == {
        "web.tail1234.ts.net": ["192.0.2.1"]
    }


def test_families_are_apart() -> None:
    assert both(proxy(UP, UP6)) == ({FQDN: ["192.0.2.1"]}, {FQDN: ["2001:db8::1"]})


def test_a_v6_only_name_exists_in_both_and_has_no_v4() -> None:
    assert both(proxy(UP6)) == ({FQDN: []}, {FQDN: ["2001:db8::1"]})


def test_two_services_with_one_name_share_their_addresses() -> None:
    other = proxy(endpoint_slice("ts-b", endpoint("192.0.2.2")), parent=egress_service(name="b"))
    assert both(proxy(UP), other) == ({FQDN: ["192.0.2.1", "192.0.2.2"]}, {})


def test_when_one_of_two_services_goes_the_others_addresses_stay() -> None:
    other = proxy(endpoint_slice("ts-b", endpoint("192.0.2.2")), parent=deleting(egress_service(name="b")))
    assert both(proxy(UP), other) == ({FQDN: ["192.0.2.1"]}, {})


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
def test_what_a_condition_does_not_say_counts_as_ready(case: Ready) -> None:
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
def test_what_is_no_address_to_serve_is_left_out(address: str) -> None:
    assert both(proxy(endpoint_slice("ts-db", endpoint(address, "192.0.2.1")))) == ({FQDN: ["192.0.2.1"]}, {})


def test_the_records_name_their_zones() -> None:
    assert desired.records_of([], settings(zones=("ts.net", "tail.example.org"))).zones == [
        "ts.net",
        "tail.example.org",
    ]


ADDRESSES = st.sampled_from(["192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8::1%eth0", "bad"])
PROXIES = st.builds(
    lambda name, addresses, ready: proxy(endpoint_slice("ts-db", endpoint(*addresses, ready=ready)), name=name),
    st.sampled_from([FQDN, "DB.tail1234.ts.net.", "b.tail1234.ts.net", ""]),
    st.lists(ADDRESSES, max_size=3),
    st.none() | st.booleans(),
)


@examples(deadline=None)
@given(st.lists(PROXIES, max_size=5).flatmap(lambda found: st.tuples(st.just(found), st.permutations(found))))
def test_the_order_of_proxies_does_not_matter(orders: tuple[list[NamedProxy], list[NamedProxy]]) -> None:
    one, other = (desired.plan(DNSCONFIG_OBJ, Observed(None, order), SETTINGS) for order in orders)
    assert one == other


def plan(*proxies: NamedProxy, configmap: Object | None = None) -> Plan:
    return desired.plan(DNSCONFIG_OBJ, Observed(configmap, proxies), SETTINGS)


def configmap(document: str | None, **metadata: object) -> Object:
    data = {} if document is None else {"data": {"records.json": document}}
    return obj(CONFIGMAP, Key("tailscale", "dnsrecords"), data, **{**METADATA, **metadata})


def document_of(made: Plan) -> Object:
    """The document that *made* writes, by create or by patch."""
    written = [step.body if isinstance(step, Patch) else step for step in made.apply]
    (content,) = written
    document: Object = json.loads(content["data"]["records.json"])
    return document


def test_a_configmap_that_is_missing_is_made_whole() -> None:
    assert plan(proxy(UP)).apply == [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"namespace": "tailscale", "name": "dnsrecords", **METADATA},
            "data": {
                "records.json": '{"version":"v1alpha1","ip4":{"db.tail1234.ts.net":["192.0.2.1"]},'
                '"zones":["ts.net"],"serial":1}'
            },
        }
    ]


def test_without_proxies_the_document_is_there_and_empty() -> None:
    assert document_of(plan()) == {"version": "v1alpha1", "ip4": {}, "zones": ["ts.net"], "serial": 1}


SERVED = '{"version":"v1alpha1","ip4":{"db.tail1234.ts.net":["192.0.2.1"]},"zones":["ts.net"],"serial":7}'


def test_records_that_are_right_are_not_written() -> None:
    assert plan(proxy(UP), configmap=configmap(SERVED)) == Plan()


def test_a_change_moves_the_serial_and_takes_only_our_fields() -> None:
    made = plan(proxy(UP, UP6), configmap=configmap(SERVED))
    (patch,) = patches_of(made)
    assert document_of(made)["serial"] == 8
    assert document_of(made)["ip6"] == {FQDN: ["2001:db8::1"]}
    assert patch == Patch(
        patch.resource,
        Key("tailscale", "dnsrecords"),
        {"metadata": {**METADATA, "resourceVersion": "1"}, "data": patch.body["data"]},
    )
    assert made.apply == [patch]


def test_the_serial_starts_over_past_its_end_and_is_never_0() -> None:
    full = SERVED.replace('"serial":7', f'"serial":{2**32 - 1}')
    assert document_of(plan(configmap=configmap(full)))["serial"] == 1


@pytest.mark.parametrize(
    "document",
    [
        None,
        "",
        "not JSON",
        '{"version":"v2","ip4":{}}',
        '{"ip4":{}}',
        "[]",
        '{"version":"v1alpha1","serial":-1}',
        '{"version":"v1alpha1","ip4":null}',
        '{"version":"v1alpha1","ip4":{"db.tail1234.ts.net":["192.0.2.1"]}}',
    ],
)
def test_what_cannot_be_read_or_is_the_go_operators_is_replaced(document: str | None) -> None:
    made = plan(proxy(UP), configmap=configmap(document))
    assert document_of(made)["serial"] == 1
    assert document_of(made)["ip4"] == {FQDN: ["192.0.2.1"]}


def test_a_configmap_without_its_labels_gets_them_back() -> None:
    (patch,) = patches_of(plan(proxy(UP), configmap=configmap(SERVED, labels={"more": "x"})))
    assert patch.body["metadata"]["labels"] == METADATA["labels"]
    assert patch.body["data"]["records.json"] == SERVED


def test_other_keys_and_labels_of_the_configmap_are_not_ours_to_change() -> None:
    found = configmap(SERVED, labels={**METADATA["labels"], "more": "x"})
    found["data"]["other"] = "kept"
    assert plan(proxy(UP), configmap=found) == Plan()


def test_a_configmap_on_its_way_out_is_waited_for() -> None:
    assert plan(proxy(UP), configmap=deleting(configmap(None))) == Plan()


def test_what_is_written_is_what_the_nameserver_reads() -> None:
    text = children_of(plan(proxy(UP, UP6)))[0]["data"]["records.json"]
    assert parse(text).ip6 == {FQDN: ["2001:db8::1"]}
