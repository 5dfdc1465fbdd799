"""The distribution of records over ConfigMaps."""

import json
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tsnameserver.records import LABEL_SELECTOR, parse
from tsoperator.api.objects import Key
from tsoperator.dns.nameserver import nameserver_labels
from tsoperator.dns.records import shards
from tsoperator.dns.records.live import Record
from tsoperator.dns.records.shards import Limits, Trailer
from tsoperator.dns.records.table import Bucket, Table, bucket_number

ZONES = ("ts.net",)
LIMITS = Limits(split=1000, full=2000)


def buckets(names: Iterable[str]) -> tuple[Bucket, ...]:
    table = Table()
    for name in names:
        table.put(Key("tailscale", name), Record(name, ("192.0.2.1",), ()))
    return table.buckets()


def numbered_names(count: int) -> list[str]:
    return [f"db-{number}.tail1234.ts.net" for number in range(count)]


def even(weight: int) -> tuple[Bucket, ...]:
    return tuple(Bucket({}, {}, {}, weight // 32) for _ in range(32))


def test_a_name_is_always_in_the_same_bucket() -> None:
    assert [*map(bucket_number, ("a.ts.net", "db.tail1234.ts.net", "web.tail1234.ts.net"))] == [5, 11, 21]


@pytest.mark.parametrize(
    ("weight", "now", "wanted"),
    [
        (0, 1, 1),
        (31, 1, 1),
        (32, 1, 2),
        (62, 1, 2),
        (63, 1, 4),
        (2000, 1, 32),
        (16, 2, 2),
        (15, 2, 1),
        (15, 32, 1),
        (30, 4, 2),
    ],
)
def test_the_number_of_shards_grows_when_they_are_full_and_shrinks_when_fewer_would_be_at_most_half_full(
    weight: int, now: int, wanted: int
) -> None:
    assert shards.count_for(even(32 * weight), 0, now, LIMITS) == wanted


@given(st.integers(0, 32 * 900), st.sampled_from([1, 2, 4, 8, 16, 32]))
def test_a_name_that_is_added_and_removed_repeatedly_does_not_split_and_merge_the_shards_each_time(
    weight: int, now: int
) -> None:
    count = shards.count_for(even(weight), 80, now, LIMITS)
    after = shards.count_for(even(weight + 64), 80, count, LIMITS)
    assert shards.count_for(even(weight), 80, after, LIMITS) == after


@pytest.mark.parametrize("count", [1, 2, 4, 8, 16, 32])
def test_each_name_is_in_one_shard_and_no_shard_is_much_larger_than_the_others(count: int) -> None:
    parts = shards.parts_of(buckets(numbered_names(3200)), count, ZONES)
    found = [name for part in parts for bucket in part.buckets for name in bucket.ip4]
    assert sorted(found) == sorted(numbered_names(3200))
    assert max(part.names for part in parts) < 1.5 * 3200 / count
    assert [(part.shard, part.count) for part in parts] == [(shard, count) for shard in range(count)]


def test_a_split_moves_half_of_the_buckets_of_a_shard_to_a_new_shard() -> None:
    whole = buckets(numbered_names(100))
    two, four = (shards.parts_of(whole, count, ZONES) for count in (2, 4))
    assert {*two[1].buckets} == {*four[1].buckets, *four[3].buckets}


@pytest.mark.parametrize(
    ("end", "zones"),
    [
        ('"zones":["ts.net","tail.example.org"],"serial":7}', ["ts.net", "tail.example.org"]),
        ('"zones":["ts.net"],"serial":7,"shard":0,"shards":2}', ["ts.net"]),
        ('"zones":["ts.net"]}', ["ts.net"]),
        ('"serial":7}', []),
        ('"zones":[],"serial":7}', []),
        ('"zones":[7],"serial":7}', []),
        ('"zones":["ts.net"],"more":{"zones":["a.b"]},"serial":7}', []),
    ],
)
def test_the_zones_of_a_document_are_read_from_its_end(end: str, zones: list[str]) -> None:
    names = '{"version":"v1alpha1","ip4":{"zones":["192.0.2.1"]},'
    assert shards.zones_of(f"{names}{end}") == zones
    assert shards.zones_of(f"{names[:-1]}}}") == shards.zones_of("") == []


def test_each_shard_has_its_number_in_its_document() -> None:
    part = shards.parts_of(buckets(numbered_names(9)), 4, ZONES)[3]
    read = json.loads(shards.with_serial(shards.document(part), 7))
    assert (read["serial"], read["shard"], read["shards"]) == (7, 3, 4)
    assert parse(shards.with_serial(shards.document(part), 7)).ip4 == {
        name: ["192.0.2.1"] for bucket in part.buckets for name in bucket.ip4
    }


@pytest.mark.parametrize(
    ("end", "trailer"),
    [
        ('"serial":7}', Trailer(7, 1)),
        ('"serial":4294967295,"shard":31,"shards":32}', Trailer(2**32 - 1, 32)),
        ('"serial":4294967299}', Trailer(3, 1)),
        ('"serial":7,"shard":1,"shards":3}', None),
        ('"serial":7,"shard":1,"shards":64}', None),
        ('"serial":-7}', None),
        ('"more":{}}', None),
        ("", None),
    ],
)
def test_the_serial_and_the_number_of_shards_are_read_from_the_end_of_a_document(
    end: str, trailer: Trailer | None
) -> None:
    assert shards.trailer_of(f'{{"version":"v1alpha1","ip4":{{}},{end}') == trailer


@pytest.mark.parametrize(
    ("name", "shard"),
    [("dnsrecords", 0), ("dnsrecords-1", 1), ("dnsrecords-40", 40)]
    + [(name, None) for name in ("dnsrecords-0", "dnsrecords-01", "dnsrecords-x", "more-dnsrecords")],
)
def test_the_name_of_a_configmap_has_the_number_of_its_shard(name: str, shard: int | None) -> None:
    assert shards.shard_named(name) == shard


def test_the_label_selector_of_the_nameserver_matches_the_labels_of_shards() -> None:
    labels = nameserver_labels("ts-dns", "tailscale")
    assert {f"{name}={value}" for name, value in labels.items()} >= {*LABEL_SELECTOR.split(",")}


def fitted(room: int, served: Iterable[str] = ()) -> list[str]:
    """Return those of nine equally long names that fit into *room* bytes. The *served* names have precedence."""
    (part,) = shards.parts_of(buckets(numbered_names(9)), 1, ZONES)
    (bucket,) = shards.fitting_part(part, room, {*served}).buckets
    return sorted(bucket.ip4)


WEIGHT = 38


@pytest.mark.parametrize(("room", "fit"), [(3 * WEIGHT, 3), (4 * WEIGHT - 1, 3), (9 * WEIGHT, 9), (0, 0)])
def test_a_document_without_room_for_all_names_has_the_first_names_in_alphabetical_order(room: int, fit: int) -> None:
    assert fitted(room) == numbered_names(fit)


def test_a_served_name_stays_in_the_documents_although_a_new_name_is_before_it_in_the_alphabet() -> None:
    assert fitted(3 * WEIGHT, served=numbered_names(9)[6:]) == numbered_names(9)[6:]


@given(st.integers(0, 400), st.sets(st.sampled_from(numbered_names(9))))
def test_a_second_choice_of_the_names_that_fit_into_a_document_equals_the_first_choice(
    room: int, served: set[str]
) -> None:
    once = fitted(room, served)
    assert fitted(room, once) == once
