"""Tests of the queries that servers are measured by."""

import struct
from collections import Counter

import dns.message
import pytest
from dnsbench.queries import DOMAIN, FEWEST, HIT, JUNK, MISS, NXDOMAIN, Mix, addresses, hit, make, miss, packet, text


def test_a_packet_is_a_plain_query_for_an_address() -> None:
    query = dns.message.from_wire(packet(f"db.{DOMAIN}"))
    assert query.question[0].to_text() == f"db.{DOMAIN}. IN A"
    assert (query.id, query.flags, query.edns) == (0, 0x0100, -1)


def test_a_hit_is_owed_its_address_and_a_miss_nxdomain() -> None:
    assert hit(f"db.{DOMAIN}", "100.64.0.7") == (packet(f"db.{DOMAIN}"), HIT, 0, b"\x64\x40\x00\x07")
    assert miss(f"db.{DOMAIN}") == (packet(f"db.{DOMAIN}"), MISS, NXDOMAIN, b"")


def test_the_clients_record_says_how_long_each_part_is() -> None:
    query = hit(f"db.{DOMAIN}", "100.64.0.7")
    head = struct.pack("!HBBH", len(query.packet), HIT, 0, 4)
    assert query.encode() == head + query.packet + b"\x64\x40\x00\x07"


def test_names_have_addresses_of_their_own() -> None:
    known = addresses(1000)
    assert len(set(known.values())) == len(known) == 1000


@pytest.mark.parametrize("names", [1, 20_000])
def test_a_mix_has_the_shares_that_were_asked_for(names: int) -> None:
    kinds = Counter(query.kind for query in make(Mix(names, misses=0.1, junk=0.01)))
    total = max(names, FEWEST)
    assert (kinds[MISS], kinds[JUNK], kinds.total()) == (total * 0.1, total * 0.01, total)


def test_every_name_is_asked_for_equally_often() -> None:
    asked = Counter(query.packet for query in make(Mix(100, misses=0)))
    assert set(asked.values()) == {FEWEST // 100}


def test_misses_are_all_different() -> None:
    assert len({query.packet for query in make(Mix(10, misses=1.0))}) == FEWEST


def test_everyone_gets_the_same_queries_shuffled() -> None:
    queries = make(Mix(10, junk=0.1))
    assert queries == make(Mix(10, junk=0.1))
    assert {query.kind for query in queries[:100]} == {HIT, MISS, JUNK}


def test_junk_has_an_id_that_no_query_gets() -> None:
    rubbish = [query for query in make(Mix(10, misses=0, junk=1.0)) if query.kind == JUNK]
    assert len(rubbish) == FEWEST
    assert {query.packet[:2] for query in rubbish} == {b"\xff\xff"}


def test_dnsperfs_file_has_the_same_names() -> None:
    assert text(miss(f"missing.{DOMAIN}")) == f"missing.{DOMAIN} A\n"
