"""Watches over HTTP."""

import asyncio
from collections.abc import AsyncIterator
from typing import NamedTuple

import pytest
from clustersim.objects import CONFIGMAP, SERVICE, Object

from tests.loadtest.clustersim.serving import CONFIGMAPS, TABLE, Api, configmap, service, serving


async def take(events: AsyncIterator[Object], count: int) -> list[Object]:
    async with asyncio.timeout(30):
        return [await anext(events) for _ in range(count)]


async def test_a_watch_tells_what_happens_after_its_version(api: Api) -> None:
    start = api.store.create(CONFIGMAP, configmap())["metadata"]["resourceVersion"]
    api.store.merge(CONFIGMAP, "default", "settings", {"data": {"a": "2"}})
    async with api.watch(f"{CONFIGMAPS}?resourceVersion={start}") as events:
        (first,) = await take(events, 1)
        api.store.create(CONFIGMAP, configmap("other"))
        last = api.store.delete(CONFIGMAP, "default", "settings")
        later = await take(events, 2)
    assert (first["type"], first["object"]["data"]) == ("MODIFIED", {"a": "2"})
    assert [event["type"] for event in later] == ["ADDED", "DELETED"]
    assert later[1]["object"] == last


async def test_a_watch_without_a_version_begins_with_what_is_there(api: Api) -> None:
    there = api.store.create(CONFIGMAP, configmap())
    async with api.watch(CONFIGMAPS) as events:
        assert await take(events, 1) == [{"type": "ADDED", "object": there}]


async def test_a_quiet_watch_is_answered_at_once(api: Api) -> None:
    async with asyncio.timeout(30), api.watch(f"{CONFIGMAPS}?resourceVersion={api.store.revision}") as events:
        api.store.create(CONFIGMAP, configmap())
        assert (await take(events, 1))[0]["type"] == "ADDED"


async def test_objects_enter_and_leave_a_selection(api: Api) -> None:
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


async def test_a_watch_of_a_namespace_sees_no_other(api: Api) -> None:
    async with api.watch(CONFIGMAPS) as events:
        api.store.create(CONFIGMAP, {"metadata": {"name": "a", "namespace": "tailscale"}})
        api.store.create(SERVICE, service())
        api.store.create(CONFIGMAP, configmap("b"))
        assert [event["object"]["metadata"]["name"] for event in await take(events, 1)] == ["b"]


async def test_a_version_that_is_forgotten_is_an_error_event(api: Api) -> None:
    start = api.store.create(CONFIGMAP, configmap())["metadata"]["resourceVersion"]
    api.store.expire_history()
    async with api.watch(f"{CONFIGMAPS}?resourceVersion={start}") as events:
        (event,) = [event async for event in events]
    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")


async def test_a_watch_from_the_future_says_nothing_until_then(api: Api) -> None:
    async with api.watch(f"{CONFIGMAPS}?resourceVersion={api.store.revision + 2}") as events:
        for name in ("a", "b", "c"):
            api.store.create(CONFIGMAP, configmap(name))
        assert [event["object"]["metadata"]["name"] for event in await take(events, 1)] == ["c"]


async def test_a_watch_ends_after_its_time(api: Api) -> None:
    async with asyncio.timeout(30), api.watch(f"{CONFIGMAPS}?timeoutSeconds=1") as events:
        assert [event async for event in events] == []


async def test_bookmarks_come_to_those_who_ask() -> None:
    async with serving(bookmark_interval=0.02) as api, api.watch(f"{CONFIGMAPS}?allowWatchBookmarks=true") as events:
        (bookmark,) = await take(events, 1)
        assert (bookmark["type"], bookmark["object"]["kind"]) == ("BOOKMARK", "ConfigMap")
        assert bookmark["object"]["metadata"] == {"resourceVersion": str(api.store.revision)}


async def test_no_bookmarks_come_to_those_who_do_not_ask() -> None:
    async with serving(bookmark_interval=0.02) as api, api.watch(f"{CONFIGMAPS}?timeoutSeconds=1") as events:
        assert [event async for event in events] == []


async def test_a_table_is_watched_row_by_row(api: Api) -> None:
    async with api.watch(CONFIGMAPS, Accept=TABLE) as events:
        api.store.create(CONFIGMAP, configmap())
        (event,) = await take(events, 1)
    assert event["object"]["kind"] == "Table"
    assert event["object"]["rows"][0]["cells"][:2] == ["settings", "1"]


class Fault(NamedTuple):
    name: str
    resumes: str


@pytest.mark.parametrize("fault", [Fault("drop_watches", "ADDED"), Fault("expire_history", "ERROR")])
async def test_a_fault_ends_watches(api: Api, fault: Fault) -> None:
    start = api.store.revision
    async with api.watch(f"{CONFIGMAPS}?resourceVersion={start}") as events:
        await api.call("POST", "/_sim/faults", {fault.name: True})
        async with asyncio.timeout(30):
            assert [event async for event in events] == []
    api.store.create(CONFIGMAP, configmap())
    async with api.watch(f"{CONFIGMAPS}?resourceVersion={start}") as events:
        assert [event["type"] for event in await take(events, 1)] == [fault.resumes]


async def test_a_watch_whose_client_left_is_forgotten(api: Api) -> None:
    async with api.watch(CONFIGMAPS):
        (running,) = api.faults.watches
    async with asyncio.timeout(30):
        while running in api.faults.watches:
            await api.call("GET", "/version")
