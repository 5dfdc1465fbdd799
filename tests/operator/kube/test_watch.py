"""The follower of a selection: it misses no change, repeats none, and doesn't ask the API server too often."""

import asyncio
import json
import logging
import weakref
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from functools import partial
from itertools import groupby, pairwise
from typing import Any

import pytest
from aiohttp import web
from clustersim import objects as kinds
from clustersim.faults import Ban
from clustersim.objects import Resource
from clustersim.sim import ClusterSim
from tsoperator.api.objects import CONFIGMAP, DNSCONFIG, SECRET, Object
from tsoperator.kube.client import KubeClient
from tsoperator.kube.watch import Changed, Deleted, Listed, Selection, Update, WatchDenied, Watching, WatchPace, updates

from tests.support.cluster import Handler, kube_client, running, serving, until

PACE = WatchPace(first_retry=0.02, last_retry=0.08, unserved=0.02, refused=0.16, jitter=lambda: 1.0)
CONFIGMAPS = Selection(CONFIGMAP, "default")


def configmap(name: str, **labels: str) -> Object:
    return {"metadata": {"name": name, "namespace": "default", "labels": labels}, "data": {}}


@asynccontextmanager
async def following(
    client: KubeClient, selection: Selection = CONFIGMAPS, pace: WatchPace = PACE, *, watches: bool = False
) -> AsyncIterator[list[str]]:
    """Follow the objects of *selection*, and yield a list to which each update is added as a text.

    If *watches* is true, the list also has the starts of watches.
    """
    seen: list[str] = []

    async def follow() -> None:
        async for update in updates(client, selection, pace):
            if watches or update != Watching():
                seen.append(words(update))

    async with running(follow()):
        yield seen


def words(update: Update) -> str:
    """Return the kind of *update*, and the names of its objects or the reason of a refusal."""
    match update:
        case Listed(items):
            told = [obj["metadata"]["name"] for obj in items]
        case Changed(obj) | Deleted(obj):
            told = [obj["metadata"]["name"]]
        case WatchDenied(why):
            told = [why]
        case _:
            told = []
    return " ".join([type(update).__name__, *told])


def watching(sim: ClusterSim, plural: str = "configmaps") -> int:
    return sim.requests["tsoperator", "watch", plural]


async def test_a_follower_gets_the_existing_objects_first_and_then_every_change(
    sim: ClusterSim, client: KubeClient
) -> None:
    sim.store.create(kinds.CONFIGMAP, configmap("a"))
    async with following(client) as seen:
        await until(lambda: seen)
        sim.store.create(kinds.CONFIGMAP, configmap("b"))
        sim.store.merge(kinds.CONFIGMAP, "default", "a", {"data": {"k": "v"}})
        sim.store.delete(kinds.CONFIGMAP, "default", "a")
        await until(lambda: len(seen) == 4)
    assert seen == ["Listed a", "Changed b", "Changed a", "Deleted a"]


async def test_a_follower_gets_the_events_that_came_during_its_pause_all_at_once(
    sim: ClusterSim, client: KubeClient
) -> None:
    loop, rest = asyncio.get_running_loop(), 0.3
    times: list[float] = []

    async def follow() -> None:
        async for update in updates(client, CONFIGMAPS, replace(PACE, rest=partial(asyncio.sleep, rest))):
            if isinstance(update, Changed):
                times.append(loop.time())

    async with running(follow()):
        await until(lambda: watching(sim))
        for name in "abc":
            sim.store.create(kinds.CONFIGMAP, configmap(name))
            await until(lambda: times)
        await until(lambda: len(times) == 3)
    first, second, third = times
    assert second - first > 0.9 * rest > third - second


async def test_a_follower_keeps_no_object_of_the_list_in_memory_while_it_watches(
    sim: ClusterSim, client: KubeClient
) -> None:
    class Held(dict[str, Any]):
        """An object that allows weak references."""

    held: list[weakref.ref[Object]] = []

    def slim(obj: Object) -> Object:
        made = Held(obj)
        held.append(weakref.ref(made))
        return made

    sim.store.create(kinds.CONFIGMAP, configmap("a"))
    stream = updates(client, CONFIGMAPS, PACE, slim)
    assert isinstance(stream, AsyncGenerator)
    async with aclosing(stream):
        assert isinstance(await anext(stream), Listed)
        assert await anext(stream) == Watching()
        assert [each() for each in held] == [None]


