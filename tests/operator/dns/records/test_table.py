"""The table of all records while proxies change."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tsoperator.api.objects import Key
from tsoperator.dns.records.live import Record
from tsoperator.dns.records.shards import document, frame_of, parts_of, with_serial
from tsoperator.dns.records.table import Bucket, Table, bucket_number, bucket_of

A, B = Key("tailscale", "ts-a"), Key("tailscale", "ts-b")
DB = Record("db.tail1234.ts.net", ("192.0.2.1",), ())
DB_TOO = Record("db.tail1234.ts.net", ("192.0.2.10", "192.0.2.9"), ("2001:db8::1",))
WEB = Record("web.tail1234.ts.net", (), ("2001:db8::2",))


def table(*puts: tuple[Key, Record | None]) -> Table:
    made = Table()
    for proxy, record in puts:
        made.put(proxy, record)
    return made


def content(buckets: tuple[Bucket, ...]) -> list[tuple[object, object, object]]:
    return [(bucket.ip4, bucket.ip6, bucket.weights) for bucket in buckets]


def both(made: Table) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    ip4 = {name: addresses for bucket in made.buckets() for name, addresses in bucket.ip4.items()}
    return ip4, {name: addresses for bucket in made.buckets() for name, addresses in bucket.ip6.items()}


def test_a_name_has_the_sorted_addresses_of_all_its_proxies_except_those_of_a_removed_proxy() -> None:
    shared = table((A, DB), (B, DB_TOO))
    assert both(shared) == ({DB.name: ["192.0.2.1", "192.0.2.9", "192.0.2.10"]}, {DB.name: ["2001:db8::1"]})
    shared.put(B, None)
    assert both(shared) == ({DB.name: ["192.0.2.1"]}, {})


def test_a_name_with_only_ipv6_addresses_exists_without_addresses_in_the_table_for_ipv4() -> None:
    assert both(table((A, WEB))) == ({WEB.name: []}, {WEB.name: ["2001:db8::2"]})


def test_a_change_renews_only_the_buckets_of_its_names() -> None:
    made = table((A, DB))
    before = made.buckets()
    made.put(A, WEB)
    renewed = {number for number, pair in enumerate(zip(before, made.buckets(), strict=True)) if pair[0] is not pair[1]}
    assert renewed == {bucket_number(DB.name), bucket_number(WEB.name)}


@pytest.mark.parametrize("again", [(A, DB), (B, None)])
def test_an_unchanged_record_renews_no_bucket(again: tuple[Key, Record | None]) -> None:
    made = table((A, DB))
    before = made.buckets()
    made.put(*again)
    assert made.buckets() == before


RECORDS = st.none() | st.sampled_from([DB, DB_TOO, WEB])
PUTS = st.lists(st.tuples(st.sampled_from([A, B, Key("tailscale", "ts-c")]), RECORDS))


@given(PUTS)
def test_the_table_depends_only_on_the_most_recent_record_of_each_proxy(puts: list[tuple[Key, Record | None]]) -> None:
    lived = Table()
    for put in puts:
        lived.put(*put)
        lived.buckets()
    assert content(lived.buckets()) == content(table(*dict(puts).items()).buckets())


NAMES = st.integers(0, 10**9).map(lambda number: f"db-{number}.tail1234.ts.net")
ADDRESSES = st.lists(st.sampled_from(["192.0.2.1", "198.51.100.20", "2001:db8::1"]), max_size=4).map(tuple)


@given(st.dictionaries(NAMES, st.tuples(ADDRESSES, ADDRESSES), max_size=5))
def test_a_document_is_never_larger_than_the_estimates_for_its_records_and_for_the_text_around_them(
    found: dict[str, tuple[tuple[str, ...], ...]],
) -> None:
    bucket = bucket_of(Record(name, ip4, ip6) for name, (ip4, ip6) in found.items())
    for part in parts_of((bucket,), 1, ("ts.net", "tail.example.org")):
        size = len(with_serial(document(part), 2**32 - 1).encode())
        assert size <= bucket.weight + frame_of(part.zones) <= size + 60
