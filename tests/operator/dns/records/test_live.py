"""The record of a proxy: its name and its addresses."""

from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from tsoperator.api.names import ANNOTATION_LAST_TAILNET_TARGET_FQDN
from tsoperator.api.objects import Key, Object, key_of
from tsoperator.dns.nameclaims import Claim, Standing
from tsoperator.dns.records.live import NamedProxy, Record, record_of, shared_record
from tsoperator.proxy.service import headless_service
from tsoperator.runtime.ownership import Owner

from tests.support.objects import (
    FQDN,
    deleting,
    egress_service,
    endpoint,
    endpoint_slice,
    headless,
    live_ingress,
    settings,
    stored,
)

UP = endpoint_slice("ts-db", endpoint("192.0.2.1"))
UP6 = endpoint_slice("ts-db", endpoint("2001:db8::1"))
EMPTY = endpoint_slice("ts-db")


def proxy(*slices: Object, parent: Object | None = None, name: str = FQDN, **metadata: Any) -> NamedProxy:
    """Return the proxy of *parent*, by default an egress Service, with its addresses in the EndpointSlices *slices*.

    The proxy's own Service has *metadata*, and an annotation with the *name*.
    """
    user_object = egress_service() if parent is None else parent
    owner = Owner("ingress" if user_object["kind"] == "Ingress" else "svc", key_of(user_object))
    return NamedProxy(headless(owner, "uid", "ts-db", name, **metadata), user_object, slices)


def both(proxy: NamedProxy) -> tuple[Object, Object]:
    """Return the record of *proxy* for IPv4 and for IPv6 in the form of a document."""
    record = record_of(proxy, settings())
    if record is None:
        return {}, {}
    return {record.name: list(record.ip4)}, {record.name: list(record.ip6)} if record.ip6 else {}


GROUPED = egress_service({"tailscale.com/tailnet-fqdn": f"{FQDN.upper()}.", "tailscale.com/proxy-group": "g"})
IPS = {"clusterIP": "192.0.2.50", "clusterIPs": ["192.0.2.50", "2001:db8::50"]}


def grouped(
    parent: Object = GROUPED, name: str = "", labels: Object | None = None, told: str = "", **spec: object
) -> NamedProxy:
    """Return the proxies of *parent* in a ProxyGroup, with their addresses in EndpointSlices.

    In its annotations, the Service in front of the proxies has the *name* and the target device *told*, unless they are
    empty. It also has *labels* and *spec*.
    """
    target = {"annotations": {ANNOTATION_LAST_TAILNET_TARGET_FQDN: told}} if told else {}
    made = proxy(UP, parent=parent, name=name, **target)
    more = {"tailscale.com/proxy-group": "g", "tailscale.com/svc-type": "egress"} if labels is None else labels
    metadata = {**made.service["metadata"], "labels": {**made.service["metadata"]["labels"], **more}}
    spec = {"type": "ClusterIP", **(spec or IPS)}
    return NamedProxy({**made.service, "metadata": metadata, "spec": spec}, made.parent, made.slices)


def unknown(proxy: NamedProxy) -> NamedProxy:
    """Return the *proxy* with an unknown parent, whose namespace isn't watched."""
    return replace(proxy, parent=None, watched=False)


WEB = "web.tail1234.ts.net"
LB = "default-db.tail1234.ts.net"
OPT_OUT = {"tailscale.com/cluster-dns": "false"}


def exposed(parent: Object | None = None, *slices: Object, name: str = LB, **metadata: str) -> NamedProxy:
    """Return the proxy of *parent*, a Service with two cluster IPs. The proxy forwards to the first of them."""
    user_object = parent or egress_service({}, spec={"type": "ClusterIP", **IPS})
    owner = Owner("svc", key_of(user_object))
    service = headless_service(Key("tailscale", "ts-db"), owner, "uid", name, "192.0.2.50")
    return NamedProxy(stored(service, **metadata), user_object, slices)


LEFT = "2026-01-02T03:04:05Z"
TO_GROUP = {"tailscale.com/proxy-group": "g"}
TO_DB = {"tailscale.com/tailnet-fqdn": FQDN}


class Case(NamedTuple):
    proxy: NamedProxy
    ip4: Object
    ip6: Object | None = None