async def test_the_follower_of_a_single_object_opens_another_watch_when_a_short_watch_ends(
    sim: ClusterSim, client: KubeClient
) -> None:
    sim.store.create(kinds.CONFIGMAP, configmap("a"))
    selection = Selection(CONFIGMAP, "default", field_selector="metadata.name=b")
    async with following(client, selection, WatchPace(watch=1, first_retry=0.02)) as seen:
        await watches(sim, 2)
        for name in "cb":
            sim.store.create(kinds.CONFIGMAP, configmap(name))
        await watches(sim, 3)
    assert seen == ["Listed", "Changed b"]


async def watches(sim: ClusterSim, count: int) -> None:
    await until(lambda: watching(sim) >= count)


async def retries(sim: ClusterSim, plural: str = "configmaps") -> None:
    """Wait until the follower has sent three more lists and watches, so that at least one of them was a retry."""

    def sent() -> int:
        return sim.requests["tsoperator", "list", plural] + watching(sim, plural)

    wanted = sent() + 3
    await until(lambda: sent() >= wanted)


async def test_a_follower_misses_no_change_and_repeats_none_when_its_watches_are_cut(
    sim: ClusterSim, client: KubeClient
) -> None:
    async with following(client) as seen:
        await watches(sim, 1)
        for number in range(60):
            sim.store.create(kinds.CONFIGMAP, configmap(f"a{number}"))
            if number % 6 == 0:
                sim.faults.drop_watches()
                await watches(sim, 2 + number // 6)
        await until(lambda: len(seen) > 60)
    assert seen == ["Listed", *(f"Changed a{number}" for number in range(60))]
    assert watching(sim) == 11
    assert sim.requests["tsoperator", "list", "configmaps"] == 1


async def test_a_follower_resumes_at_the_most_recent_version_when_the_api_server_is_back(
    sim: ClusterSim, client: KubeClient
) -> None:
    async with following(client) as seen:
        await watches(sim, 1)
        sim.faults.leave()
        sim.store.create(kinds.CONFIGMAP, configmap("a"))
        sim.store.delete(kinds.CONFIGMAP, "default", "a")
        await retries(sim)
        sim.faults.clear()
        await until(lambda: len(seen) == 3)
    assert seen == ["Listed", "Changed a", "Deleted a"]


@pytest.mark.parametrize("first", [[], ["Listed"]], ids=["absent", "taken away"])
async def test_a_follower_lists_a_kind_as_soon_as_the_api_server_serves_the_kind(
    sim: ClusterSim, client: KubeClient, first: list[str]
) -> None:
    if not first:
        sim.kinds.withdraw(kinds.DNSCONFIG)
    async with following(client, Selection(DNSCONFIG)) as seen:
        await until(lambda: seen)
        sim.kinds.withdraw(kinds.DNSCONFIG)
        sim.faults.drop_watches()
        await until(lambda: "Unserved" in seen)
        sim.kinds.serve(kinds.DNSCONFIG)
        await until(lambda: seen[-1] == "Listed")
        await change_behind_a_gateway(sim, kinds.DNSCONFIG)
        await until(lambda: seen[-1] == "Changed a")
    assert [update for update, _ in groupby(seen)] == [*first, "Unserved", "Listed", "Changed a"]


async def change_behind_a_gateway(sim: ClusterSim, kind: Resource) -> None:
    """Answer every request with 404 while `retries` waits. Create an object of *kind* after that."""
    await until(lambda: watching(sim, kind.plural))
    sim.faults.missing = True
    sim.faults.drop_watches()
    await retries(sim, kind.plural)
    sim.faults.clear()
    sim.store.create(kind, configmap("a"))


@pytest.mark.parametrize("kind", [kinds.CONFIGMAP, kinds.DNSCONFIG], ids=lambda kind: kind.plural)
async def test_a_follower_does_not_take_a_kind_for_removed_because_a_gateway_answers_404_to_everything(
    sim: ClusterSim, client: KubeClient, kind: Resource
) -> None:
    selection = CONFIGMAPS if kind == kinds.CONFIGMAP else Selection(DNSCONFIG)
    async with following(client, selection) as seen:
        await change_behind_a_gateway(sim, kind)
        await until(lambda: seen[-1] == "Changed a")
    assert seen == ["Listed", "Changed a"]


def failures(caplog: pytest.LogCaptureFixture) -> list[tuple[int, float]]:
    """Return, for each logged failure of a watch, its place in the series of failures, and the delay in seconds."""
    found = [record.args for record in caplog.records if "watch failed" in record.msg]
    return [(args[1], args[2]) for args in found if isinstance(args, tuple)]  # type: ignore[misc]


async def test_a_follower_tries_less_and_less_often_to_reach_an_api_server_that_does_not_answer(
    sim: ClusterSim, client: KubeClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "tsoperator.kube")
    sim.faults.leave()
    async with following(client):
        await until(lambda: len(failures(caplog)) >= 12)
    assert [delay for _, delay in failures(caplog)][:5] == [0.02, 0.04, 0.08, 0.08, 0.08]
    assert [each.name for each in caplog.records if each.levelno > logging.DEBUG] == ["tsoperator.kube.client"]
    assert not any(record.exc_info or "\n" in record.getMessage() for record in caplog.records)


async def test_a_list_that_fails_after_a_long_time_does_not_reset_the_backoff_of_a_follower(
    sim: ClusterSim, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "tsoperator.kube.watch")
    sim.faults.latency = 60
    async with kube_client(sim.api_url, request_timeout=2 * PACE.last_retry) as client, following(client):
        await until(lambda: len(failures(caplog)) >= 3)
    assert [number for number, _ in failures(caplog)][:3] == [1, 2, 3]


async def test_a_follower_without_rights_gets_refusals_and_lists_again_when_it_has_the_rights(
    sim: ClusterSim, client: KubeClient
) -> None:
    sim.store.create(kinds.CONFIGMAP, configmap("a"))
    async with following(client) as seen:
        await watches(sim, 1)
        sim.faults.forbid(Ban("configmaps", "default"))
        sim.faults.drop_watches()
        await until(lambda: len(seen) >= 3)
        sim.store.delete(kinds.CONFIGMAP, "default", "a")
        sim.faults.clear()
        await until(lambda: seen[-1] == "Listed")
    first, *refused, last = seen
    assert (first, last, {update.split()[0] for update in refused}) == ("Listed a", "Listed", {"WatchDenied"})
    assert 'cannot watch resource "configmaps"' in refused[0]
    assert 'cannot list resource "configmaps"' in refused[-1]


async def test_a_follower_with_the_right_to_list_gets_refusals_until_it_has_the_right_to_watch(
    sim: ClusterSim, client: KubeClient
) -> None:
    sim.faults.forbid(Ban("configmaps", "default", "watch"))
    async with following(client, watches=True) as seen:
        await until(lambda: len(seen) >= 6)
        assert [update.split()[0] for update in seen[:6]] == ["Listed", "WatchDenied"] * 3
        sim.faults.clear()
        await until(lambda: "Watching" in seen)
    assert seen[-2:] == ["Listed", "Watching"]


@pytest.mark.parametrize("verb", ["list", "watch"])
async def test_a_follower_without_rights_tries_less_and_less_often_and_logs_no_warning(
    sim: ClusterSim, client: KubeClient, caplog: pytest.LogCaptureFixture, verb: str
) -> None:
    caplog.set_level(logging.DEBUG, "tsoperator.kube.watch")
    sim.faults.forbid(Ban("configmaps", "default", verb))
    async with following(client):
        await until(lambda: len(failures(caplog)) >= 6)
    assert [delay for _, delay in failures(caplog)][:6] == [0.02, 0.04, 0.08, 0.16, 0.16, 0.16]
    assert {record.levelno for record in caplog.records} == {logging.DEBUG}


class Script:
    """An API server with empty lists, which plays the given *watches* in order and repeats the last one.

    In place of a watch, None stands for an answer with status 500. The version of each list is 1. The answer to a
    request for only the version is *current*.
    """

    def __init__(self, *watches: list[Object] | None, current: str = "1") -> None:
        self.versions: list[str] = []
        self.times: list[float] = []
        self._watches = deque(watches)
        self._current = current

    async def answer(self, request: web.Request) -> web.Response:
        if "watch" not in request.query:
            version = self._current if request.query["limit"] == "1" else "1"
            return web.json_response({"metadata": {"resourceVersion": version}, "items": []})
        self.versions.append(request.query["resourceVersion"])
        self.times.append(asyncio.get_running_loop().time())
        watch = self._watches.popleft() if len(self._watches) > 1 else self._watches[0]
        if watch is None:
            return web.Response(status=500)
        bookmarks = request.query.get("allowWatchBookmarks") == "true"
        chosen = [event for event in watch if bookmarks or event.get("type") != "BOOKMARK"]
        return web.Response(text="".join(json.dumps(event) + "\n" for event in chosen))

    async def follow(self, watches: int) -> list[str]:
        """Follow the objects until the server has been asked for so many *watches*, and return the updates."""
        async with serving(self.answer) as url, kube_client(url) as client, following(client) as seen:
            await until(lambda: len(self.versions) >= watches)
        return seen


def event(kind: str, version: str, **obj: Any) -> Object:
    return {"type": kind, "object": {"metadata": {"name": "a", "resourceVersion": version}, **obj}}


FAILURE = {"type": "ERROR", "object": {"code": 500, "reason": "InternalError", "message": "etcd"}}
GONE = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}}


