"""How records are spread over ConfigMaps."""

import json
from collections.abc import Iterable
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tsnameserver.records import LABEL_SELECTOR, parse
from tsoperator.api.objects import Key
from tsoperator.desired.nameserver import nameserver_labels
from tsoperator.reconcilers.dnsrecords import shards
from tsoperator.reconcilers.dnsrecords.records import Record
from tsoperator.reconcilers.dnsrecords.shards import Limits, Trailer
from tsoperator.reconcilers.dnsrecords.table import Bucket, Table, bucket_number

ZONES = ("ts.net",)
LIMITS = Limits(split=1000, full=2000)


def buckets(names: Iterable[str]) -> tuple[Bucket, ...]:
    """The buckets of *names*, each with one address."""
    table = Table()
    for name in names:
        table.put(Key("tailscale", name), Record(name, ("192.0.2.1",), ()))
    return table.buckets()


def numbered_names(count: int) -> list[str]:
    return [f"db-{number}.tail1234.ts.net" for number in range(count)]


def even(weight: int) -> tuple[Bucket, ...]:
    """Buckets that weigh *weight* together."""
    return tuple(Bucket({}, {}, {}, weight // 32) for _ in range(32))


def test_a_name_is_always_in_the_same_bucket() -> None:
    found = [bucket_number(name) for name in ("a.ts.net", "db.tail1234.ts.net", "web.tail1234.ts.net")]
    assert found == [5, 11, 21]


class Count(NamedTuple):
    weight: int
    now: int
    wanted: int


@pytest.mark.parametrize(
    "case",
    [
        Count(0, 1, 1),
        Count(32 * 31, 1, 1),
        Count(32 * 32, 1, 2),
        Count(32 * 62, 1, 2),
        Count(32 * 63, 1, 4),
        Count(32 * 600, 1, 32),
        Count(32 * 2000, 1, 32),
        Count(32 * 2000, 32, 32),
        Count(32 * 32, 2, 2),
        Count(32 * 16, 2, 2),
        Count(32 * 15, 2, 1),
        Count(32 * 15, 32, 1),
        Count(32 * 30, 4, 2),
        Count(32 * 32, 4, 4),
    ],
)
def test_a_set_grows_at_the_limit_and_shrinks_when_half_of_it_is_enough(case: Count) -> None:
    assert shards.count_for(even(case.weight), 0, case.now, LIMITS) == case.wanted


@given(st.integers(0, 32 * 1000), st.sampled_from([1, 2, 4, 8, 16, 32]))
def test_the_number_of_shards_stays_once_it_is_right(weight: int, now: int) -> None:
    count = shards.count_for(even(weight), 80, now, LIMITS)
    assert shards.count_for(even(weight), 80, count, LIMITS) == count


@given(st.integers(0, 32 * 900), st.sampled_from([1, 2, 4, 8, 16, 32]))
def test_a_name_more_or_less_never_splits_and_merges_by_turns(weight: int, now: int) -> None:
    count = shards.count_for(even(weight), 80, now, LIMITS)
    after = shards.count_for(even(weight + 64), 80, count, LIMITS)
    assert shards.count_for(even(weight), 80, after, LIMITS) == after


@pytest.mark.parametrize("count", [1, 2, 4, 8, 16, 32])
def test_the_parts_have_every_name_once_and_none_is_left_much_larger(count: int) -> None:
    parts = shards.parts_of(buckets(numbered_names(3200)), count, ZONES)
    found = [name for part in parts for bucket in part.buckets for name in bucket.ip4]
    assert sorted(found) == sorted(numbered_names(3200))
    assert max(part.names for part in parts) < 1.5 * 3200 / count
    assert [(part.shard, part.count) for part in parts] == [(shard, count) for shard in range(count)]


def test_a_split_takes_the_names_of_a_shard_apart_and_mixes_none() -> None:
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


def test_each_of_several_shards_says_which_it_is() -> None:
    part = shards.parts_of(buckets(numbered_names(9)), 4, ZONES)[3]
    read = json.loads(shards.with_serial(shards.document(part), 7))
    assert (read["serial"], read["shard"], read["shards"]) == (7, 3, 4)
    assert parse(shards.with_serial(shards.document(part), 7)).ip4 == {
        name: ["192.0.2.1"] for bucket in part.buckets for name in bucket.ip4
    }


class Ending(NamedTuple):
    document: str
    trailer: Trailer | None


@pytest.mark.parametrize(
    "case",
    [
        Ending('{"version":"v1alpha1","ip4":{},"serial":7}', Trailer(7, 1)),
        Ending('{"version":"v1alpha1","ip4":{},"serial":4294967295,"shard":31,"shards":32}', Trailer(2**32 - 1, 32)),
        Ending('{"version":"v1alpha1","ip4":{},"serial":4294967299}', Trailer(3, 1)),
        Ending('{"version":"v1alpha1","ip4":{},"serial":7,"shard":1,"shards":3}', None),
        Ending('{"version":"v1alpha1","ip4":{},"serial":7,"shard":1,"shards":64}', None),
        Ending('{"version":"v1alpha1","ip4":{},"serial":-7}', None),
        Ending('{"version":"v1alpha1","ip4":{}}', None),
        Ending("nonsense", None),
        Ending("", None),
    ],
)
def test_the_trailer_of_a_document_is_at_its_end(case: Ending) -> None:
    assert shards.trailer_of(case.document) == case.trailer


class Holder(NamedTuple):
    configmap: str
    shard: int | None


@pytest.mark.parametrize(
    "case",
    [
        Holder("dnsrecords", 0),
        Holder("dnsrecords-1", 1),
        Holder("dnsrecords-31", 31),
        Holder("dnsrecords-40", 40),
        Holder("dnsrecords-0", None),
        Holder("dnsrecords-01", None),
        Holder("dnsrecords-x", None),
        Holder("more-dnsrecords", None),
    ],
)
def test_the_name_of_a_configmap_says_which_shard_it_holds(case: Holder) -> None:
    assert shards.shard_named(case.configmap) == case.shard


def test_the_nameserver_selects_the_labels_that_shards_carry() -> None:
    labels = nameserver_labels("ts-dns", "tailscale")
    assert {f"{name}={value}" for name, value in labels.items()} >= {*LABEL_SELECTOR.split(",")}


def fitted(room: int, served: Iterable[str] = ()) -> list[str]:
    """Those of nine numbered_names of the same weight that fit."""
    (part,) = shards.parts_of(buckets(numbered_names(9)), 1, ZONES)
    (bucket,) = shards.fitting(part, room, {*served}).buckets
    return sorted(bucket.ip4)


WEIGHT = 38


def test_names_without_room_are_left_out_from_the_end() -> None:
    assert fitted(3 * WEIGHT) == numbered_names(3)
    assert fitted(4 * WEIGHT - 1) == numbered_names(3)
    assert fitted(9 * WEIGHT) == numbered_names(9)
    assert fitted(0) == []


def test_a_name_that_is_served_is_not_crowded_out_by_one_that_comes() -> None:
    assert fitted(3 * WEIGHT, served=numbered_names(9)[6:]) == numbered_names(9)[6:]


@given(st.integers(0, 400), st.sets(st.sampled_from(numbered_names(9))))
def test_names_that_fit_stay_as_they_are(room: int, served: set[str]) -> None:
    once = fitted(room, served)
    assert fitted(room, once) == once
