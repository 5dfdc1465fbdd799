"""Kinds that are installed, and that this version does nothing for, say so."""

from typing import NamedTuple

import pytest

from tests.e2e.cluster import Cluster, Object
from tests.e2e.waiting import eventually


class Case(NamedTuple):
    kind: str
    spec: Object


CASES = [
    Case("PeerRelay", {}),
    Case("ProxyGroup", {"type": "egress"}),
    Case("ProxyGroupPolicy", {}),
    Case("Recorder", {}),
    Case("Tailnet", {"credentials": {"secretName": "other"}}),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.kind)
def test_a_user_is_told_that_nothing_is_done(cluster: Cluster, case: Case) -> None:
    metadata = {"name": "ours"} | ({"namespace": "default"} if case.kind == "ProxyGroupPolicy" else {})
    obj = {"apiVersion": "tailscale.com/v1alpha1", "kind": case.kind, "metadata": metadata, "spec": case.spec}
    cluster.apply(obj)

    def reasons() -> list[str]:
        return [each["reason"] for each in cluster.look(obj).get("status", {}).get("conditions", ())]

    try:
        eventually(lambda: reasons() == ["NotSupportedYet"], "a condition that says so")
    finally:
        cluster.delete(case.kind, "ours", metadata.get("namespace", ""))
