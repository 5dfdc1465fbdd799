"""Tests of the counters of queries and responses."""

import random

import dns.edns
import dns.flags
import pytest
from tsnameserver.answer import answer
from tsnameserver.counters import OTHER, Counts
from tsnameserver.message import FORMERR

from tests.nameserver.random_queries import ZONES, random_query
from tests.nameserver.samples import sample_zone, wire

DB = "db.tail1234.ts.net"
SOA = wire("ts.net", "SOA")
CASES: list[tuple[bytes, int, int | None, int]] = [  # the query, and its counted type, rcode and path (1: fast path)
    (wire(DB), 1, 0, 1),
    (wire(DB, "AAAA", use_edns=0), 28, 0, 1),
    (wire(DB, flags=0), 1, 0, 1),
    (wire(DB, flags=dns.flags.RD | dns.flags.AD | dns.flags.CD), 1, 0, 1),
    (wire(DB, "HTTPS", want_dnssec=True), 65, 0, 1),
    (wire("no.ts.net", "SVCB", use_edns=0), 64, 3, 1),
    (wire("no.ts.net"), 1, 3, 1),
    (SOA, 6, 0, 0),
    (wire(DB, "TYPE1000"), OTHER, 0, 0),
    (wire("example.org", use_edns=0), 1, 5, 1),
    (wire("example.org", "MX"), 15, 5, 1),
    (wire("example.org", "SOA"), 6, 5, 0),
    (wire(DB, use_edns=0, options=[dns.edns.CookieOption(b"cookie01", b"")]), 1, 0, 1),
    (wire(DB, use_edns=0, options=[dns.edns.NSIDOption(b"")]), 1, 0, 0),
    (wire(DB, "AAAA", use_edns=1), 28, 16, 0),
    (SOA[:2] + bytes((5 << 3,)) + SOA[3:], OTHER, 4, 0),
    (wire(DB) + b"?", OTHER, 1, 0),
    (wire(DB)[:-1], OTHER, 1, 0),
    (bytes(12), OTHER, 1, 0),
    (b"\x12\x34\x80" + bytes(20), OTHER, None, 0),
    (b"", OTHER, None, 0),
]


@pytest.mark.parametrize(("query", "qtype", "rcode", "fast"), CASES)
def test_queries_are_counted_by_type_rcode_and_path(query: bytes, qtype: int, rcode: int | None, fast: int) -> None:
    counts = Counts()
    for _ in range(3):
        answer(query, sample_zone(), counts)
    assert {each: number for each, number in counts.requests().items() if number} == {qtype: 3}
    responses = {each: number for each, number in counts.responses().items() if number}
    assert responses == ({} if rcode is None else {rcode: 3})
    assert (sum(counts.fast), counts.general) == (3 * fast, 3 * (1 - fast))
    assert counts.malformed == (3 if rcode in {FORMERR, None} else 0)


@pytest.mark.parametrize("stream", [False, True])
def test_each_query_is_counted_once_under_one_of_the_fixed_types_and_rcodes(stream: bool) -> None:
    counts, chance = Counts(), random.Random(2)
    responses = [answer(random_query(chance), ZONES[0], counts, stream=stream) for _ in range(500)]
    assert sum(counts.requests().values()) == sum(counts.fast) + counts.general == 500
    assert sum(counts.responses().values()) == 500 - responses.count(None)
    assert min(sum(counts.fast), counts.general) > 100
    assert (counts.requests().keys(), counts.responses().keys()) == (
        Counts().requests().keys(),
        Counts().responses().keys(),
    )
