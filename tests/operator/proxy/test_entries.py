"""The entries of an egress group: their document, the reports of proxies, and their form in the cache."""

import json
from base64 import b64decode, b64encode
from dataclasses import replace
from typing import Any

import pytest
from tsoperator.api.objects import CONFIGMAP, Key, Object
from tsoperator.proxy import entries
from tsoperator.proxy.entries import Entry, Port, ProxyReport

from tests.support.objects import obj

FQDN = "db.tail1234.ts.net"
URL = "http://ts-db-x7k2p.tailscale.svc.cluster.local:9002/healthz"

# The example of docs/development/groups.md.
DATABASE = Entry(FQDN, "", frozenset([Port("TCP", 10437, 5432)]), URL)
DOCUMENT = (
    '{"default-db":{"healthCheckEndpoint":"http://ts-db-x7k2p.tailscale.svc.cluster.local:9002/healthz",'
    '"tailnetTarget":{"ip":"","fqdn":"db.tail1234.ts.net"},'
    '"ports":[{"protocol":"TCP","matchPort":10437,"targetPort":5432}]}}'
)
PORT = {"protocol": "TCP", "matchPort": 10437, "targetPort": 5432}
TARGET = {"ip": "", "fqdn": FQDN}
REPORTED = Entry(FQDN, "", frozenset([Port("TCP", 10437, 5432)]))


def encoded(text: str | bytes) -> str:
    return b64encode(text if isinstance(text, bytes) else text.encode()).decode()


def configmap(**binary_data: str) -> Object:
    content = {"binaryData": {name.replace("_", "-"): value for name, value in binary_data.items()}}
    return obj(CONFIGMAP, Key("tailscale", "foo-egress-config"), content, managedFields=[{"manager": "tsoperator"}])


def test_the_document_of_entries_equals_that_of_the_go_operator() -> None:
    assert b64decode(entries.render_entries({"default-db": DATABASE})).decode() == DOCUMENT


def test_the_document_does_not_depend_on_the_order_of_entries_and_ports() -> None:
    ports = [Port("UDP", 10001, 53), Port("TCP", 10003, 53), Port("TCP", 10002, 80)]
    one, other = Entry(FQDN, "", frozenset(ports)), Entry(FQDN, "", frozenset(reversed(ports)))
    rendered = entries.render_entries({"b": one, "a": DATABASE})
    assert rendered == entries.render_entries({"a": DATABASE, "b": other})
    document = json.loads(b64decode(rendered))
    assert [*document] == ["a", "b"]
    assert [each["matchPort"] for each in document["b"]["ports"]] == [10002, 10003, 10001]


OTHERS = [
    replace(DATABASE, fqdn="db2.tail1234.ts.net"),
    replace(DATABASE, ip="100.64.0.1"),
    replace(DATABASE, ports=frozenset([Port("UDP", 10437, 5432)])),
    replace(DATABASE, ports=frozenset()),
]


@pytest.mark.parametrize("other", [*OTHERS, None])
def test_a_proxy_serves_the_reported_ports_of_an_entry_while_its_report_has_the_target_of_that_entry(
    other: Entry | None,
) -> None:
    assert DATABASE.forwarded(REPORTED) == DATABASE.ports
    assert DATABASE.forwarded(replace(REPORTED, health_check="http://other")) == DATABASE.ports
    assert DATABASE.forwarded(other) == frozenset()


def test_a_proxy_that_has_not_read_a_change_still_serves_the_unchanged_ports() -> None:
    added, changed = Port("TCP", 10438, 80), Port("TCP", 10437, 80)
    assert replace(DATABASE, ports=DATABASE.ports | {added}).forwarded(REPORTED) == DATABASE.ports
    assert replace(DATABASE, ports=frozenset([added, changed])).forwarded(REPORTED) == frozenset()