MOVING = proxy(UP, parent=egress_service({**TO_DB, **TO_GROUP}))
AT_GROUP, AT_GROUP6 = {FQDN: ["192.0.2.50"]}, {FQDN: ["2001:db8::50"]}
SERVED = {
    "egress": Case(proxy(UP), {FQDN: ["192.0.2.1"]}),
    "egress, another form": Case(proxy(UP, name="DB.Tail1234.TS.net."), {FQDN: ["192.0.2.1"]}),
    "no name yet": Case(proxy(UP, name=""), {}),
    "by address": Case(proxy(UP, parent=egress_service({"tailscale.com/tailnet-ip": "100.64.0.1"})), {}),
    "to a bad name, which it doesn't take": Case(
        proxy(UP, parent=egress_service({"tailscale.com/tailnet-fqdn": "db.example.org"})), {FQDN: ["192.0.2.1"]}
    ),
    "to nothing": Case(proxy(UP, parent=egress_service({"tailscale.com/tailnet-fqdn": ""})), {}),
    "not to a group": Case(MOVING, {}),
    "no egress any more": Case(proxy(UP, parent=egress_service({})), {}),
    "a leaving parent": Case(proxy(UP, parent=deleting(egress_service())), {}),
    "a leaving proxy": Case(proxy(UP, deletionTimestamp=LEFT), {}),
    "no parent": Case(NamedProxy(proxy().service, None, [UP]), {}),
    "Ingress": Case(proxy(UP, parent=live_ingress(), name=WEB), {WEB: ["192.0.2.1"]}),
    "Ingress without a name": Case(proxy(UP, parent=live_ingress(), name=""), {}),
    "Ingress of a class": Case(proxy(UP, parent=live_ingress(spec={"ingressClassName": "nginx"}), name=WEB), {}),
    "Ingress of a group": Case(proxy(UP, parent=live_ingress(TO_GROUP), name=WEB), {WEB: ["192.0.2.1"]}),
    "a leaving Ingress": Case(proxy(UP, parent=deleting(live_ingress()), name=WEB), {}),
    "both families": Case(proxy(UP, UP6), {FQDN: ["192.0.2.1"]}, {FQDN: ["2001:db8::1"]}),
    "IPv6 alone": Case(proxy(UP6), {FQDN: []}, {FQDN: ["2001:db8::1"]}),
    "group": Case(grouped(), AT_GROUP, AT_GROUP6),
    "group of one family": Case(grouped(clusterIP="192.0.2.51"), {FQDN: ["192.0.2.51"]}),
    "group without an address": Case(grouped(clusterIP=""), {FQDN: []}),
    "headless group": Case(grouped(clusterIP="None"), {FQDN: []}),
    "group, an older name": Case(grouped(name=WEB), {WEB: ["192.0.2.50"]}, {WEB: ["2001:db8::50"]}),
    "group, still led to": Case(replace(grouped(egress_service()), leads=True), AT_GROUP, AT_GROUP6),
    "group, not there yet": Case(replace(grouped(), leads=False), {}),
    "egress, moving to a group": Case(replace(MOVING, leads=True), {FQDN: ["192.0.2.1"]}),
    "egress, moving away from a group": Case(replace(proxy(UP), leads=False), {}),
    "egress, no more, still led to": Case(replace(proxy(UP, parent=egress_service({})), leads=True), {}),
    "group, no more": Case(grouped(egress_service()), {}),
    "group, whose name is another's": Case(grouped(told=FQDN), {}),
    "group, no target": Case(grouped(egress_service(TO_GROUP), FQDN), {}),
    "group, not its egress": Case(grouped(labels=TO_GROUP), {}),
    "group, external": Case(grouped(type="ExternalName"), {}),
    "group, a leaving parent": Case(grouped(deleting(GROUPED)), {}),
    "group, not wanted": Case(grouped(egress_service({**TO_DB, **TO_GROUP, **OPT_OUT})), {}),
    "egress, not wanted": Case(proxy(UP, parent=egress_service({**TO_DB, **OPT_OUT})), {}),
    "Ingress, not wanted": Case(proxy(UP, parent=live_ingress(OPT_OUT), name=WEB), {}),
    "exposed, down": Case(exposed(), {LB: ["192.0.2.50"]}, {LB: ["2001:db8::50"]}),
    "exposed, up": Case(exposed(None, UP, UP6), {LB: ["192.0.2.50"]}, {LB: ["2001:db8::50"]}),
    "exposed, not wanted": Case(exposed(egress_service(OPT_OUT, spec=IPS)), {}),
    "exposed, no name yet": Case(exposed(name=""), {}),
    "exposed, another address": Case(exposed(egress_service({}, spec={"clusterIP": "192.0.2.9"})), {LB: ["192.0.2.9"]}),
    "exposed, an egress name": Case(exposed(egress_service(spec=IPS)), {LB: ["192.0.2.50"]}, {LB: ["2001:db8::50"]}),
    "exposed, headless": Case(exposed(egress_service({}, spec={"clusterIP": "None"})), {}),
    "exposed, external": Case(exposed(egress_service({}, spec={"type": "ExternalName", "externalName": "x"})), {}),
    "exposed, by TLS": Case(proxy(UP, parent=egress_service({}, spec=IPS), name=""), {}),
    "exposed, to a group": Case(
        exposed(egress_service(TO_GROUP, spec={"clusterIP": "192.0.2.9"})), {LB: ["192.0.2.9"]}
    ),
    "exposed, a leaving parent": Case(exposed(deleting(egress_service({}, spec=IPS))), {}),
    "exposed, a leaving proxy": Case(exposed(deletionTimestamp=LEFT), {}),
    "exposed, no parent": Case(replace(exposed(), parent=None), {}),
    "unknown, exposed": Case(unknown(exposed(None, UP)), {LB: ["192.0.2.50"]}),
    "unknown": Case(unknown(proxy(UP, name=f"{FQDN.upper()}.")), {FQDN: ["192.0.2.1"]}),
    "unknown Ingress": Case(unknown(proxy(UP, parent=live_ingress(), name=WEB)), {WEB: ["192.0.2.1"]}),
    "unknown, down": Case(unknown(proxy(EMPTY)), {FQDN: []}),
    "unknown, no name": Case(unknown(proxy(UP, name="")), {}),
    "unknown, leaving": Case(unknown(proxy(UP, deletionTimestamp=LEFT)), {}),
    "unknown, group": Case(unknown(grouped(name=FQDN)), AT_GROUP, AT_GROUP6),
    "unknown, group without a name": Case(unknown(grouped()), {}),
    "unknown, external": Case(unknown(grouped(name=FQDN, type="ExternalName")), {}),
}


