"""Tests of name lookups with several zones. The conformance tests check the content of one zone."""

from hypothesis import given
from hypothesis import strategies as st
from tsnameserver.compiler import build_zone
from tsnameserver.message import A
from tsnameserver.names import wire_name
from tsnameserver.records import Records
from tsnameserver.zone import ZoneSettings

from tests.nameserver.samples import sample_zone

ZONE = sample_zone()


def test_a_name_belongs_to_the_closest_of_nested_zones_and_a_name_between_two_apexes_gets_nodata() -> None:
    records = Records(ip4={"x.sub.ts.net": ["192.0.2.1"], "y.ts.net": ["192.0.2.2"]})
    nested = build_zone(records, ZoneSettings(origins=("ts.net", "sub.ts.net", "a.b.ts.net")))
    for name in ("no.sub.ts.net", "no.x.sub.ts.net"):
        assert nested.apex_of(wire_name(name)) is nested.apexes[wire_name("sub.ts.net")]
    apex = nested.apexes[wire_name("ts.net")]
    assert nested.find(wire_name("b.ts.net"), A, apex) is apex.nodata


@given(st.binary(max_size=40))
def test_the_apex_of_a_zone_matches_only_names_that_end_in_its_whole_labels(prefix: bytes) -> None:
    at = 0
    while at < len(prefix) and 0 < prefix[at] <= 63:
        at += prefix[at] + 1
    assert (ZONE.apex_of(prefix + wire_name("ts.net")) is not None) == (at == len(prefix))
