"""Tests of the table that stores names in buckets."""

from hypothesis import given
from hypothesis import strategies as st
from tsnameserver.nodes import BUCKETS, Nodes, NodesDraft

NAMES = [f"db-{number}".encode() for number in range(2000)]


def nodes_of(known: dict[bytes, int], old: Nodes[int] | None = None) -> Nodes[int]:
    draft = NodesDraft(old or Nodes[int]())
    for name, value in known.items():
        draft[name] = value
    return draft.nodes()


@given(st.dictionaries(st.binary(), st.integers()), st.dictionaries(st.binary(), st.integers()), st.sets(st.binary()))
def test_a_draft_of_the_table_of_names_has_the_same_items_as_a_dict_after_the_same_changes(
    first: dict[bytes, int], second: dict[bytes, int], gone: set[bytes]
) -> None:
    old = nodes_of(first)
    draft = NodesDraft(old)
    wanted = dict(first)
    for name, value in second.items():
        draft[name] = wanted[name] = value
    for name in gone & wanted.keys():
        del draft[name], wanted[name]
    assert {name: draft.get(name) for name in {*first, *second, *gone}} == {
        name: wanted.get(name) for name in {*first, *second, *gone}
    }
    assert (dict(draft.nodes()), len(draft.nodes())) == (wanted, len(wanted))
    assert dict(old) == first


def test_a_change_of_one_name_copies_only_one_bucket_of_the_table_of_names() -> None:
    old = nodes_of(dict.fromkeys(NAMES, 1))
    new = nodes_of({NAMES[7]: 2}, old)
    assert sum(new is not old for new, old in zip(new.buckets, old.buckets, strict=True)) == 1
    assert max(map(len, old.buckets)) < 4 * len(NAMES) / BUCKETS