# The value of an entry in a report, and the entry that is read from it, or None if the value is invalid.
ODD: list[tuple[Any, Entry | None]] = [
    ({"tailnetTarget": TARGET, "ports": [PORT]}, REPORTED),
    ({"tailnetTarget": TARGET, "ports": [PORT, PORT], "tailnetTargetIPs": ["100.64.0.9"]}, REPORTED),
    ({"tailnetTarget": TARGET, "ports": [PORT], "tailnetTargetIPs": None}, replace(REPORTED, is_lost=True)),
    ({"tailnetTarget": TARGET, "ports": [PORT], "tailnetTargetIPs": []}, replace(REPORTED, is_lost=True)),
    ({"tailnetTarget": {"fqdn": FQDN}, "ports": None}, Entry(FQDN, "", frozenset())),
    ({"tailnetTarget": {"ip": "100.64.0.1", "fqdn": None}, "ports": []}, Entry("", "100.64.0.1", frozenset())),
    ({"ports": [PORT]}, None),
    ({"tailnetTarget": TARGET}, None),
    ({"tailnetTarget": None, "ports": [PORT]}, None),
    ({"tailnetTarget": [], "ports": [PORT]}, None),
    ({"tailnetTarget": TARGET, "ports": 7}, None),
    ({"tailnetTarget": TARGET, "ports": [7]}, None),
    ({"tailnetTarget": TARGET, "ports": [{**PORT, "matchPort": "http"}]}, None),
    ({"tailnetTarget": TARGET, "ports": [{**PORT, "matchPort": float("inf")}]}, None),
    ({"tailnetTarget": TARGET, "ports": [{"protocol": "TCP", "matchPort": 1}]}, None),
    (None, None),
    ([], None),
    ("text", None),
]


@pytest.mark.parametrize(("given", "entry"), ODD, ids=lambda value: json.dumps(value) if not value else None)
def test_an_invalid_entry_of_a_document_is_left_out(given: Any, entry: Entry | None) -> None:
    services = {"odd": given, "good": {"tailnetTarget": TARGET, "ports": [PORT]}}
    wanted = {"good": REPORTED, **({"odd": entry} if entry else {})}
    stored = configmap(egress_services=encoded(json.dumps(services)))
    assert entries.entries_of(entries.slim_configmap(stored)) == wanted
    assert entries.read_report(json.dumps({"services": services})) == ProxyReport(entries=wanted)


UNREADABLE = ["", "{", "[]", "null", '"text"', "7", "[" * 100_000, "1" * 5000]


@pytest.mark.parametrize("text", UNREADABLE, ids=lambda text: text[:8])
def test_an_invalid_document_has_no_entries(text: str) -> None:
    assert entries.entries_of(entries.slim_configmap(configmap(egress_services=encoded(text)))) == {}
    assert entries.read_report(text) is None


@pytest.mark.parametrize(
    ("document", "report"),
    [
        ({"podIPv4": "192.0.2.1", "podIPv6": "fd00::1", "services": {}}, ProxyReport("192.0.2.1", "fd00::1")),
        ({"podIPv4": "192.0.2.1", "services": None}, ProxyReport("192.0.2.1")),
        ({"podIPv4": None, "podIPv6": "fd00::1"}, ProxyReport("", "fd00::1")),
        ({"podIPv4": "192.0.2.1", "services": []}, None),
        ({}, None),
    ],
)
def test_the_addresses_of_a_proxy_are_read_from_its_report(document: Object, report: ProxyReport | None) -> None:
    assert entries.read_report(json.dumps(document)) == report


def test_the_cache_stores_the_entries_of_a_configmap_in_place_of_their_text() -> None:
    slim = entries.slim_configmap(configmap(egress_services=encoded(DOCUMENT), hep_pings="Ng=="))
    assert entries.entries_of(slim) == {"default-db": DATABASE}
    assert slim["binaryData"] == {"hep-pings": "Ng=="}
    assert "managedFields" not in slim["metadata"]
    assert entries.slim_configmap(slim) == slim


@pytest.mark.parametrize("value", ["!", "Zm9", encoded(b"\xff"), encoded("{")])
def test_an_invalid_configmap_has_no_entries(value: str) -> None:
    assert entries.entries_of(entries.slim_configmap(configmap(egress_services=value))) == {}


@pytest.mark.parametrize("content", [{}, {"binaryData": None}, {"data": {"records.json": "{}"}}], ids=str)
def test_the_cache_stores_other_configmaps_unchanged(content: Object) -> None:
    whole = obj(CONFIGMAP, Key("tailscale", "dnsrecords"), content)
    assert entries.slim_configmap(whole) == whole
    assert entries.entries_of(entries.slim_configmap(whole)) == entries.entries_of(None) == {}