ADDED = event("ADDED", "5")
FOLLOWED = {
    "a bookmark moves the version and nothing else": (
        Script([event("BOOKMARK", "7")], [event("ADDED", "9"), event("BOOKMARK", "12")], []),
        ["1", "7", "12"],
        ["Listed", "Changed a"],
    ),
    "a version that is gone is listed again": (
        Script([ADDED, GONE], [event("ADDED", "6")], []),
        ["1", "1", "6"],
        ["Listed", "Changed a"] * 2,
    ),
    "a failure resumes the watch": (Script([ADDED, FAILURE], [], current="5"), ["1", "5"], ["Listed", "Changed a"]),
    "a version that is no number": (Script([ADDED, FAILURE], [], current="a"), ["1", "5"], ["Listed", "Changed a"]),
} | {
    f"a version that goes back is listed again, by {last['type']}": (
        Script([ADDED, last], [], current="4"),
        ["1", "1"],
        ["Listed", "Changed a", "Listed"],
    )
    for last in (FAILURE, event("ADDED", "4"), event("DELETED", "4"), event("BOOKMARK", "4"))
}


@pytest.mark.parametrize(("script", "versions", "updates"), FOLLOWED.values(), ids=FOLLOWED)
async def test_each_watch_of_a_follower_starts_from_the_most_recent_version_or_from_that_of_a_new_list(
    script: Script, versions: list[str], updates: list[str]
) -> None:
    """Compare *versions* with the versions from which the follower asks for watches."""
    assert await script.follow(len(versions)) == updates
    assert script.versions[: len(versions)] == versions


