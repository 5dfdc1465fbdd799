"""JSON merge patch."""

from typing import Any, NamedTuple

import pytest
from clustersim.merge import merge_patch


class Case(NamedTuple):
    target: Any
    patch: Any
    result: Any


@pytest.mark.parametrize(
    "case",
    [
        Case({"a": "b"}, {"a": "c"}, {"a": "c"}),
        Case({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        Case({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        Case([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        Case({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patches_of_rfc_7386(case: Case) -> None:
    assert merge_patch(case.target, case.patch) == case.result


def test_a_patch_leaves_its_target_alone() -> None:
    target = {"a": {"b": 1}}
    merge_patch(target, {"a": {"b": 2}})
    assert target == {"a": {"b": 1}}
