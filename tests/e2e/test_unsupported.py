"""Objects that this version doesn't support say so in their status."""

from tests.e2e.cluster import Cluster, Object
from tests.e2e.waiting import eventually

GROUP: Object = {
    "apiVersion": "tailscale.com/v1alpha1",
    "kind": "ProxyGroup",
    "metadata": {"name": "ours"},
    "spec": {"type": "kube-apiserver"},
}


def test_the_status_of_an_object_of_an_unsupported_type_has_the_reason_notsupportedyet(cluster: Cluster) -> None:
    cluster.apply(GROUP)
    try:
        eventually(lambda: reasons(cluster.look(GROUP)) == ["NotSupportedYet"], "a condition")
    finally:
        cluster.delete("ProxyGroup", "ours")


def reasons(obj: Object) -> list[str]:
    return [each["reason"] for each in obj.get("status", {}).get("conditions", ())]
