"""JSON merge patch and JSON patch."""

from typing import Any, NamedTuple

import pytest
from clustersim.merge import json_patch, merge_patch
from clustersim.store import ApiError


class Case(NamedTuple):
    target: Any
    patch: Any
    result: Any


@pytest.mark.parametrize(
    "case",
    [
        Case({"a": "b"}, {"a": "c"}, {"a": "c"}),
        Case({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        Case({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        Case({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        Case({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        Case({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        Case({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        Case({"a": "foo"}, "bar", "bar"),
        Case({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        Case([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        Case({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patches_of_rfc_7386(case: Case) -> None:
    assert merge_patch(case.target, case.patch) == case.result


@pytest.mark.parametrize(
    "case",
    [
        Case({"a": 1}, [{"op": "add", "path": "/b", "value": 2}], {"a": 1, "b": 2}),
        Case({"a": [1, 3]}, [{"op": "add", "path": "/a/1", "value": 2}], {"a": [1, 2, 3]}),
        Case({"a": [1]}, [{"op": "add", "path": "/a/-", "value": 2}], {"a": [1, 2]}),
        Case({"a": 1, "b": 2}, [{"op": "remove", "path": "/a"}], {"b": 2}),
        Case({"a": [1, 2]}, [{"op": "replace", "path": "/a/0", "value": 3}], {"a": [3, 2]}),
        Case({"x/y": 1, "~": 2}, [{"op": "remove", "path": "/x~1y"}, {"op": "remove", "path": "/~0"}], {}),
        Case({"a": 1}, [{"op": "move", "from": "/a", "path": "/b"}], {"b": 1}),
        Case({"a": {"c": 1}}, [{"op": "copy", "from": "/a", "path": "/b"}], {"a": {"c": 1}, "b": {"c": 1}}),
        Case({"a": 1}, [{"op": "test", "path": "/a", "value": 1}, {"op": "replace", "path": "", "value": {}}], {}),
    ],
)
def test_json_patches_of_rfc_6902(case: Case) -> None:
    assert json_patch(case.target, case.patch) == case.result


@pytest.mark.parametrize(
    "operations",
    [
        {"op": "add"},
        [{"op": "test", "path": "/a", "value": 2}],
        [{"op": "remove", "path": "/b"}],
        [{"op": "replace", "path": "/b", "value": 1}],
        [{"op": "add", "path": "a", "value": 1}],
        [{"op": "add", "path": "/l/9", "value": 1}],
        [{"op": "grow", "path": "/a"}],
        ["add"],
    ],
)
def test_a_json_patch_that_cannot_be_applied_is_refused(operations: Any) -> None:
    with pytest.raises(ApiError) as refusal:
        json_patch({"a": 1, "l": []}, operations)
    assert refusal.value.status == 422


def test_patches_leave_the_target_alone() -> None:
    target = {"a": {"b": 1}}
    merge_patch(target, {"a": {"b": 2}})
    json_patch(target, [{"op": "replace", "path": "/a/b", "value": 2}])
    assert target == {"a": {"b": 1}}
