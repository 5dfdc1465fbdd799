from collections.abc import AsyncIterator
from typing import Any

import pytest
from clustersim import garbage, kubelet, statefulsets
from clustersim.objects import POD, STATEFULSET, Object
from clustersim.store import Store
from clustersim.tailnet import Tailnet

from tests.loadtest.clustersim.running import running, statefulset, until


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    store = Store()
    async with running(statefulsets.run(store), garbage.run(store), kubelet.run(store, Tailnet())):
        yield store


def status(store: Store) -> Any:
    return store.get(STATEFULSET, "default", "web").get("status", {})


def pods(store: Store) -> dict[str, Object]:
    return {pod["metadata"]["name"]: pod for pod in store.list(POD, "default")}


def address(pod: Object) -> Any:
    return pod.get("status", {}).get("podIP")


async def test_a_statefulset_gets_its_pods_in_order(store: Store) -> None:
    seen: list[str] = []
    with store.subscribe(POD) as changes:
        store.create(STATEFULSET, statefulset(replicas=3))
        await until(store, lambda: status(store).get("readyReplicas") == 3)
        for change in await changes.batch():
            seen += [f"{change.type} {change.object['metadata']['name']}"] if change.type == "ADDED" else []
    assert seen == ["ADDED web-0", "ADDED web-1", "ADDED web-2"]


async def test_the_next_pod_waits_for_the_one_before() -> None:
    store = Store()
    async with running(statefulsets.run(store)):  # no kubelet: no Pod ever gets ready
        store.create(STATEFULSET, statefulset(replicas=2))
        await until(store, lambda: status(store).get("replicas") == 1)
    assert list(pods(store)) == ["web-0"]


async def test_parallel_pods_wait_for_none() -> None:
    store = Store()
    async with running(statefulsets.run(store)):
        store.create(STATEFULSET, statefulset(replicas=2, podManagementPolicy="Parallel"))
        await until(store, lambda: status(store).get("replicas") == 2)
    assert list(pods(store)) == ["web-0", "web-1"]


async def test_a_pod_carries_name_index_and_revision_and_is_owned(store: Store) -> None:
    obj = store.create(STATEFULSET, statefulset())
    await until(store, lambda: status(store).get("readyReplicas") == 1)
    pod = pods(store)["web-0"]
    assert pod["metadata"]["labels"] == {
        "app": "web",
        "statefulset.kubernetes.io/pod-name": "web-0",
        "apps.kubernetes.io/pod-index": "0",
        "controller-revision-hash": status(store)["currentRevision"],
    }
    assert [owner["uid"] for owner in pod["metadata"]["ownerReferences"]] == [obj["metadata"]["uid"]]
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("web-0", "web")


async def test_a_changed_template_replaces_the_pod_with_a_new_uid_and_address(store: Store) -> None:
    store.create(STATEFULSET, statefulset(replicas=2))
    await until(store, lambda: status(store).get("readyReplicas") == 2)
    before, revision = pods(store), status(store)["currentRevision"]
    store.replace(STATEFULSET, statefulset(replicas=2, image="example.org/a:2"))
    await until(store, lambda: status(store).get("currentRevision") != revision)
    after = pods(store)
    assert status(store)["observedGeneration"] == 2
    for name in ("web-0", "web-1"):
        assert after[name]["metadata"]["uid"] != before[name]["metadata"]["uid"]
        assert address(after[name]) not in {address(pod) for pod in before.values()}


async def test_nothing_is_replaced_on_delete_strategy(store: Store) -> None:
    store.create(STATEFULSET, statefulset(updateStrategy={"type": "OnDelete"}))
    await until(store, lambda: status(store).get("readyReplicas") == 1)
    store.replace(STATEFULSET, statefulset(image="example.org/a:2", updateStrategy={"type": "OnDelete"}))
    await until(store, lambda: status(store)["observedGeneration"] == 2)
    assert pods(store)["web-0"]["spec"]["containers"][0]["image"] == "example.org/a:1"
    assert "updatedReplicas" not in status(store)


async def test_scaling_down_removes_the_last_pods(store: Store) -> None:
    store.create(STATEFULSET, statefulset(replicas=3))
    await until(store, lambda: status(store).get("readyReplicas") == 3)
    store.merge(STATEFULSET, "default", "web", {"spec": {"replicas": 1}})
    await until(store, lambda: status(store)["replicas"] == 1)
    assert list(pods(store)) == ["web-0"]


async def test_a_deleted_pod_comes_back_elsewhere(store: Store) -> None:
    store.create(STATEFULSET, statefulset())
    await until(store, lambda: status(store).get("readyReplicas") == 1)
    before = store.delete(POD, "default", "web-0")
    await until(store, lambda: address(pods(store).get("web-0", {})) not in (None, address(before)))
    assert pods(store)["web-0"]["metadata"]["uid"] != before["metadata"]["uid"]


async def test_a_statefulset_that_is_being_deleted_makes_no_pods(store: Store) -> None:
    store.create(STATEFULSET, statefulset())
    await until(store, lambda: status(store).get("readyReplicas") == 1)
    store.delete(STATEFULSET, "default", "web", propagation="Foreground")
    await until(store, lambda: not store.list(STATEFULSET))
    assert not pods(store)


async def test_a_settled_cluster_writes_nothing(store: Store) -> None:
    store.create(STATEFULSET, statefulset(replicas=2))
    await until(store, lambda: status(store).get("readyReplicas") == 2)
    revision = store.revision
    store.create(POD, {"metadata": {"name": "other", "namespace": "default"}, "spec": {"containers": [{"name": "c"}]}})
    await until(store, lambda: address(pods(store)["other"]))
    assert store.revision == revision + 3  # created, scheduled, started


async def test_a_refused_pod_does_not_stop_the_controller(store: Store) -> None:
    broken = statefulset()
    broken["metadata"]["name"] = "broken"
    broken["spec"]["template"]["metadata"]["labels"]["app"] = "not/a valid value"
    store.create(STATEFULSET, broken)
    store.create(STATEFULSET, statefulset())
    await until(store, lambda: status(store).get("readyReplicas") == 1)
    assert list(pods(store)) == ["web-0"]
