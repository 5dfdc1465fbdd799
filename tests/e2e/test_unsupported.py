"""Kinds that are installed, and that this version does nothing for, say so."""

from tests.e2e.cluster import Cluster, Object
from tests.e2e.waiting import eventually

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


def unsupported(kind: str, namespace: str) -> Object:
    metadata = {"name": "ours"} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": "tailscale.com/v1alpha1", "kind": kind, "metadata": metadata, "spec": SPECS[kind]}


def reasons(obj: Object) -> list[str]:
    return [each["reason"] for each in obj.get("status", {}).get("conditions", ())]
