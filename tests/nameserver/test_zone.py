"""Tests of looking up names in zones; what a name of one zone has is asked in conformance."""

from hypothesis import given
from hypothesis import strategies as st
from tsnameserver.compiler import build_zone
from tsnameserver.message import AAAA, ANY, A
from tsnameserver.names import wire_name
from tsnameserver.records import Records
from tsnameserver.zone import ZoneSettings

from tests.nameserver.samples import sample_zone

ZONE = sample_zone()
NESTED = build_zone(
    Records(ip4={"x.sub.ts.net": ["192.0.2.1"], "y.ts.net": ["192.0.2.2"]}),
    ZoneSettings(origins=("ts.net", "sub.ts.net", "a.b.ts.net")),
)


def test_the_closest_zone_counts() -> None:
    apex = NESTED.apex_of(wire_name("no.sub.ts.net"))
    assert apex is not None
    assert apex.origin == wire_name("sub.ts.net")
    assert NESTED.apex_of(wire_name("no.x.sub.ts.net")) is apex


def test_names_between_two_apexes_exist() -> None:
    apex = NESTED.apexes[wire_name("ts.net")]
    assert NESTED.find(wire_name("b.ts.net"), A, apex) is apex.nodata


def test_a_query_for_any_type_finds_the_first_rrset() -> None:
    apex = ZONE.apexes[wire_name("ts.net")]
    db, v6 = (ZONE.nodes[wire_name(name)] for name in ("db.tail1234.ts.net", "v6.tail1234.ts.net"))
    assert ZONE.find(wire_name("db.tail1234.ts.net"), ANY, apex) == db.section(A)
    assert ZONE.find(wire_name("v6.tail1234.ts.net"), ANY, apex) == v6.section(AAAA)
    assert ZONE.find(apex.origin, ANY, apex) is apex.soa


@given(st.binary(max_size=40))
def test_an_apex_is_above_whole_labels_alone(prefix: bytes) -> None:
    at = 0
    while at < len(prefix) and 0 < prefix[at] <= 63:
        at += prefix[at] + 1
    assert (ZONE.apex_of(prefix + wire_name("ts.net")) is not None) == (at == len(prefix))
