"""The fast path and the general path give the same answer. The conformance tests check the content of answers."""

import random

import dns.flags
import dns.message
import dns.rcode
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tsnameserver.answer import answer, failure, general
from tsnameserver.compiler import empty_zone

from tests.nameserver.random_queries import ZONES, random_query
from tests.nameserver.samples import SETTINGS, make_query, parsed, wire

QUERIES = st.integers(min_value=0).map(lambda seed: random_query(random.Random(seed)))


@given(QUERIES | st.binary(max_size=600), st.booleans())
def test_the_fast_and_the_general_path_give_equal_answers_that_parse_and_fit_into_a_datagram(
    query: bytes, stream: bool
) -> None:
    for zone in ZONES:
        response = answer(query, zone, stream=stream)
        assert response == general(query, zone, stream=stream)
        assert response is None or dns.message.from_wire(response).id == int.from_bytes(query[:2], "big")
        assert response is None or stream or len(response) <= 1232


@pytest.mark.parametrize("count", [3_000, pytest.param(20_000, marks=pytest.mark.thorough)])
def test_the_fast_path_and_the_general_path_agree_on_thousands_of_random_queries(count: int) -> None:
    chance = random.Random(1)
    for query in (random_query(chance) for _ in range(count)):
        assert answer(query, ZONES[0]) == general(query, ZONES[0])


def test_after_an_exception_a_query_gets_servfail_and_any_other_packet_gets_no_answer() -> None:
    query = make_query("db.tail1234.ts.net")
    response = parsed(failure(query.to_wire()))
    assert (response.id, response.rcode()) == (query.id, dns.rcode.SERVFAIL)
    assert [failure(packet) for packet in (b"", bytes(11), b"\0\0\x80" + bytes(9))] == [None] * 3


def test_queries_for_names_in_a_zone_get_servfail_before_the_first_records_arrive() -> None:
    response = parsed(answer(wire("db.tail1234.ts.net", use_edns=0), empty_zone(SETTINGS)))
    assert (response.rcode(), response.flags & dns.flags.AA) == (dns.rcode.SERVFAIL, 0)
    assert [option.to_text() for option in response.options] == ["EDE 14 (Not Ready)"]
    assert parsed(answer(wire("example.org"), empty_zone(SETTINGS))).rcode() == dns.rcode.REFUSED
