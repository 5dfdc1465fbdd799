"""The fast path and the general path give the same answer. The conformance tests check what the answers say."""

import random

import dns.flags
import dns.message
import dns.rcode
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tsnameserver.answer import answer, failure, general
from tsnameserver.compiler import empty_zone
from tsnameserver.counters import Counts
from tsnameserver.names import wire_name

from tests.nameserver.random_queries import ZONES, random_query
from tests.nameserver.samples import SETTINGS, make_query, parsed, wire

QUERIES = st.integers(min_value=0).map(lambda seed: random_query(random.Random(seed)))


@given(QUERIES, st.booleans())
def test_the_fast_path_equals_the_general_one(query: bytes, stream: bool) -> None:
    for zone in ZONES:
        assert answer(query, zone, stream=stream) == general(query, zone, stream=stream)


@pytest.mark.parametrize("count", [3_000, pytest.param(20_000, marks=pytest.mark.thorough)])
def test_thousands_of_random_queries_are_answered_alike(count: int) -> None:
    chance = random.Random(1)
    for query in (random_query(chance) for _ in range(count)):
        assert answer(query, ZONES[0]) == general(query, ZONES[0])


@pytest.mark.parametrize("start", [b"\0", b"\x40" + b"a" * 64, b"\xc0\x0c", b"\x3f" + b"a" * 62], ids=bytes.hex)
def test_a_known_name_is_no_parent_of_a_malformed_one(start: bytes) -> None:
    query = wire("ts.net")[:12] + start + wire_name("db.tail1234.ts.net") + b"\0\1\0\1"
    assert parsed(answer(query, ZONES[0])).rcode() == dns.rcode.FORMERR


@given(QUERIES | st.binary(max_size=600), st.booleans())
def test_an_answer_parses_and_by_udp_is_of_1232_bytes_at_most(query: bytes, stream: bool) -> None:
    response = answer(query, ZONES[0], stream=stream)
    assert response is None or dns.message.from_wire(response).id == int.from_bytes(query[:2], "big")
    assert response is None or stream or len(response) <= 1232


@pytest.mark.parametrize("stream", [False, True])
def test_each_answer_is_counted_once(stream: bool) -> None:
    counts = Counts()
    chance = random.Random(2)
    responses = [answer(random_query(chance), ZONES[0], counts, stream=stream) for _ in range(500)]
    assert sum(counts.requests().values()) == sum(counts.fast) + counts.general == 500
    assert sum(counts.responses().values()) == 500 - responses.count(None)
    assert min(sum(counts.fast), counts.general) > 100


def test_a_failure_is_servfail_with_the_id() -> None:
    query = make_query("db.tail1234.ts.net")
    response = parsed(failure(query.to_wire()))
    assert (response.id, response.rcode()) == (query.id, dns.rcode.SERVFAIL)


@pytest.mark.parametrize("packet", [b"", bytes(11), b"\0\0\x80" + bytes(9)])
def test_a_packet_that_is_no_query_has_no_failure(packet: bytes) -> None:
    assert failure(packet) is None


@pytest.mark.parametrize("qtype", ["A", "SOA", "TXT"])
def test_before_any_records_names_in_a_zone_are_servfail(qtype: str) -> None:
    response = parsed(answer(wire("db.tail1234.ts.net", qtype), empty_zone(SETTINGS)))
    assert response.rcode() == dns.rcode.SERVFAIL
    assert not response.flags & dns.flags.AA
    assert parsed(answer(wire("example.org", qtype), empty_zone(SETTINGS))).rcode() == dns.rcode.REFUSED
    not_ready = parsed(answer(wire("db.tail1234.ts.net", qtype, use_edns=0), empty_zone(SETTINGS)))
    assert [option.to_text() for option in not_ready.options] == ["EDE 14 (Not Ready)"]
