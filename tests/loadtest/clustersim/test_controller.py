import asyncio
from asyncio import Queue
from collections.abc import Iterable

from clustersim.controller import follow
from clustersim.errors import bad_request
from clustersim.objects import CONFIGMAP, Object, Resource
from clustersim.store import Store

from tests.support.cluster import running


def by_team(_: Resource, obj: Object) -> Iterable[str]:
    return [obj["metadata"].get("labels", {}).get("team", "")]


def create(store: Store, name: str, team: str) -> None:
    store.create(CONFIGMAP, {"metadata": {"name": name, "namespace": "default", "labels": {"team": team}}})


async def take(seen: Queue[str], number: int) -> list[str]:
    """Wait for *number* keys in *seen*, the queue of reconciled keys. Return them, and all other keys in the queue."""
    async with asyncio.timeout(30):
        taken = [await seen.get() for _ in range(number)]
    return taken + [seen.get_nowait() for _ in range(seen.qsize())]


async def test_a_controller_reconciles_the_old_and_the_new_key_if_the_label_with_the_key_changes() -> None:
    store, seen = Store(), Queue[str]()
    create(store, "a", "red")
    async with running(follow(store, [CONFIGMAP], by_team, seen.put_nowait)):
        assert await take(seen, 1) == ["red"]
        store.merge(CONFIGMAP, "default", "a", {"metadata": {"labels": {"team": "blue"}}})
        assert await take(seen, 2) == ["blue", "red"]


async def test_a_simulated_controller_continues_with_the_next_key_after_a_refused_write() -> None:
    store, seen = Store(), Queue[str]()

    def reconcile(key: str) -> None:
        seen.put_nowait(key)
        raise bad_request("no")

    async with running(follow(store, [CONFIGMAP], by_team, reconcile)):
        create(store, "a", "red")
        create(store, "b", "blue")
        assert await take(seen, 2) == ["red", "blue"]
