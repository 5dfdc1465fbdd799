import asyncio
from typing import Any

import pytest
from clustersim import objects as kinds
from clustersim.sim import ClusterSim
from tsoperator.api.objects import POD, Key
from tsoperator.kube.client import KubeClient
from tsoperator.runtime import predecessor

from tests.support.cluster import until

NAMESPACE = "tailscale"
OWN = Key(NAMESPACE, "operator-1")
OURS = {"app": "operator", "tailscale.com/operator": "tsoperator"}
GO = {"app": "operator", "app.kubernetes.io/name": "tailscale-operator"}  # the second by values of its chart


def pod(sim: ClusterSim, name: str, labels: dict[str, str], phase: str = "Running") -> None:
    """Create a Pod that no kubelet runs: it has no node."""
    spec = {"containers": [{"name": "operator", "image": "example/operator"}]}
    metadata = {"namespace": NAMESPACE, "name": name, "labels": labels}
    sim.store.create(kinds.POD, {"metadata": metadata, "spec": spec})
    sim.store.merge(kinds.POD, NAMESPACE, name, {"status": {"phase": phase}}, "status")


async def test_the_operator_waits_while_a_pod_of_the_go_operator_is_there(
    sim: ClusterSim, client: KubeClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    pod(sim, "operator-1", OURS)
    pod(sim, "operator-0", GO)
    async with asyncio.timeout(30):
        waiting = asyncio.create_task(predecessor.gone(client, OWN))
        await until(lambda: "operator-0" in caplog.text)
        assert not waiting.done()
        await client.delete(POD, Key(NAMESPACE, "operator-0"))
        await waiting


@pytest.mark.parametrize(
    ("own", "pods"),
    [
        ("operator-1", [("operator-1", OURS), ("operator-2", OURS)]),
        ("operator-1", [("operator-1", OURS), ("other", {"app": "other"})]),
        ("operator-1", [("operator-1", {"app": "operator"})]),
        ("operator-1", [("operator-1", OURS), ("operator-0", GO, "Failed"), ("operator-2", GO, "Succeeded")]),
        ("laptop", [("operator-0", GO)]),
    ],
    ids=["a replica", "another app", "itself", "some that have ended", "in no Pod"],
)
async def test_the_operator_waits_for_no_other_pod(
    sim: ClusterSim, client: KubeClient, own: str, pods: list[tuple[Any, ...]]
) -> None:
    for each in pods:
        pod(sim, *each)
    async with asyncio.timeout(30):
        await predecessor.gone(client, Key(NAMESPACE, own))
