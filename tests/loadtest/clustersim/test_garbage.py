from collections.abc import AsyncIterator
from typing import Any

import pytest
from clustersim import garbage
from clustersim.objects import CONFIGMAP, DNSCONFIG, SECRET, Object, Resource
from clustersim.pods import owner_reference
from clustersim.store import Store

from tests.loadtest.clustersim.running import running, until


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    store = Store()
    async with running(garbage.run(store)):
        yield store


def create(store: Store, name: str, *owners: Object, **metadata: Any) -> Object:
    references = [{**owner_reference(owner, CONFIGMAP), "controller": False} for owner in owners]
    described = {"name": name, "namespace": "default", "ownerReferences": references, **metadata}
    return store.create(CONFIGMAP, {"metadata": described})


def names(store: Store, resource: Resource = CONFIGMAP) -> list[str]:
    return [obj["metadata"]["name"] for obj in store.list(resource, "default")]


async def test_children_go_after_their_owner_and_so_do_theirs(store: Store) -> None:
    owner = create(store, "owner")
    create(store, "grandchild", create(store, "child", owner))
    create(store, "other")
    store.delete(CONFIGMAP, "default", "owner")
    await until(store, lambda: names(store) == ["other"])


async def test_a_child_with_an_owner_left_stays(store: Store) -> None:
    first, second = create(store, "first"), create(store, "second")
    create(store, "child", first, second)
    create(store, "witness", first)
    store.delete(CONFIGMAP, "default", "first")
    await until(store, lambda: "witness" not in names(store))
    assert names(store) == ["child", "second"]


async def test_a_cluster_scoped_owner_takes_its_namespaced_children(store: Store) -> None:
    owner = store.create(DNSCONFIG, {"metadata": {"name": "dns"}, "spec": {"nameserver": {}}})
    metadata = {"name": "child", "namespace": "default", "ownerReferences": [owner_reference(owner, DNSCONFIG)]}
    store.create(SECRET, {"metadata": metadata})
    store.delete(DNSCONFIG, "", "dns")
    await until(store, lambda: names(store, SECRET) == [])


async def test_an_object_of_an_owner_that_is_gone_goes_at_once(store: Store) -> None:
    gone = create(store, "owner")
    store.delete(CONFIGMAP, "default", "owner")
    create(store, "late", gone)
    await until(store, lambda: names(store) == [])


async def test_a_foreground_owner_waits_for_its_children(store: Store) -> None:
    owner = create(store, "owner")
    create(store, "child", owner, finalizers=["example.org/wait"])
    store.delete(CONFIGMAP, "default", "owner", propagation="Foreground")
    await until(store, lambda: "deletionTimestamp" in store.get(CONFIGMAP, "default", "child")["metadata"])
    assert names(store) == ["child", "owner"]
    store.merge(CONFIGMAP, "default", "child", {"metadata": {"finalizers": None}})
    await until(store, lambda: names(store) == [])


async def test_a_foreground_owner_without_children_goes_at_once(store: Store) -> None:
    create(store, "owner")
    store.delete(CONFIGMAP, "default", "owner", propagation="Foreground")
    await until(store, lambda: names(store) == [])


async def test_a_background_deletion_does_not_wait(store: Store) -> None:
    owner = create(store, "owner")
    create(store, "child", owner, finalizers=["example.org/wait"])
    store.delete(CONFIGMAP, "default", "owner")
    assert names(store) == ["child"]
    await until(store, lambda: "deletionTimestamp" in store.get(CONFIGMAP, "default", "child")["metadata"])


async def test_orphans_lose_the_reference_and_stay(store: Store) -> None:
    owner = create(store, "owner")
    create(store, "child", owner)
    store.delete(CONFIGMAP, "default", "owner", propagation="Orphan")
    await until(store, lambda: names(store) == ["child"])
    assert "ownerReferences" not in store.get(CONFIGMAP, "default", "child")["metadata"]


async def test_what_was_there_before_the_collector_counts() -> None:
    store = Store()
    owner = create(store, "owner")
    create(store, "child", owner)
    store.delete(CONFIGMAP, "default", "owner")
    async with running(garbage.run(store)):
        await until(store, lambda: names(store) == [])
