"""Tests of watches over HTTP."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from clustersim.objects import CONFIGMAP, Object

from tests.loadtest.clustersim.serving import CONFIGMAPS, METADATA, Api, configmap, serving


async def take(events: AsyncIterator[Object], count: int) -> list[Object]:
    async with asyncio.timeout(30):
        return [await anext(events) for _ in range(count)]


async def test_a_watch_reports_when_objects_begin_and_cease_to_match_its_selector(api: Api) -> None:
    path = f"/api/v1/configmaps?labelSelector=color%3Dred&resourceVersion={api.store.revision}"
    async with api.watch(path) as events:
        api.store.create(CONFIGMAP, configmap())
        for color in ("red", "red", "blue", "green"):
            api.store.merge(CONFIGMAP, "default", "settings", {"metadata": {"labels": {"color": color}}})
        api.store.create(CONFIGMAP, configmap("last", labels={"color": "red"}))
        seen = await take(events, 3)
    assert [event["type"] for event in seen] == ["ADDED", "DELETED", "ADDED"]
    assert seen[1]["object"]["metadata"]["labels"] == {"color": "red"}
    assert seen[1]["object"]["metadata"]["resourceVersion"] > seen[0]["object"]["metadata"]["resourceVersion"]


async def test_a_watch_for_partial_object_metadata_shows_only_metadata() -> None:
    async with (
        serving(bookmark_interval=0.05) as api,
        api.watch(f"{CONFIGMAPS}?allowWatchBookmarks=true&labelSelector=a%3Db", Accept=METADATA) as events,
    ):
        created = api.store.create(CONFIGMAP, configmap(labels={"a": "b"}))
        api.store.merge(CONFIGMAP, "default", "settings", {"metadata": {"labels": {"a": "c"}}})
        seen = await take(events, 3)
    assert [event["type"] for event in seen] == ["ADDED", "DELETED", "BOOKMARK"]
    assert all(event["object"].keys() == {"kind", "apiVersion", "metadata"} for event in seen)
    assert {event["object"]["kind"] for event in seen} == {"PartialObjectMetadata"}
    assert seen[0]["object"]["metadata"] == created["metadata"]


async def test_a_watch_from_a_future_resource_version_is_silent_until_the_server_reaches_it(api: Api) -> None:
    async with api.watch(f"{CONFIGMAPS}?resourceVersion={api.store.revision + 2}") as events:
        for name in ("a", "b", "c"):
            api.store.create(CONFIGMAP, configmap(name))
        assert [event["object"]["metadata"]["name"] for event in await take(events, 1)] == ["c"]


@pytest.mark.parametrize(("query", "bookmarks"), [("allowWatchBookmarks=true&", True), ("", False)])
async def test_a_watch_sends_bookmarks_only_if_the_client_asks_for_them(query: str, bookmarks: bool) -> None:
    async with (
        serving(bookmark_interval=0.05) as api,
        api.watch(f"{CONFIGMAPS}?{query}timeoutSeconds=1") as events,
        asyncio.timeout(30),
    ):
        seen = [event async for event in events]
    version = {"resourceVersion": str(api.store.revision)}
    bookmark = {"type": "BOOKMARK", "object": {"kind": "ConfigMap", "apiVersion": "v1", "metadata": version}}
    assert seen == seen.count(bookmark) * [bookmark]
    assert bool(seen) is bookmarks


async def test_the_server_forgets_a_watch_whose_client_has_left(api: Api) -> None:
    async with api.watch(CONFIGMAPS):
        (running,) = api.faults.watches
    async with asyncio.timeout(30):
        while running in api.faults.watches:
            await api.call("GET", "/apis")
