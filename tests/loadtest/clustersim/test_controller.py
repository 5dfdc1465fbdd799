import asyncio
from asyncio import Queue
from collections.abc import Iterable

from clustersim.controller import Key, follow, key_of, owner_keys
from clustersim.errors import bad_request
from clustersim.objects import CONFIGMAP, Object, Resource
from clustersim.store import Store

from tests.loadtest.clustersim.running import running


def by_team(_: Resource, obj: Object) -> Iterable[str]:
    return [obj["metadata"].get("labels", {}).get("team", "")]


def create(store: Store, name: str, team: str) -> None:
    store.create(CONFIGMAP, {"metadata": {"name": name, "namespace": "default", "labels": {"team": team}}})


async def take(seen: Queue[str], number: int) -> list[str]:
    """Return the next *number* keys, and with them what is there besides."""
    async with asyncio.timeout(30):
        taken = [await seen.get() for _ in range(number)]
    return taken + [seen.get_nowait() for _ in range(seen.qsize())]


async def test_objects_from_before_and_after_are_reconciled() -> None:
    store, seen = Store(), Queue[str]()
    create(store, "a", "red")
    async with running(follow(store, [CONFIGMAP], by_team, seen.put_nowait)):
        create(store, "b", "blue")
        assert await take(seen, 2) == ["red", "blue"]


async def test_a_burst_is_reconciled_once_a_key() -> None:
    store, seen = Store(), Queue[str]()
    async with running(follow(store, [CONFIGMAP], by_team, seen.put_nowait)):
        for name in "abc":
            create(store, name, "red")
        assert await take(seen, 1) == ["red"]


async def test_a_changed_label_concerns_the_old_key_too() -> None:
    store, seen = Store(), Queue[str]()
    create(store, "a", "red")
    async with running(follow(store, [CONFIGMAP], by_team, seen.put_nowait)):
        store.merge(CONFIGMAP, "default", "a", {"metadata": {"labels": {"team": "blue"}}})
        assert await take(seen, 3) == ["red", "blue", "red"]


async def test_a_refused_write_stops_nothing() -> None:
    store, seen = Store(), Queue[str]()

    def reconcile(key: str) -> None:
        seen.put_nowait(key)
        raise bad_request("no")

    async with running(follow(store, [CONFIGMAP], by_team, reconcile)):
        create(store, "a", "red")
        create(store, "b", "blue")
        assert await take(seen, 2) == ["red", "blue"]


def test_an_owner_of_another_kind_is_none() -> None:
    references = [{"kind": "Job", "name": "a", "controller": True}, {"kind": "StatefulSet", "name": "b"}]
    obj = {"metadata": {"name": "x", "namespace": "default", "ownerReferences": references}}
    assert list(owner_keys(obj, "StatefulSet")) == []
    assert list(owner_keys(obj, "Job")) == [Key("default", "a")]
    assert key_of(obj) == Key("default", "x")