@pytest.mark.parametrize("case", SERVED.values(), ids=SERVED)
def test_a_proxy_has_a_record_while_its_parent_asks_for_the_name_or_is_in_an_unwatched_namespace(case: Case) -> None:
    assert both(case.proxy) == (case.ip4, case.ip6 or {})


def test_a_setting_names_the_ingress_class_whose_ingresses_have_records() -> None:
    private = proxy(UP, parent=live_ingress(spec={"ingressClassName": "private"}), name=WEB)
    record = record_of(private, settings(ingress_class="private"))
    assert record
    assert (record.name, record.ip4, record.ip6) == (WEB, ("192.0.2.1",), ())


@pytest.mark.parametrize(
    "slices",
    [[], [EMPTY], [{**EMPTY, "endpoints": None}], [endpoint_slice("ts-db", endpoint("192.0.2.1", ready=False))]],
)
def test_a_name_whose_proxies_are_all_down_exists_without_addresses(slices: list[Object]) -> None:
    assert both(proxy(*slices)) == ({FQDN: []}, {})


UNKNOWN: dict[str, bool | None] = dict.fromkeys(("ready", "serving", "terminating"))


@pytest.mark.parametrize(
    ("conditions", "ready"),
    [
        ({}, True),
        (UNKNOWN, True),
        ({"ready": True, "serving": True, "terminating": False}, True),
        ({"ready": False}, False),
        ({"ready": True, "serving": False}, False),
        ({"ready": True, "terminating": True}, False),
    ],
)
def test_a_record_has_the_address_of_an_endpoint_unless_a_condition_says_unready_not_serving_or_terminating(
    conditions: dict[str, bool | None], ready: bool
) -> None:
    found = endpoint_slice("ts-db", endpoint("192.0.2.1", **conditions))
    assert both(proxy(found))[0] == {FQDN: ["192.0.2.1"] if ready else []}


