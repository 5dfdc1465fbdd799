"""Tests of counting queries and responses."""

import struct
from typing import NamedTuple

import dns.edns
import dns.flags
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tsnameserver.answer import answer
from tsnameserver.counters import OTHER, Counts

from tests.nameserver.samples import sample_zone, wire

ZONE = sample_zone()
DB = "db.tail1234.ts.net"


class Case(NamedTuple):
    query: bytes
    qtype: int
    rcode: int | None
    fast: int = 0


def opcode(number: int) -> bytes:
    query = wire("ts.net", "SOA")
    return query[:2] + bytes((number << 3,)) + query[3:]


CASES = [
    Case(wire(DB), 1, 0, 1),
    Case(wire(DB, "AAAA", use_edns=0), 28, 0, 1),
    Case(wire(DB, flags=0), 1, 0, 1),
    Case(wire(DB, flags=dns.flags.RD | dns.flags.AD | dns.flags.CD), 1, 0, 1),
    Case(wire(DB, "HTTPS", want_dnssec=True), 65, 0, 1),
    Case(wire("no.ts.net", "SVCB", use_edns=0), 64, 3, 1),
    Case(wire("no.ts.net"), 1, 3, 1),
    Case(wire("ts.net", "SOA"), 6, 0),
    Case(wire(DB, "TYPE1000"), OTHER, 0),
    Case(wire("example.org", use_edns=0), 1, 5, 1),
    Case(wire("example.org", "MX"), 15, 5, 1),
    Case(wire("example.org", "SOA"), 6, 5),
    Case(wire(DB, use_edns=0, options=[dns.edns.CookieOption(b"cookie01", b"")]), 1, 0, 1),
    Case(wire(DB, use_edns=0, options=[dns.edns.NSIDOption(b"")]), 1, 0),
    Case(wire(DB, "AAAA", use_edns=1), 28, 16),
    Case(opcode(5), OTHER, 4),
    Case(wire(DB) + b"?", OTHER, 1),
    Case(b"", OTHER, None),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_query_is_counted_by_type_and_rcode(case: Case) -> None:
    counts = Counts()
    for _ in range(3):
        answer(case.query, ZONE, counts)
    assert {qtype: number for qtype, number in counts.requests().items() if number} == {case.qtype: 3}
    responses = {rcode: number for rcode, number in counts.responses().items() if number}
    assert responses == ({} if case.rcode is None else {case.rcode: 3})
    assert (sum(counts.fast), counts.general) == (3 * case.fast, 3 * (1 - case.fast))


@pytest.mark.parametrize("query", [b"", b"\x12\x34\x80" + bytes(20), bytes(12), wire(DB)[:-1], wire(DB) + b"?"])
def test_a_packet_that_is_no_query_is_malformed(query: bytes) -> None:
    counts = Counts()
    answer(query, ZONE, counts)
    answer(wire(DB), ZONE, counts)
    assert counts.malformed == 1


@given(
    st.lists(
        st.binary(max_size=80) | st.integers(0, 65535).map(lambda qtype: wire(DB)[:-4] + struct.pack("!HH", qtype, 1))
    )
)
def test_whatever_is_asked_there_are_no_more_numbers(queries: list[bytes]) -> None:
    counts = Counts()
    for query in queries:
        answer(query, ZONE, counts)
    assert sum(counts.requests().values()) == len(queries)
    assert counts.requests().keys() == Counts().requests().keys()
    assert counts.responses().keys() == Counts().responses().keys()
