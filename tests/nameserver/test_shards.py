"""Tests of name lookups in all documents of a complete set."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tsnameserver.names import fold
from tsnameserver.records import Records
from tsnameserver.shards import ShardSet, differences, shard

NAME = st.sampled_from(["a", "A", "a.", ".a", "..a", "b", "B.b", "b.b.", "\u212a", ""])
FAMILY = st.dictionaries(NAME, st.lists(st.sampled_from("123"), max_size=2))
RECORDS = st.builds(lambda ip4, ip6: Records(ip4=ip4, ip6=ip6), FAMILY, FAMILY)
SHARDS = st.lists(RECORDS.map(shard), max_size=3).map(ShardSet)


def said(*documents: Records) -> ShardSet:
    return ShardSet(map(shard, documents))


SAID: dict[str, tuple[list[Records], tuple[list[str], list[str]] | None]] = {
    "unknown": ([Records(ip4={"b": ["1"]})], None),
    "in one shard": ([Records(), Records(ip4={"a": ["1"]}, ip6={"a": ["6"]})], (["1"], ["6"])),
    "without addresses": ([Records(ip4={"a": []})], ([], [])),
    "in two shards: the last": ([Records(ip4={"a": ["1"]}), Records(ip4={"a": ["2"]})], (["2"], [])),
    "in two spellings: joined": ([Records(ip4={"a": ["2"]}), Records(ip4={"A.": ["1"]})], (["1", "2"], [])),
    "in an odd spelling alone": ([Records(ip6={"A": ["6"]})], ([], ["6"])),
    "what only looks like it": ([Records(ip4={"..a": ["1"]})], None),
}


@pytest.mark.parametrize(("documents", "addresses"), SAID.values(), ids=SAID)
def test_a_lookup_finds_a_name_in_any_shard_of_the_records(
    documents: list[Records], addresses: tuple[list[str], list[str]] | None
) -> None:
    found = said(*documents).addresses("a")
    assert (None if found is None else tuple(map(list, found))) == addresses


def test_a_lookup_distinguishes_names_that_differ_only_in_leading_dots() -> None:
    shards = said(Records(ip4={".a": ["1"], "..a": ["2"]}))
    assert (shards.addresses("a"), shards.addresses(".a")) == ((["1"], ()), (["2"], ()))


def test_a_set_of_shards_has_the_zones_of_all_its_shards_and_their_highest_serial() -> None:
    shards = said(Records(zones=["a", "b"], serial=2), Records(zones=["b", "c"], serial=9), Records())
    assert (shards.zones, shards.serial) == (("a", "b", "c"), 9)


@given(SHARDS, SHARDS)
def test_the_comparison_of_two_sets_of_shards_finds_every_name_whose_records_differ(
    old: ShardSet, new: ShardSet
) -> None:
    names = {fold(n) for each in (*old.shards, *new.shards) for n in (*each.records.ip4, *each.records.ip6)}
    differing = {name for name in names if old.addresses(name) != new.addresses(name)}
    assert differing <= {name for batch in differences(old, new) for name in batch} <= names


def test_the_comparison_of_two_sets_of_shards_skips_the_shards_that_both_contain() -> None:
    kept, before, after = (shard(Records(ip4={name: ["1"]})) for name in ("kept", "before", "after"))
    batches = list(differences(ShardSet([kept, before]), ShardSet([kept, after])))
    assert sorted(name for batch in batches for name in batch) == ["after", "before"]
    assert list(differences(ShardSet([kept]), ShardSet([kept]))) == []
