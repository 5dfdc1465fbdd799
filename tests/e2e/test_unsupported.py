"""Kinds that are installed, and that this version does nothing for, say so."""

import shlex

import pytest

from tests.e2e.cluster import Cluster, Object
from tests.e2e.waiting import eventually
from tests.e2e.workloads import exposed_service

POLICY = "ProxyGroupPolicy"  # the only kind of these that is in namespaces
SPECS: dict[str, Object] = {
    "PeerRelay": {},
    "ProxyGroup": {"type": "ingress"},
    POLICY: {},
    "Recorder": {},
}


def test_a_kind_that_is_not_supported_says_so(cluster: Cluster, namespace: str) -> None:
    objs = [unsupported(kind, namespace if kind == POLICY else "") for kind in SPECS]
    cluster.apply(*objs)
    try:
        eventually(
            lambda: all(reasons(cluster.look(obj)) == ["NotSupportedYet"] for obj in objs), "a condition of each"
        )
    finally:
        for obj in objs:
            cluster.delete(obj["kind"], "ours", obj["metadata"].get("namespace", ""))


@pytest.mark.full
def test_the_command_in_the_event_ends_a_deletion_that_waits_for_the_other_operator(
    cluster: Cluster, namespace: str
) -> None:
    service = exposed_service(namespace, "ha", {"ports": [{"port": 80}]}, expose="true", proxy_group="gone")
    service["metadata"]["finalizers"] = ["tailscale.com/service-pg-finalizer"]
    cluster.apply(service)
    cluster.delete("service", "ha", namespace)
    message = eventually(lambda: blocked(cluster, namespace), "an Event that says what to do")
    cluster.bed.kubectl(*shlex.split(message.partition(": kubectl ")[2]))
    eventually(lambda: cluster.get("service", "ha", namespace) is None, "the Service's end")


def blocked(cluster: Cluster, namespace: str) -> str:
    """Return the message of the Event that says why a deletion waits; empty without one."""
    events = cluster.listed("events", namespace)
    return next((each["message"] for each in events if each["reason"] == "DeletionBlocked"), "")


def unsupported(kind: str, namespace: str) -> Object:
    metadata = {"name": "ours"} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": "tailscale.com/v1alpha1", "kind": kind, "metadata": metadata, "spec": SPECS[kind]}


def reasons(obj: Object) -> list[str]:
    return [each["reason"] for each in obj.get("status", {}).get("conditions", ())]
