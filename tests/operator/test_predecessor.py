import asyncio

import pytest
from clustersim import objects as kinds
from clustersim.sim import ClusterSim
from tsoperator import predecessor
from tsoperator.api.objects import POD, Key
from tsoperator.kube.client import KubeClient

from tests.support.cluster import until

NAMESPACE = "tailscale"
OWN = Key(NAMESPACE, "operator-1")
OURS = {"app": "operator", "app.kubernetes.io/name": "tailscale-operator"}
GO = {"app": "operator"}


def pod(sim: ClusterSim, name: str, labels: dict[str, str], phase: str = "Running") -> None:
    """Create a Pod that no kubelet runs: it has no node."""
    made = {
        "metadata": {"namespace": NAMESPACE, "name": name, "labels": labels},
        "spec": {"containers": [{"name": "operator", "image": "example/operator"}]},
    }
    sim.store.create(kinds.POD, made)
    sim.store.merge(kinds.POD, NAMESPACE, name, {"status": {"phase": phase}}, "status")


async def test_it_waits_while_a_pod_of_the_other_operator_is_there(
    sim: ClusterSim, client: KubeClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    pod(sim, "operator-1", OURS)
    pod(sim, "operator-0", GO)
    async with asyncio.timeout(10):
        waiting = asyncio.create_task(predecessor.gone(client, OWN))
        await until(lambda: "operator-0" in caplog.text)
        assert not waiting.done()
        await client.delete(POD, Key(NAMESPACE, "operator-0"))
        await waiting


@pytest.mark.parametrize(
    ("name", "labels", "phase"),
    [
        ("operator-2", OURS, "Running"),
        ("operator-0", GO, "Succeeded"),
        ("other", {"app": "other"}, "Running"),
    ],
)
async def test_it_waits_for_no_other(
    sim: ClusterSim, client: KubeClient, name: str, labels: dict[str, str], phase: str
) -> None:
    pod(sim, "operator-1", OURS)
    pod(sim, name, labels, phase)
    async with asyncio.timeout(10):
        await predecessor.gone(client, OWN)


async def test_one_that_is_no_pod_waits_for_nobody(sim: ClusterSim, client: KubeClient) -> None:
    pod(sim, "operator-0", GO)
    async with asyncio.timeout(10):
        await predecessor.gone(client, Key(NAMESPACE, "laptop"))
