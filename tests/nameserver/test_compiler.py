"""Tests of compiling records."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tsnameserver.answer import answer
from tsnameserver.compiler import Compiled, build_zone, compile_steps, finished, nothing_compiled
from tsnameserver.names import fold, wire_name
from tsnameserver.records import Records
from tsnameserver.zone import Zone, ZoneSettings

from tests.nameserver.samples import RECORDS, SETTINGS, parsed, texts, wire

A_EXAMPLE = Records(ip4={"a.ts.example.org": ["192.0.2.1"]})


def addresses(zone: Zone, name: str, qtype: str = "A") -> list[str]:
    return texts(parsed(answer(wire(name, qtype), zone)))


def compiled(*documents: Records, upon: Compiled | None = None) -> Compiled:
    return finished(compile_steps(upon or nothing_compiled(SETTINGS), documents, SETTINGS))


BAD = ["a..ts.net", "b.ts.net..", "..b.ts.net", f"{'x' * 64}.ts.net", "\u212a.ts.net", "a.example.org", "net", ""]


@pytest.mark.parametrize("name", BAD)
def test_the_compiler_leaves_out_a_bad_name_and_compiles_all_other_names(name: str) -> None:
    result = compiled(Records(ip4={name: ["192.0.2.1"], "b.ts.net": ["192.0.2.2"]}))
    assert set(result.zone.nodes) == {wire_name("ts.net"), wire_name("b.ts.net")}
    assert addresses(result.zone, "b.ts.net") == ["192.0.2.2"]
    (problem,) = result.news
    assert repr(fold(name)) in problem


def test_a_zone_in_the_records_document_is_served_until_the_document_lacks_it() -> None:
    old = compiled(A_EXAMPLE)
    new = compiled(A_EXAMPLE.model_copy(update={"zones": ["b..ad", "ts.example.org."]}), upon=old)
    last = compiled(A_EXAMPLE, upon=new)
    found = [addresses(each.zone, "a.ts.example.org") for each in (old, new, last)]
    assert found == [[], ["192.0.2.1"], []]
    assert set(new.zone.apexes) == {wire_name("ts.net"), wire_name("ts.example.org")}
    assert set(last.zone.apexes) == {wire_name("ts.net")}
    (problem,) = new.zone_problems
    assert "b..ad" in problem


def test_the_ttl_and_the_soa_follow_from_the_settings_and_the_serial_of_the_records() -> None:
    records = Records(ip4={"a.ts.net": ["192.0.2.1"]}, ip6={"a.ts.net": ["2001:db8::1"]}, serial=2**32 + 2**31 + 9)
    zone = build_zone(records, ZoneSettings(("ts.net",), ttl=30, ns_name="ns.example.org"))
    soa = "ns.example.org. hostmaster.ts.net. 2147483657 3600 600 86400 30"
    assert (addresses(zone, "ts.net", "SOA"), addresses(zone, "ts.net", "NS")) == ([soa], ["ns.example.org."])
    for name, qtype in (
        ("a.ts.net", "A"),
        ("a.ts.net", "AAAA"),
        ("ts.net", "NS"),
        ("ts.net", "SOA"),
        ("no.ts.net", "A"),
    ):
        response = parsed(answer(wire(name, qtype), zone))
        assert [rrset.ttl for rrset in response.answer + response.authority] == [30]


def test_the_compiler_does_not_compile_unchanged_names_again() -> None:
    old = compiled(RECORDS)
    changed = RECORDS.model_copy(update={"ip4": {**RECORDS.ip4, "db.tail1234.ts.net": ["100.64.0.9"]}, "serial": 8})
    new = compiled(changed, upon=old)
    kept = {name for name, node in new.zone.nodes.items() if node is old.zone.nodes.get(name)}
    assert new.changed == 1
    assert set(old.zone.nodes) - kept == {wire_name("db.tail1234.ts.net")}
    assert addresses(new.zone, "db.tail1234.ts.net") == ["100.64.0.9"]


def test_no_name_is_compiled_again_if_the_same_records_come_in_other_shards() -> None:
    old = compiled(RECORDS)
    halves = [RECORDS.model_copy(update={"ip6": {}}), RECORDS.model_copy(update={"ip4": {}})]
    new = compiled(*halves, upon=old)
    assert (new.changed, new.zone.nodes) == (0, old.zone.nodes)


def test_compiling_a_new_zone_from_an_old_one_does_not_change_the_old_one() -> None:
    records = RECORDS.model_copy(update={"ip4": {**RECORDS.ip4, "odd.ts.net": ["bad"]}})
    old, fresh = compiled(records), compiled(records)
    assert old.problems
    compiled(Records(ip4={"new.ts.net": ["192.0.2.1"]}), upon=old)
    assert (old.zone.nodes, old.children, old.problems) == (fresh.zone.nodes, fresh.children, fresh.problems)


def test_the_problems_of_an_unchanged_name_stay_listed_but_are_not_reported_as_new() -> None:
    old = compiled(Records(ip4={"a.ts.net": ["bad"], "b.ts.net": []}))
    new = compiled(Records(ip4={"a.ts.net": ["bad", "192.0.2.1"]}), upon=old)
    assert new.problems == old.problems != {}
    assert (new.news, old.news) == ((), old.problems["a.ts.net"])


def test_the_compiler_counts_the_names_and_the_records_of_each_ip_family() -> None:
    records = Records(ip4={"a.ts.net": ["192.0.2.1", "192.0.2.2", "bad"], "none.ts.net": [], "a.example.org": []})
    first = compiled(records)
    second = compiled(Records(ip6={"a.ts.net": ["2001:db8::1"]}), upon=first)
    assert [(each.names, each.ip4, each.ip6) for each in (first, second)] == [(2, 2, 0), (1, 0, 1)]


def test_the_compiler_compiles_a_thousand_names_in_more_than_ten_steps() -> None:
    records = Records(ip4={f"n{number}.ts.net": ["192.0.2.1"] for number in range(1000)})
    assert sum(1 for _ in compile_steps(nothing_compiled(SETTINGS), (records,), SETTINGS)) > 1000 / 100


LABELS = st.lists(st.sampled_from(["a", "b", "A", "tail1234"]), min_size=0, max_size=4)
END = st.sampled_from(["ts.net", "TS.net.", "sub.ts.net", "example.org", "ts..net"])
NAMES = st.builds(lambda labels, end: ".".join([*labels, end]), LABELS, END)
TEXTS = st.lists(st.sampled_from(["192.0.2.1", "192.0.2.2", "2001:db8::1", "bad"]), max_size=2)
DOCUMENTS = st.builds(
    lambda ip4, ip6, zones, serial: Records(ip4=ip4, ip6=ip6, zones=zones, serial=serial),
    st.dictionaries(NAMES, TEXTS, max_size=6),
    st.dictionaries(NAMES, TEXTS, max_size=3),
    st.sampled_from([[], [], [], ["sub.ts.net"], ["a.b.ts.net"], ["example.org"]]),
    st.integers(0, 9),
)


@given(st.lists(st.lists(DOCUMENTS, min_size=1, max_size=3), min_size=1, max_size=6))
def test_a_zone_compiled_from_older_ones_equals_one_compiled_from_scratch(sets: list[list[Records]]) -> None:
    grown = nothing_compiled(SETTINGS)
    for documents in sets:
        grown = compiled(*documents, upon=grown)
        fresh = compiled(*documents)
        assert grown.zone == fresh.zone
        for part in ("children", "problems", "zone_problems", "names", "ip4", "ip6"):
            assert getattr(grown, part) == getattr(fresh, part)


@given(st.lists(DOCUMENTS, min_size=1, max_size=3))
def test_the_names_of_a_zone_are_those_of_the_records_and_all_names_between_them_and_the_apex(
    documents: list[Records],
) -> None:
    zone = compiled(*documents).zone
    said = {fold(name) for each in documents for name in (*each.ip4, *each.ip6) if ".." not in name}
    wires = {name for name in map(wire_name, said) if zone.apex_of(name)} | set(zone.apexes)
    for name in list(wires):
        while zone.apex_of(parent := (name := name[name[0] + 1 :])):
            wires.add(parent)
    assert set(zone.nodes) == wires
