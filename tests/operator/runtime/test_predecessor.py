import asyncio

import pytest
from clustersim import objects as kinds
from clustersim.sim import ClusterSim
from tsoperator.api.objects import POD, Key
from tsoperator.kube.client import KubeClient
from tsoperator.runtime import predecessor

from tests.support.cluster import until

NAMESPACE = "tailscale"
OURS = {"app": "operator", "tailscale.com/operator": "tsoperator"}
# The second label depends on the values of the Go operator's chart.
GO = {"app": "operator", "app.kubernetes.io/name": "tailscale-operator"}


def pod(sim: ClusterSim, name: str, labels: dict[str, str]) -> None:
    """Create a Pod that no kubelet runs: it has no node."""
    spec = {"containers": [{"name": "operator", "image": "example/operator"}]}
    sim.store.create(kinds.POD, {"metadata": {"namespace": NAMESPACE, "name": name, "labels": labels}, "spec": spec})


async def test_our_operator_waits_while_a_pod_of_the_go_operator_exists(
    sim: ClusterSim, client: KubeClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    pod(sim, "operator-1", OURS)
    pod(sim, "operator-0", GO)
    async with asyncio.timeout(30):
        waiting = asyncio.create_task(predecessor.gone(client, Key(NAMESPACE, "operator-1")))
        await until(lambda: "operator-0" in caplog.text)
        assert not waiting.done()
        await client.delete(POD, Key(NAMESPACE, "operator-0"))
        await waiting


@pytest.mark.parametrize(
    ("own", "pods"),
    [
        ("operator-1", {"operator-1": OURS, "operator-2": OURS}),
        ("operator-1", {"operator-1": OURS, "other": {"app": "other"}}),
        ("operator-1", {"operator-1": {"app": "operator"}}),
        ("laptop", {"operator-0": GO}),
    ],
    ids=["a replica", "another app", "itself", "in no Pod"],
)
async def test_our_operator_does_not_wait_if_it_runs_in_no_pod_or_the_go_operator_has_none(
    sim: ClusterSim, client: KubeClient, own: str, pods: dict[str, dict[str, str]]
) -> None:
    for name, labels in pods.items():
        pod(sim, name, labels)
    async with asyncio.timeout(30):
        await predecessor.gone(client, Key(NAMESPACE, own))


def test_our_operator_waits_for_a_pod_of_the_go_operator_until_that_pod_has_failed_or_succeeded() -> None:
    statuses = [{}, *({"phase": phase} for phase in ("Running", "Failed", "Succeeded"))]
    found = [predecessor.is_go({"metadata": {"labels": GO}, "status": status}) for status in statuses]
    assert found == [True, True, False, False]