@pytest.mark.parametrize(("good", "end"), [([], 1), ([ADDED, FAILURE], 5)], ids=["an end", "an event"])
async def test_a_successful_watch_resets_the_backoff_of_a_follower(
    good: list[Object], end: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "tsoperator.kube.watch")
    await Script(None, None, good, *([] if good else [None]), [], current="5").follow(5)
    assert [number for number, _ in failures(caplog)] == [1, 2, 1]
    lines = ["watching from version 1", f"the watch ended at version {end}, after 0 s"]
    assert {f"configmaps in default: {line}" for line in lines} <= {*caplog.messages}


async def test_the_failures_of_a_follower_at_a_broken_api_server_are_logged_in_few_lines(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "tsoperator.kube")
    await Script(None).follow(12)
    loud = [record for record in caplog.records if record.levelno > logging.DEBUG]
    assert [record.args[1] for record in loud if isinstance(record.args, tuple)] == [3, 10]


def silent(opened: asyncio.Queue[asyncio.Transport]) -> Handler:
    """Return a server with empty lists, and with watches that stay open and have no events.

    The server puts the connection of each watch into *opened*.
    """

    async def handler(request: web.Request) -> web.StreamResponse:
        if "watch" not in request.query:
            return web.json_response({"metadata": {"resourceVersion": "1"}, "items": []})
        response = web.StreamResponse()
        await response.prepare(request)
        assert request.transport is not None
        opened.put_nowait(request.transport)
        await asyncio.Event().wait()
        return response

    return handler


