"""Tests of answering: what bytes go in and come out."""

import random
import struct

import dns.flags
import dns.message
import dns.rcode
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tsnameserver.answer import answer, failure
from tsnameserver.compiler import build_zone, empty_zone
from tsnameserver.counters import Counts
from tsnameserver.names import wire_name
from tsnameserver.zone import ZoneSettings

from tests.nameserver.equality import ZONES, difference, random_query
from tests.nameserver.samples import RECORDS, SETTINGS, make_query, parsed, sample_zone, wire

ZONE = build_zone(RECORDS, ZoneSettings(origins=("ts.net", "deep.ts.net")))
LABEL = st.sampled_from(
    [b"db", b"DB", b"v4", b"v6", b"none", b"many", b"mixed", b"tail1234", b"deep", b"b", b"a", b"x"]
)
NAME: st.SearchStrategy[bytes] = st.builds(
    lambda labels, end: b"".join(bytes([len(label)]) + label for label in labels) + end,
    st.lists(LABEL | st.binary(min_size=1, max_size=63), max_size=5),
    st.sampled_from(
        [b"\x02ts\x03net\x00", b"\x02tS\x03NET\x00", b"\x03net\x00", b"\x00", b"\x08tail1234\x02ts\x03net\x00"]
    ),
)
QTYPE = st.sampled_from([1, 28, 2, 6, 65, 97, 64, 16, 255, 252, 251, 1000, 0x4101]) | st.integers(0, 65535)
_A_IN = b"\0\1\0\1"
QCLASS = st.sampled_from([1, 1, 1, 1, 3, 254, 255])
OPTION = st.builds(
    lambda code, data: struct.pack("!HH", code, len(data)) + data, st.integers(0, 65535), st.binary(max_size=9)
)
OPT: st.SearchStrategy[bytes] = st.builds(
    lambda size, version, flags, options: (
        struct.pack("!BHHBBHH", 0, 41, size, 0, version, flags, len(options)) + options
    ),
    st.sampled_from([0, 511, 512, 700, 1232, 4096, 65535]),
    st.sampled_from([0, 0, 0, 1, 100]),
    st.sampled_from([0, 0x8000, 0x80, 0xFFFF]),
    st.just(b"") | OPTION,
)


@st.composite
def queries(draw: st.DrawFn) -> bytes:
    """Draw a well-formed query: any ID, any flags but QR and opcode, one question, at most an OPT record."""
    opt = draw(st.just(b"") | OPT)
    head = draw(st.binary(min_size=2, max_size=2)) + bytes([draw(st.integers(0, 7)), draw(st.integers(0, 255))])
    counts = struct.pack("!4H", 1, 0, 0, 1 if opt else 0)
    return head + counts + draw(NAME) + struct.pack("!HH", draw(QTYPE), draw(QCLASS)) + opt


@given(queries(), st.booleans())
def test_the_fast_path_equals_the_general_one(query: bytes, stream: bool) -> None:
    for zone in ZONES:
        assert difference(query, zone, stream=stream) is None


@given(st.randoms(use_true_random=False), st.booleans())
def test_the_paths_are_equal_near_the_names_of_the_zone(chance: random.Random, stream: bool) -> None:
    assert difference(random_query(chance), ZONES[0], stream=stream) is None


def test_ten_thousand_random_queries_are_answered_alike() -> None:
    chance = random.Random(1)
    assert [found for _ in range(10_000) if (found := difference(random_query(chance), ZONES[0], stream=False))] == []


def test_a_node_is_no_parent_of_a_name_that_is_malformed() -> None:
    parent = wire_name("db.tail1234.ts.net")
    for start in (b"\0", b"\x40" + b"a" * 64, b"\xc0\x0c", b"\x3f" + b"a" * 62):
        response = answer(wire("ts.net")[:12] + start + parent + _A_IN, ZONE)
        assert parsed(response).rcode() == dns.rcode.FORMERR


@pytest.mark.parametrize("stream", [False, True])
def test_each_answer_is_counted_once(stream: bool) -> None:
    counts = Counts()
    chance = random.Random(2)
    responses = [answer(random_query(chance), ZONES[0], counts, stream=stream) for _ in range(2000)]
    assert sum(counts.requests().values()) == sum(counts.fast) + counts.general == 2000
    assert sum(counts.responses().values()) == 2000 - responses.count(None)
    assert min(sum(counts.fast), counts.general) > 500


@given(queries())
def test_every_well_formed_query_has_an_answer_that_parses(query: bytes) -> None:
    response = answer(query, ZONE)
    assert response is not None
    assert (response[:2], response[2] & 0x80) == (query[:2], 0x80)
    assert len(response) <= 1232
    dns.message.from_wire(response)