def test_null_in_place_of_the_conditions_or_addresses_of_an_endpoint_is_read_as_empty() -> None:
    found = endpoint_slice("ts-db", {"addresses": None}, {**endpoint("192.0.2.1"), "conditions": None})
    assert both(proxy(found))[0] == {FQDN: ["192.0.2.1"]}


def test_the_addresses_of_a_record_are_sorted_as_numbers_and_have_no_duplicates() -> None:
    found = endpoint_slice("ts-db", endpoint("192.0.2.10", "192.0.2.9", "2001:db8::a", "2001:db8::9", "192.0.2.10"))
    longer = endpoint_slice("ts-db", endpoint("2001:0db8::0009"))
    assert both(proxy(found, longer)) == ({FQDN: ["192.0.2.9", "192.0.2.10"]}, {FQDN: ["2001:db8::9", "2001:db8::a"]})


@pytest.mark.parametrize("address", ["2001:db8::1%eth0", "db.example.org", "", "192.0.2.0/24", "192.0.2.01"])
def test_the_record_leaves_out_a_text_that_is_no_valid_address(address: str) -> None:
    assert both(proxy(endpoint_slice("ts-db", endpoint(address, "192.0.2.1")))) == ({FQDN: ["192.0.2.1"]}, {})


def claimed(address: str, standing: Standing, *ports: int, serves: bool = True) -> Record:
    """Return a record with *address*, for a Service whose claim on the name has the *standing*.

    The Service forwards the given TCP *ports*, or all ports if none are given. If *serves* is false, no endpoint is
    ready.
    """
    forwarded = frozenset(("TCP", port) for port in ports) or None
    owner = Owner("svc", Key("default", f"at-{address}"))
    return Record(FQDN, (address,), (), Claim(standing, "2026-01-02T03:04:05Z", owner, forwarded), serves)


FIRST, SECOND, THIRD = "192.0.2.1", "192.0.2.2", "192.0.2.3"
HOLDS, DEVICE, INVALID = Standing.HOLDS, Standing.DEVICE, Standing.LEFT


@pytest.mark.parametrize(
    ("records", "addresses"),
    [
        ([claimed(FIRST, HOLDS, 80), claimed(SECOND, HOLDS, 80)], [FIRST, SECOND]),
        ([claimed(FIRST, HOLDS, 80), claimed(SECOND, HOLDS, 443), claimed(THIRD, HOLDS, 80)], [FIRST, THIRD]),
        ([claimed(FIRST, INVALID, 80), claimed(SECOND, HOLDS, 443)], [SECOND]),
        ([claimed(FIRST, HOLDS), claimed(SECOND, HOLDS)], [FIRST, SECOND]),
        ([claimed(FIRST, HOLDS), claimed(SECOND, HOLDS, 80)], [FIRST]),
        ([claimed(FIRST, HOLDS, 80), claimed(SECOND, HOLDS)], [FIRST]),
        ([claimed(FIRST, HOLDS, 80), claimed(SECOND, DEVICE)], [SECOND]),
        ([claimed(FIRST, HOLDS), claimed(SECOND, DEVICE)], [FIRST, SECOND]),
        ([claimed(FIRST, HOLDS, 80, serves=False), claimed(SECOND, HOLDS, 80)], [SECOND]),
        ([claimed(FIRST, HOLDS, 80), claimed(SECOND, HOLDS, 80, serves=False)], [FIRST]),
        ([claimed(each, HOLDS, 80, serves=False) for each in (FIRST, SECOND)], [FIRST, SECOND]),
    ],
)
def test_a_shared_name_has_the_addresses_of_all_services_with_the_same_ports_as_the_holder_of_the_name(
    records: list[Record], addresses: list[str]
) -> None:
    assert shared_record(records) == shared_record(records[::-1]) == Record(FQDN, tuple(addresses), ())


@pytest.mark.parametrize(("slices", "serves"), [([UP], True), ([EMPTY], False)])
def test_a_record_with_a_cluster_ip_serves_if_the_service_has_an_endpoint(slices: list[Object], serves: bool) -> None:
    record = record_of(replace(grouped(), slices=slices), settings())
    assert record
    assert record.serves is serves
