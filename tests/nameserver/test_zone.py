"""Tests of looking up names in a zone."""

from hypothesis import given
from hypothesis import strategies as st
from tsnameserver.compiler import build_zone
from tsnameserver.message import AAAA, ANY, NS, SOA, A
from tsnameserver.names import wire_name
from tsnameserver.records import Records
from tsnameserver.zone import Section, Zone, ZoneSettings

from tests.nameserver.samples import sample_zone

ZONE = sample_zone()
NESTED = build_zone(
    Records(ip4={"x.sub.ts.net": ["192.0.2.1"], "y.ts.net": ["192.0.2.2"]}),
    ZoneSettings(origins=("ts.net", "sub.ts.net", "a.b.ts.net")),
)


def found(zone: Zone, name: str, qtype: int) -> Section | None:
    apex = zone.apex_of(wire_name(name))
    return None if apex is None else zone.find(wire_name(name), qtype, apex)


def test_a_name_outside_every_zone_has_no_apex() -> None:
    for name in ("net", "xts.net", "ts.net.example.org", "example.org"):
        assert ZONE.apex_of(wire_name(name)) is None


def test_a_dot_inside_a_label_is_no_label_boundary() -> None:
    assert ZONE.apex_of(b"\x08db.ts.ne\x01t\x00") is None
    assert ZONE.apex_of(b"\x07\x02ts\x03net\x00") is None


def test_the_closest_zone_counts() -> None:
    apex = NESTED.apex_of(wire_name("no.sub.ts.net"))
    assert apex is not None
    assert apex.origin == wire_name("sub.ts.net")
    encloser = NESTED.encloser(wire_name("no.x.sub.ts.net"))
    assert encloser is not None
    assert encloser.origin == wire_name("sub.ts.net")


def test_names_between_two_apexes_exist() -> None:
    apex = NESTED.apexes[wire_name("ts.net")]
    assert found(NESTED, "b.ts.net", A) is apex.nodata


def test_an_empty_non_terminal_has_no_data() -> None:
    apex = ZONE.apexes[wire_name("ts.net")]
    for name in ("tail1234.ts.net", "b.deep.ts.net", "deep.ts.net", "ts.net"):
        assert found(ZONE, name, A) is apex.nodata


def test_a_missing_name_is_nxdomain() -> None:
    apex = ZONE.apexes[wire_name("ts.net")]
    for name in ("no.ts.net", "x.db.tail1234.ts.net", "eep.ts.net"):
        assert found(ZONE, name, A) is apex.nxdomain


def test_a_name_without_addresses_has_no_data() -> None:
    apex = ZONE.apexes[wire_name("ts.net")]
    assert found(ZONE, "none.tail1234.ts.net", A) is apex.nodata
    assert found(ZONE, "v4.tail1234.ts.net", AAAA) is apex.nodata
    assert found(ZONE, "v6.tail1234.ts.net", A) is apex.nodata


def test_any_is_one_rrset() -> None:
    apex = ZONE.apexes[wire_name("ts.net")]
    assert found(ZONE, "db.tail1234.ts.net", ANY) is found(ZONE, "db.tail1234.ts.net", A)
    assert found(ZONE, "v6.tail1234.ts.net", ANY) is found(ZONE, "v6.tail1234.ts.net", AAAA)
    assert found(ZONE, "ts.net", ANY) is apex.soa
    assert found(ZONE, "tail1234.ts.net", ANY) is apex.nodata


def test_soa_and_ns_are_at_the_apex_alone() -> None:
    apex = ZONE.apexes[wire_name("ts.net")]
    assert found(ZONE, "ts.net", SOA) is apex.soa
    assert found(ZONE, "ts.net", NS) is apex.ns
    assert found(ZONE, "db.tail1234.ts.net", SOA) is apex.nodata
    assert found(ZONE, "tail1234.ts.net", NS) is apex.nodata


@given(st.binary(max_size=80))
def test_an_encloser_is_found_for_any_bytes_without_an_error(name: bytes) -> None:
    assert ZONE.encloser(name) is None or name.endswith(b"\x02ts\x03net\x00")


@given(st.binary(max_size=40))
def test_an_encloser_is_above_whole_labels_alone(prefix: bytes) -> None:
    at = 0
    while at < len(prefix) and 0 < prefix[at] <= 63:
        at += prefix[at] + 1
    whole = at == len(prefix) > 0
    assert (ZONE.encloser(prefix + wire_name("ts.net")) is not None) == whole
