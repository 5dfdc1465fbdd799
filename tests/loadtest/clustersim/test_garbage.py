from collections.abc import AsyncIterator
from typing import Any

import pytest
from clustersim import garbage
from clustersim.objects import CONFIGMAP, Object
from clustersim.pods import owner_reference
from clustersim.store import Store

from tests.loadtest.clustersim.running import until
from tests.support.cluster import running


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    store = Store()
    async with running(garbage.run(store)):
        yield store


def create(store: Store, name: str, *owners: Object, **metadata: Any) -> Object:
    references = [{**owner_reference(owner, CONFIGMAP), "controller": False} for owner in owners]
    described = {"name": name, "namespace": "default", "ownerReferences": references, **metadata}
    return store.create(CONFIGMAP, {"metadata": described})


def found_names(store: Store) -> list[str]:
    return [obj["metadata"]["name"] for obj in store.list(CONFIGMAP)]


async def test_the_garbage_collector_keeps_an_object_while_one_of_its_owners_exists(store: Store) -> None:
    first, second = create(store, "first"), create(store, "second")
    create(store, "child", first, second)
    create(store, "witness", first)
    store.delete(CONFIGMAP, "default", "first")
    await until(store, lambda: "witness" not in found_names(store))
    assert found_names(store) == ["child", "second"]


@pytest.mark.parametrize(("propagation", "left"), [("Foreground", ["child", "owner"]), ("Background", ["child"])])
async def test_an_owner_with_foreground_deletion_stays_until_its_dependents_are_gone(
    store: Store, propagation: str, left: list[str]
) -> None:
    owner = create(store, "owner")
    create(store, "child", owner, finalizers=["example.org/wait"])
    store.delete(CONFIGMAP, "default", "owner", propagation)
    await until(store, lambda: "deletionTimestamp" in store.get(CONFIGMAP, "default", "child")["metadata"])
    assert found_names(store) == left
    store.merge(CONFIGMAP, "default", "child", {"metadata": {"finalizers": None}})
    await until(store, lambda: found_names(store) == [])


async def test_the_garbage_collector_deletes_a_dependent_that_existed_before_the_collector_started() -> None:
    store = Store()
    create(store, "child", create(store, "owner"))
    store.delete(CONFIGMAP, "default", "owner")
    async with running(garbage.run(store)):
        await until(store, lambda: found_names(store) == [])