@given(st.binary(max_size=600))
def test_any_bytes_have_an_answer_that_parses_or_none(data: bytes) -> None:
    for stream in (False, True):
        response = answer(data, ZONE, stream=stream)
        assert response is None or dns.message.from_wire(response).id == int.from_bytes(data[:2], "big")


def test_a_hundred_thousand_mutated_queries_do_no_harm() -> None:
    chance = random.Random(1)
    seeds = [
        wire("db.tail1234.ts.net"),
        wire("many.tail1234.ts.net", use_edns=0),
        wire("no.ts.net", "AAAA", use_edns=0),
    ]
    for count in range(100_000):
        query = bytearray(seeds[count % 3])
        for _ in range(chance.randint(1, 3)):
            query[chance.randrange(len(query))] = chance.randrange(256)
        response = answer(bytes(query[: chance.randint(10, len(query))] if count % 5 == 0 else query), ZONE)
        if response is not None and count % 10 == 0:
            dns.message.from_wire(response)


@pytest.mark.parametrize("data", [b"", b"\0", bytes(11), wire("ts.net")[:2] + b"\x80" + wire("ts.net")[3:]])
def test_what_is_no_query_has_no_answer(data: bytes) -> None:
    assert answer(data, ZONE) is None
    assert failure(data) is None


@pytest.mark.parametrize("name", ["db.tail1234.ts.net", "DB.Tail1234.TS.nEt", "no.TS.net", "tail1234.Ts.net"])
def test_the_question_is_echoed_byte_for_byte(name: str) -> None:
    query = wire(name)
    response = answer(query, ZONE)
    assert response is not None
    assert response[12 : len(query)] == query[12:]


def test_answers_are_owned_by_the_name_as_it_was_asked() -> None:
    response = parsed(answer(wire("dB.tail1234.ts.net"), ZONE))
    assert response.answer[0].name.to_text() == "dB.tail1234.ts.net."


def test_a_failure_is_servfail_with_the_id() -> None:
    query = make_query("db.tail1234.ts.net")
    response = parsed(failure(query.to_wire()))
    assert (response.id, response.rcode()) == (query.id, dns.rcode.SERVFAIL)


@pytest.mark.parametrize("qtype", ["A", "SOA", "TXT"])
def test_before_any_records_names_in_a_zone_are_servfail(qtype: str) -> None:
    response = parsed(answer(wire("db.tail1234.ts.net", qtype), empty_zone(SETTINGS)))
    assert response.rcode() == dns.rcode.SERVFAIL
    assert not response.flags & dns.flags.AA
    assert parsed(answer(wire("example.org"), empty_zone(SETTINGS))).rcode() == dns.rcode.REFUSED


def test_a_name_of_255_bytes_is_answered_and_a_longer_one_is_not() -> None:
    question = wire("ts.net")[:12] + b"\x3f" + b"a" * 63 + b"\x3f" + b"b" * 63 + b"\x3f" + b"c" * 63
    end = wire_name("ts.net") + b"\0\1\0\1"
    fits = question + b"\x36" + b"d" * 54 + end
    assert len(fits) == 12 + 255 + 4
    assert parsed(answer(fits, ZONE, stream=True)).rcode() == dns.rcode.NXDOMAIN
    assert parsed(answer(question + b"\x37" + b"d" * 55 + end, ZONE, stream=True)).rcode() == dns.rcode.FORMERR


@pytest.mark.parametrize(
    "name",
    [
        b"\x02db\xc0\x0c",
        b"\x02db\xc0\x0e",
        b"\xc0\x0c",
        b"\xc0\xff",
        b"\xff\xff",
        b"\x40" + b"a" * 64 + b"\0",
        b"\x05ab",
        b"",
    ],
)
def test_a_name_that_is_not_whole_is_formerr(name: bytes) -> None:
    query = wire("ts.net")[:12] + name
    assert parsed(answer(query + _A_IN, ZONE)).rcode() == dns.rcode.FORMERR
    assert parsed(answer(query, ZONE)).rcode() == dns.rcode.FORMERR


@pytest.mark.parametrize("name", [b"\x03d.b\x08tail1234", b"\x02db\x0ctail1234.tsn", b"\x02d\0\x08tail1234"])
def test_dots_and_zeros_in_a_label_match_nothing(name: bytes) -> None:
    query = wire("ts.net")[:12] + name + wire_name("ts.net") + _A_IN
    assert parsed(answer(query, ZONE)).rcode() == dns.rcode.NXDOMAIN


def test_the_type_is_not_folded_with_the_name() -> None:
    for qtype in ("TYPE65", "TYPE97"):
        query = wire("db.tail1234.ts.net", qtype)
        response = answer(query, sample_zone())
        assert response is not None
        assert response[12 : len(query)] == query[12:]
