"""The API server enforces a ProxyGroupPolicy, but the operator can still change objects that existed before it."""

import json

import pytest

from tests.e2e.cluster import Cluster, Object, condition
from tests.e2e.testbed.errors import BedError
from tests.e2e.waiting import eventually
from tests.e2e.workloads import group_service

OPERATOR = "--as=system:serviceaccount:tailscale:operator"
BINDING = "validatingadmissionpolicybinding"


def policy(namespace: str, *allowed: str) -> Object:
    head = {"apiVersion": "tailscale.com/v1alpha1", "kind": "ProxyGroupPolicy"}
    return {**head, "metadata": {"namespace": namespace, "name": "ours"}, "spec": {"egress": [*allowed]}}


def test_while_a_proxygrouppolicy_exists_its_namespace_can_use_only_the_groups_that_the_policy_allows(
    cluster: Cluster, namespace: str
) -> None:
    old, new = (group_service(namespace, name, "forbidden", tailnet_ip="100.64.0.9") for name in ("old", "new"))
    ours, rule = policy(namespace, "allowed"), f"ts-egress-{namespace}"
    cluster.apply(old, ours)

    def refused() -> str:
        try:
            cluster.bed.kubectl("create", "--dry-run=server", "--filename=-", stdin=json.dumps(new))
        except BedError as error:
            return str(error)
        return ""

    def actions() -> list[str]:
        found = cluster.get(BINDING, rule)
        return found["spec"]["validationActions"] if found else []

    assert 'this egress Service must be "allowed", or not be set' in eventually(refused, "a refusal", 30)
    eventually(
        lambda: condition(cluster.look(ours), "ProxyGroupPolicyReady")["reason"] == "ProxyGroupNotFound", "why", 30
    )
    note = ["annotate", "service", "old", "--namespace", namespace, "--dry-run=server", "example.org/note=edited"]
    with pytest.raises(BedError, match="must be"):
        cluster.bed.kubectl(*note)
    cluster.bed.kubectl(*note, OPERATOR)
    cluster.bed.kubectl("patch", BINDING, rule, "--type=merge", "-p", '{"spec": {"validationActions": ["Audit"]}}')
    eventually(lambda: actions() == ["Deny"], "the binding as it was", 30)
    cluster.apply(policy(namespace, "allowed", "other"))
    eventually(lambda: '"other"' in refused(), "a refusal that names the group of the edit", 30)
    cluster.delete("proxygrouppolicy", "ours", namespace)
    eventually(lambda: not actions() and not refused(), "no more refusals", 30)
