"""Tests of the records format."""

from typing import NamedTuple

import pytest
from tsnameserver.errors import RecordsError
from tsnameserver.records import Records, merge, parse, render, share, whole_set

UPSTREAM = (
    '{"version":"v1alpha1","ip4":{"foo.bar.ts.net":["100.64.0.9"]},'
    '"ip6":{"foo.bar.ts.net":["2001:db8:4011:161:0:d:0:d"]}}'
)


def test_a_document_of_upstreams_is_written_the_same() -> None:
    assert render(parse(UPSTREAM)) == UPSTREAM


def test_names_are_in_byte_order_and_empty_fields_omitted() -> None:
    assert (
        render(Records(ip4={"b": [], "B": ["192.0.2.1"]})) == '{"version":"v1alpha1","ip4":{"B":["192.0.2.1"],"b":[]}}'
    )


def test_our_fields_come_after_upstreams() -> None:
    records = Records(zones=["ts.example.org"], serial=3, shard=0, shards=2)
    expected = '{"version":"v1alpha1","ip4":{},"zones":["ts.example.org"],"serial":3,"shard":0,"shards":2}'
    assert render(records) == expected
    assert parse(expected) == records


@pytest.mark.parametrize(
    "document",
    [
        '{"version":"v1alpha1"}',
        '{"version":"v1alpha1","ip4":null,"ip6":null,"zones":null,"serial":null}',
        b'{"version":"v1alpha1","ip4":{},"ip7":{"x":1}}',
    ],
)
def test_keys_are_optional_null_or_unknown(document: str | bytes) -> None:
    assert parse(document) == Records()


def test_null_addresses_are_none() -> None:
    assert parse('{"version":"v1alpha1","ip4":{"a":null,"b":["192.0.2.1"]}}').ip4 == {"a": [], "b": ["192.0.2.1"]}


class Bad(NamedTuple):
    document: str | bytes
    says: str


@pytest.mark.parametrize(
    "case",
    [
        Bad("", "Invalid JSON"),
        Bad('{"version":"v1alpha1"', "Invalid JSON"),
        Bad(b"\xff\xfe", "Invalid JSON"),
        Bad("[]", "Input should be"),
        Bad('{"ip4":{}}', "version is missing"),
        Bad('{"version":"v1beta1"}', "version is 'v1beta1'"),
        Bad('{"version":"v1alpha1","ip4":{"a":"192.0.2.1"}}', "ip4.a"),
        Bad('{"version":"v1alpha1","serial":-1}', "serial"),
    ],
)
def test_a_bad_document_says_where_it_is_bad(case: Bad) -> None:
    with pytest.raises(RecordsError, match=case.says):
        parse(case.document)


def shard(number: int, of: int, serial: int = 1) -> Records:
    name = f"n{number}of{of}.ts.net"
    return Records(ip4={name: ["192.0.2.1"]}, zones=["ts.net", name], serial=serial, shard=number, shards=of)


def test_a_document_without_shards_is_a_whole_set() -> None:
    assert merge([Records(serial=4), shard(1, 2)]) == Records(serial=4)


def test_shards_are_joined() -> None:
    merged = merge([shard(1, 2, serial=9), shard(0, 2)])
    assert merged is not None
    assert list(merged.ip4) == ["n0of2.ts.net", "n1of2.ts.net"]
    assert merged.zones == ["ts.net", "n0of2.ts.net", "n1of2.ts.net"]
    assert merged.serial == 9


class Half(NamedTuple):
    name: str
    documents: list[Records]


@pytest.mark.parametrize(
    "case",
    [
        Half("nothing", []),
        Half("one missing", [shard(0, 2)]),
        Half("first missing", [shard(1, 2)]),
        Half("being split from two to three", [shard(0, 3), shard(1, 2), shard(2, 3)]),
        Half("a shard past the count", [shard(0, 2), shard(2, 2)]),
        Half("one of more than can be counted", [shard(0, 10**15)]),
    ],
    ids=lambda case: case.name,
)
def test_a_set_that_is_not_whole_does_not_count(case: Half) -> None:
    assert merge(case.documents) is None


def test_a_leftover_of_a_larger_set_does_not_matter() -> None:
    merged = merge([shard(0, 2), shard(1, 2), shard(2, 3)])
    assert merged is not None
    assert "n2of3.ts.net" not in merged.ip4


def test_the_newer_of_two_whole_sets_counts() -> None:
    merged = merge([Records(serial=1), shard(0, 1, serial=2)])
    assert merged is not None
    assert list(merged.ip4) == ["n0of1.ts.net"]


def test_a_whole_set_is_the_shards_themselves_in_order() -> None:
    first, second = shard(0, 2), shard(1, 2)
    parts = whole_set([second, shard(2, 3), first])
    assert parts is not None
    assert [part is each for part, each in zip(parts, (first, second), strict=True)] == [True, True]


def test_addresses_that_are_as_they_were_are_held_once() -> None:
    old = Records(ip4={"a": ["192.0.2.1"], "b": ["192.0.2.2"]}, ip6={"a": ["2001:db8::1"]})
    new = Records(ip4={"a": ["192.0.2.1"], "b": ["192.0.2.3"]}, ip6={"a": ["2001:db8::1"]})
    before = new.model_copy(deep=True)
    share(new, old)
    assert new == before
    assert new.ip4["a"] is old.ip4["a"]
    assert new.ip6["a"] is old.ip6["a"]
