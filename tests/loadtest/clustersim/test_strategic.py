"""Strategic merge patch."""

from typing import Any, NamedTuple

import pytest
from clustersim.strategic import strategic_merge


class Case(NamedTuple):
    target: Any
    patch: Any
    result: Any


@pytest.mark.parametrize(
    "case",
    [
        Case({"a": {"b": 1, "c": 2}}, {"a": {"b": None, "d": 3}}, {"a": {"c": 2, "d": 3}}),
        Case(
            {"containers": [{"name": "a", "image": "1"}, {"name": "b"}]},
            {"containers": [{"name": "a", "image": "2"}, {"name": "c"}]},
            {"containers": [{"name": "a", "image": "2"}, {"name": "b"}, {"name": "c"}]},
        ),
        Case(
            {"ports": [{"port": 53, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}]},
            {"ports": [{"port": 53, "name": "dns"}]},
            {"ports": [{"port": 53, "protocol": "TCP", "name": "dns"}, {"port": 53, "protocol": "UDP"}]},
        ),
        Case(
            {"ports": [{"containerPort": 80, "name": "a"}]},
            {"ports": [{"containerPort": 80, "$patch": "delete"}]},
            {"ports": []},
        ),
        Case(
            {"conditions": [{"type": "A", "status": "False"}]},
            {"conditions": [{"type": "A", "status": "True"}]},
            {"conditions": [{"type": "A", "status": "True"}]},
        ),
        Case(
            {"volumeMounts": [{"mountPath": "/a", "name": "x"}]},
            {
                "volumeMounts": [{"mountPath": "/b", "name": "x"}],
                "$setElementOrder/volumeMounts": [{"mountPath": "/b"}],
            },
            {"volumeMounts": [{"mountPath": "/b", "name": "x"}, {"mountPath": "/a", "name": "x"}]},
        ),
        Case({"finalizers": ["a"]}, {"finalizers": ["a", "b"]}, {"finalizers": ["a", "b"]}),
        Case({"finalizers": ["a", "b"]}, {"$deleteFromPrimitiveList/finalizers": ["a"]}, {"finalizers": ["b"]}),
        Case({"args": ["a"]}, {"args": ["b"]}, {"args": ["b"]}),
        Case({"env": [{"name": "A"}]}, {"env": [{"$patch": "replace"}, {"name": "B"}]}, {"env": [{"name": "B"}]}),
        Case({"a": {"b": 1}}, {"a": {"$patch": "replace", "c": 2}}, {"a": {"c": 2}}),
        Case({"a": {"b": 1}, "c": 1}, {"a": {"$patch": "delete"}}, {"c": 1}),
        Case(
            {"strategy": {"type": "RollingUpdate", "rollingUpdate": {}}},
            {"strategy": {"type": "Recreate", "$retainKeys": ["type"]}},
            {"strategy": {"type": "Recreate"}},
        ),
    ],
)
def test_lists_merge_by_identity_and_directives_hold(case: Case) -> None:
    assert strategic_merge(case.target, case.patch) == case.result
