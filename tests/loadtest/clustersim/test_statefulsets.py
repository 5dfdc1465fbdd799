from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest
from clustersim import garbage, kubelet, statefulsets
from clustersim.objects import POD, STATEFULSET, Object
from clustersim.pods import is_deleting
from clustersim.store import Store
from clustersim.tailnet import Tailnet

from tests.loadtest.clustersim.running import statefulset, until
from tests.support.cluster import running


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    store = Store()
    async with running(statefulsets.run(store), garbage.run(store), kubelet.run(store, Tailnet())):
        yield store


async def create(store: Store, replicas: int) -> Object:
    """Create the StatefulSet and wait until its Pods are ready."""
    created = store.create(STATEFULSET, statefulset(replicas))
    await until(store, lambda: status(store).get("readyReplicas") == replicas)
    return created


async def create_lingering(store: Store, replicas: int, **spec: Any) -> None:
    """Create a StatefulSet of *replicas* Pods with a preStop hook, and mark the Pods as ready.

    *spec* has further fields of the StatefulSet. No kubelet runs, so deleted Pods stay until the test removes them.
    """
    obj = statefulset(replicas, **spec)
    hook = {"lifecycle": {"preStop": {"sleep": {"seconds": 5}}}}
    obj["spec"]["template"]["spec"] |= {"containers": [{"name": "web", **hook}], "nodeName": "node1"}
    store.create(STATEFULSET, obj)
    for ordinal in range(replicas):
        await until(store, partial(exists, store, f"web-{ordinal}"))
        ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
        store.merge(POD, "default", f"web-{ordinal}", ready, "status")


def status(store: Store) -> Any:
    return store.get(STATEFULSET, "default", "web").get("status", {})


def pods(store: Store) -> dict[str, Object]:
    return {pod["metadata"]["name"]: pod for pod in store.list(POD, "default")}


def exists(store: Store, name: str) -> bool:
    return name in pods(store)


def address(pod: Object) -> Any:
    return pod.get("status", {}).get("podIP")


@pytest.mark.parametrize(("policy", "started"), [("OrderedReady", ["web-0"]), ("Parallel", ["web-0", "web-1"])])
async def test_a_statefulset_starts_one_pod_after_the_other_unless_its_policy_is_parallel(
    policy: str, started: list[str]
) -> None:
    store = Store()
    async with running(statefulsets.run(store)):  # no kubelet: no Pod ever gets ready
        store.create(STATEFULSET, statefulset(replicas=2, podManagementPolicy=policy))
        await until(store, lambda: status(store).get("replicas") == len(started))
    assert list(pods(store)) == started


async def test_a_changed_template_of_a_statefulset_replaces_its_pods_one_by_one(store: Store) -> None:
    await create(store, 2)
    before, revision = pods(store), status(store)["currentRevision"]
    with store.subscribe(POD) as changes:
        store.replace(STATEFULSET, statefulset(replicas=2, image="example.org/a:2"))
        await until(store, lambda: status(store).get("currentRevision") != revision)
        seen = [(change.type, change.object["metadata"]["name"]) for change in await changes.batch()]
    assert [change for change in seen if change[0] != "MODIFIED"] == [
        (kind, name) for name in ("web-1", "web-0") for kind in ("DELETED", "ADDED")
    ]
    assert (status(store)["observedGeneration"], status(store)["updatedReplicas"]) == (2, 2)
    assert not {address(pod) for pod in before.values()} & {address(pod) for pod in pods(store).values()}


@pytest.mark.parametrize(("policy", "ended"), [("OrderedReady", {2}), ("Parallel", {1, 2})])
async def test_a_slowly_ending_pod_delays_the_end_of_the_next_pod_unless_the_statefulsets_policy_is_parallel(
    policy: str, ended: set[int]
) -> None:
    store = Store()
    async with running(statefulsets.run(store)):  # no kubelet: no Pod ever ends
        await create_lingering(store, 3, podManagementPolicy=policy)
        store.merge(STATEFULSET, "default", "web", {"spec": {"replicas": 1}})
        await until(store, lambda: status(store).get("observedGeneration") == 2)
    assert {int(name[-1]) for name, pod in pods(store).items() if is_deleting(pod)} == ended


async def test_the_next_pod_of_a_statefulset_waits_until_a_deleted_pod_is_gone() -> None:
    store = Store()
    async with running(statefulsets.run(store)):
        await create_lingering(store, 1)
        store.delete(POD, "default", "web-0")
        store.merge(STATEFULSET, "default", "web", {"spec": {"replicas": 2}})
        await until(store, lambda: status(store).get("observedGeneration") == 2)
    assert list(pods(store)) == ["web-0"]


async def test_the_controllers_of_the_cluster_write_nothing_when_nothing_changes(store: Store) -> None:
    await create(store, 2)
    revision = store.revision
    store.create(POD, {"metadata": {"name": "other", "namespace": "default"}, "spec": {"containers": [{"name": "c"}]}})
    await until(store, lambda: address(pods(store)["other"]))
    assert store.revision == revision + 3  # the Pod was created, scheduled and started, each by one write