def passed(moment: float) -> bool:
    return asyncio.get_running_loop().time() > moment


async def test_a_follower_asks_a_busy_api_server_only_after_the_time_that_the_server_names(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "tsoperator.kube.watch")

    async def refuse(_request: web.Request) -> web.Response:
        return web.json_response({}, status=429, headers={"Retry-After": "30"})

    async with serving(refuse) as url, kube_client(url) as client, following(client):
        await until(lambda: failures(caplog))
    assert failures(caplog) == [(1, 30)]


async def test_a_long_watch_without_events_resets_the_backoff_of_a_follower(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "tsoperator.kube.watch")
    loop, opened = asyncio.get_running_loop(), asyncio.Queue[asyncio.Transport]()
    async with serving(silent(opened)) as url, kube_client(url) as client, following(client):
        for _ in range(2):
            connection, long = await opened.get(), loop.time() + 2 * PACE.last_retry
            await until(partial(passed, long))
            connection.abort()
        await opened.get()
    assert [number for number, _ in failures(caplog)] == [1, 1]


@pytest.mark.parametrize(
    "nonsense", [{"type": "ADDED"}, {}, {"type": "ADDED", "object": {}}, {"type": "ADDED", "object": {"metadata": []}}]
)
async def test_a_line_of_a_watch_that_is_no_event_is_a_failure_of_the_watch(nonsense: Object) -> None:
    script = Script([nonsense], [event("ADDED", "5")], [])
    assert await script.follow(3) == ["Listed", "Changed a"]


@pytest.mark.parametrize("watch", [[], [GONE], [{}]])
async def test_the_follower_pauses_before_it_repeats_a_watch_that_ended_at_once(watch: list[Object]) -> None:
    script = Script(watch)
    await script.follow(6)
    assert min(later - earlier for earlier, later in pairwise(script.times)) >= PACE.first_retry * 0.9


@pytest.mark.parametrize(
    ("selection", "words"),
    [
        (Selection(SECRET), "secrets"),
        (Selection(DNSCONFIG, "", "a=b"), "dnsconfigs.tailscale.com (a=b)"),
        (Selection(SECRET, "tailscale", "a=b"), "secrets in tailscale (a=b)"),
        (Selection(SECRET, "", "a=b", "c=d"), "secrets (a=b, c=d)"),
    ],
)
def test_the_text_of_a_selection_names_the_selected_objects(selection: Selection, words: str) -> None:
    assert str(selection) == words


@pytest.mark.parametrize(
    ("selection", "covered"),
    [
        (Selection(CONFIGMAP), True),
        (CONFIGMAPS, True),
        (Selection(CONFIGMAP, "tailscale"), False),
        (Selection(CONFIGMAP, label_selector="team=x"), True),
        (Selection(CONFIGMAP, "default", "team=x,tier=y"), True),
        (Selection(CONFIGMAP, label_selector="team=z"), False),
        (Selection(CONFIGMAP, label_selector="team=x,other=x"), False),
        (Selection(CONFIGMAP, field_selector="metadata.name=a"), True),
        (Selection(CONFIGMAP, field_selector="metadata.name=b"), False),
        (Selection(CONFIGMAP, field_selector="type=a"), False),
    ],
    ids=str,
)
def test_a_selection_covers_an_object_if_the_selection_certainly_selects_the_object(
    selection: Selection, covered: bool
) -> None:
    assert selection.covers(configmap("a", team="x", tier="y")) is covered
