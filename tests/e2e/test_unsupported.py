"""Objects that this version doesn't support say so in their status, as do leftovers of the Go operator."""

from collections.abc import Callable
from functools import partial

import pytest

from tests.e2e.cluster import Cluster, Object
from tests.e2e.testbed.commands import run
from tests.e2e.waiting import eventually
from tests.e2e.workloads import BALANCED, exposed_service, ingress

GROUP: Object = {
    "apiVersion": "tailscale.com/v1alpha1",
    "kind": "ProxyGroup",
    "metadata": {"name": "ours"},
    "spec": {"type": "kube-apiserver"},
}


def test_the_status_of_an_unsupported_type_says_so(cluster: Cluster) -> None:
    cluster.apply(GROUP)
    try:
        eventually(lambda: reasons(cluster.look(GROUP)) == ["NotSupportedYet"], "a condition")
    finally:
        cluster.delete("ProxyGroup", "ours")


def reasons(obj: Object) -> list[str]:
    return [each["reason"] for each in obj.get("status", {}).get("conditions", ())]


@pytest.mark.parametrize(
    ("finalizer", "make"),
    [
        ("tailscale.com/ingress-pg-finalizer", partial(ingress, name="shop")),
        ("tailscale.com/service-pg-finalizer", partial(exposed_service, name="shop", spec=BALANCED)),
    ],
    ids=["an Ingress", "a Service"],
)
def test_a_deletion_that_waits_for_the_go_operators_finalizer_says_how_to_end_it(
    cluster: Cluster, namespace: str, finalizer: str, make: Callable[..., Object]
) -> None:
    left = make(namespace, proxy_group="ours")
    left["metadata"]["finalizers"] = [finalizer]
    cluster.apply(left)
    cluster.delete(left["kind"], "shop", namespace)

    def told() -> list[str]:
        events = [each for each in cluster.listed("events", namespace) if each["reason"] == "DeletionBlocked"]
        return [event["message"] for event in events]

    (message,) = eventually(told, "an Event that says so", 30)
    assert cluster.look(left)["metadata"]["finalizers"] == [finalizer]
    run(["sh", "-euc", message.partition("remove the finalizer: ")[2]], env=cluster.bed.environment())
    eventually(lambda: cluster.get(left["kind"], "shop", namespace) is None, "its end", 30)
