"""Tests of the queries that the benchmark sends to servers."""

from collections import Counter

import dns.message
import pytest
from dnsbench.queries import DOMAIN, FEWEST, NXDOMAIN, REFUSED, Hostile, Mix, make, packet
from dnsload.client import ASKED, JUNK, PORTLESS


def test_each_packet_of_the_dns_benchmark_is_a_plain_query_for_an_address() -> None:
    query = dns.message.from_wire(packet(f"db.{DOMAIN}"))
    assert query.question[0].to_text() == f"db.{DOMAIN}. IN A"
    assert (query.id, query.flags, query.edns) == (0, 0x0100, -1)


@pytest.mark.parametrize("names", [1, 20_000])
def test_a_mix_of_queries_has_the_requested_share_of_each_sort(names: int) -> None:
    shares = {"misses": 0.1, "deep": 0.2, "outside": 0.05, "hostility": 0.04}
    queries = make(Mix(names, cookies=0.3, hostile=tuple(Hostile), **shares))
    total = max(names, FEWEST)
    kinds = Counter((query.kind, query.rcode) for query in queries)
    assert [kinds[each] for each in ((ASKED, NXDOMAIN), (ASKED, REFUSED), (PORTLESS, 0), (JUNK, 0))] == [
        0.3 * total, 0.05 * total, 0.01 * total, 0.03 * total,
    ]  # fmt: skip
    assert sum(bool(query.addresses) and query.packet[11] for query in queries) == 0.3 * total
    assert len(queries) == total


@pytest.mark.parametrize("sort", Hostile)
def test_each_hostile_packet_is_of_the_requested_sort(sort: Hostile) -> None:
    hostile = [query for query in make(Mix(10, 0.0, hostile=(sort,), hostility=0.01)) if query.kind >= JUNK]
    assert len(hostile) == FEWEST // 100
    assert {query.packet[:2] for query in hostile} == {b"\xff\xff"}
    if sort is Hostile.MALFORMED:
        return
    assert {query.kind for query in hostile} == {PORTLESS if sort is Hostile.PORTLESS else JUNK}
    queries = [dns.message.from_wire(query.packet) for query in hostile]
    assert {len(query.question[0].name) - 1 for query in queries} == {120 if sort is Hostile.DEEP else 4}
    assert {len(query.options) for query in queries} == {sort is Hostile.COOKIES}


def test_the_dns_benchmark_asks_for_every_name_equally_often() -> None:
    asked = Counter(query.packet for query in make(Mix(100, misses=0)))
    assert set(asked.values()) == {FEWEST // 100}


def test_all_queries_for_missing_names_are_different() -> None:
    assert len({query.packet for query in make(Mix(10, misses=1.0))}) == FEWEST


def test_every_contestant_gets_the_same_queries_in_the_same_random_order() -> None:
    some = Mix(10, hostile=(Hostile.MALFORMED,), hostility=0.1)
    queries = make(some)
    assert queries == make(some)
    assert {(query.kind, query.rcode) for query in queries[:100]} == {(ASKED, 0), (ASKED, NXDOMAIN), (JUNK, 0)}
