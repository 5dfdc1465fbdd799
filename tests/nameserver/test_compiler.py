"""Tests of compiling records."""

from typing import NamedTuple

import pytest
from tsnameserver.answer import answer
from tsnameserver.compiler import MAX_ADDRESSES, build_zone, empty_zone
from tsnameserver.names import wire_name
from tsnameserver.records import Records
from tsnameserver.zone import Zone, ZoneSettings

from tests.nameserver.samples import RECORDS, SETTINGS, parsed, sample_zone, texts, wire


def addresses(zone: Zone, name: str, qtype: str = "A") -> list[str]:
    return texts(parsed(answer(wire(name, qtype), zone)))


def test_addresses_are_all_there_in_order_with_one_ttl() -> None:
    response = parsed(answer(wire("v4.tail1234.ts.net"), sample_zone()))
    assert texts(response) == ["100.64.0.4", "100.64.0.3"]
    assert [rrset.ttl for rrset in response.answer] == [5]


def test_spellings_of_one_name_are_joined_and_addresses_counted_once() -> None:
    zone = build_zone(Records(ip4={"A.ts.net": ["192.0.2.1"], "a.ts.net.": ["192.0.2.2", "192.0.2.1"]}), SETTINGS)
    assert addresses(zone, "a.ts.net") == ["192.0.2.1", "192.0.2.2"]


def test_two_spellings_of_one_address_are_one_record() -> None:
    zone = build_zone(Records(ip6={"a.ts.net": ["2001:db8::1", "2001:DB8:0::1"]}), SETTINGS)
    assert addresses(zone, "a.ts.net", "AAAA") == ["2001:db8::1"]


class BadAddress(NamedTuple):
    field: str
    text: str


@pytest.mark.parametrize(
    "case",
    [
        BadAddress("ip4", "192.0.2"),
        BadAddress("ip4", "192.0.2.256"),
        BadAddress("ip4", "2001:db8::9"),
        BadAddress("ip4", ""),
        BadAddress("ip6", "192.0.2.9"),
        BadAddress("ip6", "::ffff:192.0.2.9"),
        BadAddress("ip6", "fe80::1%eth0"),
        BadAddress("ip6", "2001:db8:::"),
    ],
)
def test_a_bad_address_is_left_out_and_the_rest_kept(case: BadAddress) -> None:
    good = {"ip4": "192.0.2.1", "ip6": "2001:db8::1"}[case.field]
    zone = build_zone(Records.model_validate({case.field: {"a.ts.net": [case.text, good]}}), SETTINGS)
    assert addresses(zone, "a.ts.net", "A" if case.field == "ip4" else "AAAA") == [good]
    assert [repr(case.text) in problem for problem in zone.problems] == [True]


@pytest.mark.parametrize("name", ["a..ts.net", f"{'x' * 64}.ts.net", "\u212a.ts.net", "a.example.org", "net", ""])
def test_a_bad_name_is_left_out_and_the_rest_kept(name: str) -> None:
    zone = build_zone(Records(ip4={name: ["192.0.2.1"], "b.ts.net": ["192.0.2.2"]}), SETTINGS)
    assert set(zone.nodes) == {wire_name("ts.net"), wire_name("b.ts.net")}
    assert len(zone.problems) == 1
    assert repr(name) in zone.problems[0]


def test_a_name_whose_addresses_are_all_bad_exists() -> None:
    assert wire_name("a.ts.net") in build_zone(Records(ip4={"a.ts.net": ["x"]}), SETTINGS).nodes


def test_more_addresses_than_a_message_holds_are_cut() -> None:
    many = [f"100.64.{number >> 8}.{number & 255}" for number in range(MAX_ADDRESSES + 5)]
    zone = build_zone(Records(ip4={"a.ts.net": many}), SETTINGS)
    assert texts(parsed(answer(wire("a.ts.net"), zone, stream=True))) == many[:MAX_ADDRESSES]
    assert len(zone.problems) == 1


def test_zones_of_the_records_come_on_top() -> None:
    zone = build_zone(Records(ip4={"a.ts.example.org": ["192.0.2.1"]}, zones=["ts.example.org.", "b..ad"]), SETTINGS)
    assert set(zone.apexes) == {wire_name("ts.net"), wire_name("ts.example.org")}
    assert addresses(zone, "a.ts.example.org") == ["192.0.2.1"]
    assert [problem for problem in zone.problems if "b..ad" in problem] == list(zone.problems)


def test_a_name_appears_when_its_zone_does() -> None:
    records = Records(ip4={"a.ts.example.org": ["192.0.2.1"]})
    old = build_zone(records, SETTINGS)
    assert addresses(old, "a.ts.example.org") == []
    new = build_zone(records.model_copy(update={"zones": ["ts.example.org"]}), SETTINGS, old)
    assert addresses(new, "a.ts.example.org") == ["192.0.2.1"]


def test_the_soa_is_made_of_the_settings_and_the_serial() -> None:
    zone = build_zone(Records(serial=2**32 + 9), ZoneSettings(("ts.net",), ttl=30, ns_name="ns.example.org"))
    response = parsed(answer(wire("ts.net", "SOA"), zone))
    assert texts(response) == ["ns.example.org. hostmaster.ts.net. 9 3600 600 86400 30"]
    assert texts(parsed(answer(wire("ts.net", "NS"), zone))) == ["ns.example.org."]


def test_unchanged_names_are_not_compiled_again() -> None:
    old = sample_zone()
    changed = RECORDS.model_copy(update={"ip4": {**RECORDS.ip4, "db.tail1234.ts.net": ["100.64.0.9"]}, "serial": 8})
    new = build_zone(changed, SETTINGS, old)
    kept = {name for name, node in new.nodes.items() if node.a is not None and node is old.nodes.get(name)}
    assert wire_name("v4.tail1234.ts.net") in kept
    assert wire_name("db.tail1234.ts.net") not in kept
    assert addresses(new, "db.tail1234.ts.net") == ["100.64.0.9"]


def test_a_zone_built_on_an_old_one_is_as_one_built_anew() -> None:
    records = Records(ip4={"v4.tail1234.ts.net": ["100.64.0.4", "100.64.0.3"], "new.ts.net": ["192.0.2.1"]}, serial=8)
    assert build_zone(records, SETTINGS, sample_zone()) == build_zone(records, SETTINGS)


def test_problems_of_unchanged_names_are_still_known() -> None:
    records = Records(ip4={"a.ts.net": ["bad"]})
    old = build_zone(records, SETTINGS)
    assert build_zone(records, SETTINGS, old).problems == old.problems != ()


def test_before_any_records_a_zone_has_no_names() -> None:
    zone = empty_zone(SETTINGS)
    assert not zone.loaded
    assert (dict(zone.nodes), set(zone.apexes)) == ({}, {wire_name("ts.net")})
