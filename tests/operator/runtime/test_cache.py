import logging
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from aiohttp import web
from clustersim import objects as kinds
from clustersim.faults import Ban
from clustersim.sim import ClusterSim, SimOptions, cluster_sim
from prometheus_client import CollectorRegistry
from tsoperator.api.objects import CONFIGMAP, DNSCONFIG, PROXYGROUPPOLICY, SECRET, SERVICEMONITOR, Key, Object, labels
from tsoperator.kube.client import KubeClient
from tsoperator.kube.watch import Selection, WatchPace
from tsoperator.runtime.cache import Cache, CacheMetrics, Source, without_managed_fields

from tests.support.cluster import kube_client, running, serving, until

PACE = WatchPace(first_retry=0.02, last_retry=0.02, unserved=0.02, refused=0.02)
A, B = Key("default", "a"), Key("default", "b")


def by_team(obj: Object) -> Iterable[str]:
    return labels(obj).get("team", "").split(".")


CONFIGMAPS = Source(Selection(CONFIGMAP, "default"), {"team": by_team})


def configmap(name: str, team: str = "", namespace: str = "default", **labels: str) -> Object:
    return {"metadata": {"name": name, "namespace": namespace, "labels": {"team": team, **labels}}, "data": {}}


def create(sim: ClusterSim, *objects: Object) -> None:
    for obj in objects:
        sim.store.create(kinds.CONFIGMAP, obj)


def join(sim: ClusterSim, name: str, team: str) -> None:
    sim.store.merge(kinds.CONFIGMAP, "default", name, {"metadata": {"labels": {"team": team}}})


@asynccontextmanager
async def followed(url: str, *sources: Source) -> AsyncIterator[Cache]:
    """Yield a cache that is synced with the API server at *url*, and kept up to date."""
    cache = Cache(sources or [CONFIGMAPS])
    async with kube_client(url) as client, running(cache.follow(client, PACE)):
        await cache.synced()
        yield cache


class Notes:
    """A listener that records the label ``team`` of the old and the new object, and of deleted objects."""

    def __init__(self) -> None:
        self.changes: list[tuple[str | None, str | None]] = []
        self.deleted: list[str | None] = []

    def __call__(self, old: Object | None, new: Object | None) -> None:
        self.changes.append((self._team(old), self._team(new)))

    def end(self, last: Object) -> None:
        self.deleted.append(self._team(last))

    @staticmethod
    def _team(obj: Object | None) -> str | None:
        return labels(obj)["team"] if obj is not None else None


@asynccontextmanager
async def noted(url: str, *sources: Source) -> AsyncIterator[tuple[Cache, Notes]]:
    """Yield a cache as `followed` does, and a listener that records each change of ConfigMaps."""
    notes = Notes()
    async with followed(url, *sources) as cache:
        cache.listen(CONFIGMAP, notes)
        cache.listen_for_deletions(CONFIGMAP, notes.end)
        yield cache, notes


def found(cache: Cache, team: str) -> list[str]:
    return [obj["metadata"]["name"] for obj in cache.indexed(CONFIGMAP, "team", team)]


async def test_an_index_finds_an_object_under_all_its_present_values_after_each_change(sim: ClusterSim) -> None:
    create(sim, configmap("a", "x.y.x"), configmap("b", "x"))
    async with followed(sim.api_url) as cache:
        assert (found(cache, "x"), found(cache, "y")) == (["a", "b"], ["a"])
        join(sim, "a", "y.z")
        await until(lambda: found(cache, "z") == ["a"])
        assert (found(cache, "x"), found(cache, "y")) == (["b"], ["a"])
        sim.store.delete(kinds.CONFIGMAP, *B)
        await until(lambda: not found(cache, "x"))


async def test_listeners_get_the_old_and_the_new_object_when_the_new_one_is_already_in_the_cache(
    sim: ClusterSim,
) -> None:
    seen: list[bool] = []
    async with noted(sim.api_url) as (cache, notes):
        cache.listen(CONFIGMAP, lambda _old, new: seen.append(new is cache.get(CONFIGMAP, A)))
        create(sim, configmap("a", "x"))
        join(sim, "a", "y")
        sim.store.delete(kinds.CONFIGMAP, *A)
        await until(lambda: len(seen) == 3)
    assert (notes.changes, notes.deleted) == ([(None, "x"), ("x", "y"), ("y", None)], ["y"])
    assert seen == [True, True, True]


async def test_a_relist_announces_deleted_new_and_changed_objects_and_no_others(sim: ClusterSim) -> None:
    create(sim, *(configmap(name, "x") for name in "abcd"))
    async with noted(sim.api_url) as (cache, notes):
        await missing(sim, lambda: change_all(sim))
        await until(lambda: len(notes.changes) == 4)
        assert [found(cache, team) for team in ("x", "y", "z", "w")] == [["d"], ["b"], ["c"], ["e"]]
    assert sorted(notes.changes, key=str) == [("x", "y"), ("x", "z"), ("x", None), (None, "w")]
    assert notes.deleted == []


def change_all(sim: ClusterSim) -> None:
    sim.store.delete(kinds.CONFIGMAP, *A)
    join(sim, "b", "y")
    replace_with(sim, configmap("c", "z"))
    create(sim, configmap("e", "w"))


async def missing(sim: ClusterSim, change: Callable[[], None] = lambda: None) -> None:
    """Make *change* while no watch is open, and drop its event, so that every watcher has to list again."""
    await away(sim, change)
    sim.faults.expire_history()
    sim.faults.clear()


async def away(sim: ClusterSim, change: Callable[[], None]) -> None:
    """Close every connection, and make *change* once the watchers have noticed."""
    await until(lambda: sim.requests["tsoperator", "watch", "configmaps"])
    sim.faults.leave()
    before = sim.requests.total()
    await until(lambda: sim.requests.total() > before + 2)  # a watch, the same on another connection, and the next try
    change()


async def test_the_cache_accepts_changes_with_lower_versions_after_a_restore_of_etcd(sim: ClusterSim) -> None:
    create(sim, configmap("a", "x"))
    backup = sim.store.revision
    for team in ("y", "z"):
        join(sim, "a", team)
    create(sim, configmap("b", "z"))
    async with followed(sim.api_url) as cache:
        await away(sim, lambda: sim.store.restore(backup))
        sim.faults.clear()
        await until(lambda: found(cache, "x") == ["a"] and not found(cache, "z"))
        sim.store.delete(kinds.CONFIGMAP, *A)
        await until(lambda: not cache.all(CONFIGMAP))
    create(sim, configmap("b", "x"))
    cache.written(CONFIGMAP, sim.store.get(kinds.CONFIGMAP, *B))
    assert found(cache, "x") == ["b"]


def replace_with(sim: ClusterSim, obj: Object) -> None:
    sim.store.delete(kinds.CONFIGMAP, "default", obj["metadata"]["name"])
    create(sim, obj)


async def test_the_cache_does_not_take_a_later_object_of_the_same_name_for_the_newest_state_of_an_object(
    sim: ClusterSim,
) -> None:
    create(sim, configmap("a", "x"))
    old = sim.store.get(kinds.CONFIGMAP, *A)
    join(sim, "a", "y")
    new = sim.store.get(kinds.CONFIGMAP, *A)
    async with followed(sim.api_url) as cache:
        assert [cache.newest(CONFIGMAP, each) for each in (old, new)] == [new, new]
        assert cache.newest(SECRET, old) == old
        replace_with(sim, configmap("a", "z"))
        await until(lambda: found(cache, "z"))
        assert cache.newest(CONFIGMAP, old) == old


def test_the_cache_leaves_out_the_managed_fields_of_an_object_and_no_other_field() -> None:
    obj = {"metadata": {"name": "a", "managedFields": [{"manager": "kubectl"}]}, "data": {}}
    assert without_managed_fields(obj) == {"metadata": {"name": "a"}, "data": {}}
    assert "managedFields" in obj["metadata"]


async def test_the_cache_has_no_objects_and_no_refusal_of_a_kind_that_is_no_longer_served(
    sim: ClusterSim,
) -> None:
    sim.store.create(kinds.DNSCONFIG, {"metadata": {"name": "a", "labels": {"team": "x"}}})
    notes = Notes()
    async with followed(sim.api_url, Source(Selection(DNSCONFIG), optional=True)) as cache:
        cache.listen(DNSCONFIG, notes)
        await until(lambda: sim.requests["tsoperator", "watch", "dnsconfigs"])
        sim.faults.forbid(Ban("dnsconfigs"))
        sim.faults.drop_watches()
        await until(cache.refused_selections)
        sim.kinds.withdraw(kinds.DNSCONFIG)
        sim.faults.clear()
        await until(lambda: not (cache.refused_selections() or cache.all(DNSCONFIG)))
    assert notes.changes == [("x", None)]


async def test_a_written_object_is_announced_once_and_never_in_an_older_state(sim: ClusterSim) -> None:
    slimmed: list[Object] = []

    def slim(obj: Object) -> Object:
        slimmed.append({"metadata": {**obj["metadata"], "labels": {"team": f"slim {labels(obj)['team']}"}}})
        return slimmed[-1]

    async with noted(sim.api_url, replace(CONFIGMAPS, slim=slim)) as (cache, notes):
        create(sim, configmap("a", "x"))
        join(sim, "a", "y")
        cache.written(CONFIGMAP, sim.store.get(kinds.CONFIGMAP, *A))
        create(sim, configmap("b", "z"))
        await until(lambda: found(cache, "slim z"))
        assert cache.all(CONFIGMAP) == slimmed
    assert notes.changes == [(None, "slim y"), (None, "slim z")]


async def test_the_late_event_of_a_deletion_does_not_remove_a_new_object_of_the_same_name(sim: ClusterSim) -> None:
    create(sim, configmap("a", "x"))
    async with noted(sim.api_url) as (cache, notes):
        replace_with(sim, configmap("a", "y"))
        cache.written(CONFIGMAP, sim.store.get(kinds.CONFIGMAP, *A))
        create(sim, configmap("b", "z"))
        await until(lambda: found(cache, "z"))
    assert notes.changes == [("x", "y"), (None, "z")]


@pytest.mark.parametrize("listed", [True, False], ids=["when listed", "later"])
async def test_a_written_object_that_is_deleted_already_does_not_come_back_into_the_cache(
    sim: ClusterSim, listed: bool
) -> None:
    create(sim, configmap("a", "x"))
    stored = sim.store.get(kinds.CONFIGMAP, *A)
    if listed:
        sim.store.delete(kinds.CONFIGMAP, *A)
    async with followed(sim.api_url) as cache:
        if not listed:
            sim.store.delete(kinds.CONFIGMAP, *A)
            await until(lambda: not cache.all(CONFIGMAP))
        cache.written(CONFIGMAP, stored)
        assert cache.get(CONFIGMAP, A) is None


async def test_a_written_object_outside_the_selections_stays_out_of_the_cache(sim: ClusterSim) -> None:
    create(sim, configmap("a", "x", "tailscale"))
    elsewhere = sim.store.get(kinds.CONFIGMAP, "tailscale", "a")
    async with followed(sim.api_url) as cache:
        await until(lambda: sim.requests["tsoperator", "watch", "configmaps"])
        newer = {**elsewhere, "metadata": {**elsewhere["metadata"], "resourceVersion": "999999"}}
        cache.written(CONFIGMAP, newer)
        cache.written(SECRET, newer)
        assert cache.all(CONFIGMAP) == []


TWO = [
    Source(Selection(CONFIGMAP, namespace), {"team": by_team}, optional=True) for namespace in ("default", "tailscale")
]
SHUT = Ban("configmaps", "tailscale")


async def test_a_query_of_the_cache_finds_the_objects_of_several_namespaces_together(sim: ClusterSim) -> None:
    create(sim, configmap("b", "x", "tailscale"), configmap("c", "x"), configmap("a", "x", "kube-system"))
    async with followed(sim.api_url, *TWO) as cache:
        assert found(cache, "x") == ["c", "b"]
        assert {obj["metadata"]["name"] for obj in cache.all(CONFIGMAP)} == {"b", "c"}
        assert cache.get(CONFIGMAP, Key("tailscale", "b"))
        create(sim, configmap("d", "x", "kube-system"), configmap("d", "x", "tailscale"))
        await until(lambda: found(cache, "x") == ["c", "b", "d"])
        sim.store.delete(kinds.CONFIGMAP, "tailscale", "b")
        await until(lambda: found(cache, "x") == ["c", "d"])


async def test_a_namespace_in_which_the_operator_has_no_rights_does_not_delay_other_namespaces(
    sim: ClusterSim, caplog: pytest.LogCaptureFixture
) -> None:
    create(sim, configmap("a", "x"), configmap("b", "x", "tailscale"))
    sim.faults.forbid(SHUT)
    async with followed(sim.api_url, *TWO) as cache:
        assert (cache.unsynced_selections(), found(cache, "x"), shut(cache)) == ([], ["a"], 1)
        assert [cache.knows(CONFIGMAP, name) for name in ("default", "tailscale")] == [True, False]
        sim.faults.clear()
        await until(lambda: found(cache, "x") == ["a", "b"] and shut(cache) is None)
        assert cache.knows(CONFIGMAP, "tailscale")
    [said] = [record for record in caplog.records if record.name.startswith("tsoperator")]
    assert said.levelno == logging.WARNING
    assert said.getMessage().startswith("configmaps in tailscale: the operator may not see them")
    assert 'in the namespace "tailscale"' in said.getMessage()


def shut(cache: Cache) -> float | None:
    registry = CollectorRegistry()
    registry.register(CacheMetrics(cache))
    labelled = {"resource": "configmaps", "namespace": "tailscale"}
    return registry.get_sample_value("tsoperator_watch_refused", labelled)


async def test_a_refused_source_without_which_the_operator_works_causes_no_warning(
    sim: ClusterSim, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "tsoperator")
    sim.faults.forbid(SHUT)
    async with followed(sim.api_url, Source(Selection(CONFIGMAP, "tailscale"), optional=True, without=True)) as cache:
        await until(cache.refused_selections)
    (said,) = caplog.records
    assert (said.levelname, "and works without" in said.getMessage()) == ("INFO", True)


async def test_a_refused_source_that_is_not_optional_keeps_the_cache_unsynced(
    sim: ClusterSim, client: KubeClient
) -> None:
    cache = Cache([CONFIGMAPS, *TWO[1:]])
    sim.faults.forbid(Ban("configmaps", "default"))
    async with running(cache.follow(client, PACE)):
        await until(lambda: len(cache.unsynced_selections()) == 1)
        await until(lambda: sim.requests["tsoperator", "list", "configmaps"] > 4)
        assert cache.unsynced_selections() == ["configmaps in default"]


async def test_the_cache_keeps_the_objects_of_a_namespace_in_which_the_operator_loses_its_rights(
    sim: ClusterSim,
) -> None:
    create(sim, configmap("a", "x", "tailscale"), configmap("b", "x", "tailscale"))
    async with followed(sim.api_url, *TWO) as cache:
        await until(lambda: sim.requests["tsoperator", "watch", "configmaps"] == 2)
        sim.faults.forbid(SHUT)
        sim.faults.drop_watches()
        await until(lambda: not cache.sees(CONFIGMAP, "tailscale"))
        sim.store.delete(kinds.CONFIGMAP, "tailscale", "b")
        assert (found(cache, "x"), cache.knows(CONFIGMAP, "tailscale")) == (["a", "b"], True)
        sim.faults.clear()
        await until(lambda: cache.sees(CONFIGMAP, "tailscale"))
        assert found(cache, "x") == ["a"]


async def test_a_selection_that_can_be_listed_but_not_watched_counts_as_refused(
    sim: ClusterSim, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "tsoperator")
    sim.faults.forbid(Ban("configmaps", "tailscale", "watch"))
    async with followed(sim.api_url, *TWO) as cache:
        await until(cache.refused_selections)
        create(sim, configmap("a", "x", "tailscale"))
        await until(lambda: found(cache, "x"))  # the cache has listed the objects again
        assert (len(cache.refused_selections()), len(caplog.messages)) == (1, 1)
        assert cache.knows(CONFIGMAP, "tailscale")
        sim.faults.clear()
        await until(lambda: cache.sees(CONFIGMAP, "tailscale"))
    assert caplog.messages[1:] == ["configmaps in tailscale: the operator may see them again"]


LABELLED = [
    Source(Selection(CONFIGMAP, "default", selector), {"team": by_team}) for selector in ("team=x", "tier=front")
]


async def test_a_namespace_counts_as_unknown_if_a_selection_in_the_namespace_is_refused() -> None:
    allowed = ["team=x"]

    async def handler(request: web.Request) -> web.Response:
        status = 200 if request.query["labelSelector"] in allowed else 403
        return web.json_response({"metadata": {"resourceVersion": "1"}, "items": []}, status=status)

    sources = [Source(each.selection, optional=True) for each in LABELLED]
    for refused in (1, 2):
        async with serving(handler) as url, followed(url, *sources) as cache:
            assert (cache.knows(CONFIGMAP, "default"), cache.sees(CONFIGMAP, "default")) == (False, False)
            [metric] = CacheMetrics(cache).collect()
            assert (len(cache.refused_selections()), len(metric.samples)) == (refused, 1)
        allowed.clear()


async def test_a_cache_is_synced_when_every_kind_has_been_listed(sim: ClusterSim, client: KubeClient) -> None:
    cache = Cache([CONFIGMAPS, Source(Selection(SECRET)), Source(Selection(DNSCONFIG))])
    names = ["configmaps in default", "secrets", "dnsconfigs.tailscale.com"]
    sim.faults.leave()
    async with running(cache.follow(client, PACE)):
        await until(lambda: sim.requests["tsoperator", "list", "secrets"] > 1)
        assert (cache.unsynced_selections(), cache.knows(SECRET, "default")) == (names, False)
        sim.faults.clear()
        await cache.synced()
        assert [cache.knows(SECRET, name) for name in ("default", "tailscale")] == [True, True]
        assert [cache.sees(SECRET, name) for name in ("default", "tailscale")] == [True, True]
        assert [cache.knows(CONFIGMAP, name) for name in ("default", "tailscale")] == [True, False]
        assert cache.knows(DNSCONFIG, "")
    assert cache.unsynced_selections() == []


async def test_a_kind_of_ours_that_is_not_served_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """Expect no line about a kind of another project, such as ServiceMonitor, because a cluster can do without it."""
    caplog.set_level(logging.INFO, "tsoperator.runtime.cache")
    policies = [Source(Selection(PROXYGROUPPOLICY, namespace)) for namespace in ("default", "kube-system", "tailscale")]
    async with (
        cluster_sim(SimOptions(absent=frozenset({"proxygrouppolicies"}))) as bare,
        followed(bare.api_url, *policies, Source(Selection(SERVICEMONITOR))),
    ):
        bare.serve_kind(kinds.PROXYGROUPPOLICY)
        await until(lambda: bare.requests["tsoperator", "watch", "proxygrouppolicies"] >= 3)
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert caplog.messages[0].startswith("proxygrouppolicies.tailscale.com is not served by the API server")
    assert caplog.messages[1] == "proxygrouppolicies.tailscale.com is served now"


async def test_a_relist_of_one_selection_removes_no_object_of_another_selection(sim: ClusterSim) -> None:
    create(sim, configmap("a", "x"), configmap("b", "y", tier="front"))
    notes = Notes()
    async with followed(sim.api_url, *LABELLED) as cache:
        assert (found(cache, "x"), found(cache, "y")) == (["a"], ["b"])
        cache.listen(CONFIGMAP, notes)
        await missing(sim)
        create(sim, configmap("c", "x"), configmap("d", "y", tier="front"))
        await until(lambda: (found(cache, "x"), found(cache, "y")) == (["a", "c"], ["b", "d"]))
    assert sorted(notes.changes, key=str) == [(None, "x"), (None, "y")]


@pytest.mark.parametrize("change", [{"tier": None}, {"tier": "back"}, {"team": "y"}], ids=str)
async def test_an_object_that_two_sources_select_stays_in_the_cache_while_either_of_them_selects_the_object(
    sim: ClusterSim, change: Object
) -> None:
    create(sim, configmap("a", "x", tier="front"))
    async with followed(sim.api_url, *LABELLED) as cache:
        for labels_now in (change, {"tier": "front", "team": "x"}, change):
            sim.store.merge(kinds.CONFIGMAP, *A, {"metadata": {"labels": labels_now}})
            await until(lambda: cache.get(CONFIGMAP, A) == sim.store.get(kinds.CONFIGMAP, *A))
        sim.store.merge(kinds.CONFIGMAP, *A, {"metadata": {"labels": {"team": "z", "tier": "none"}}})
        await until(lambda: not cache.all(CONFIGMAP))
        assert (found(cache, "x"), found(cache, "y")) == ([], [])


async def test_an_object_that_two_sources_select_is_announced_once(sim: ClusterSim) -> None:
    async with noted(sim.api_url, *LABELLED) as (cache, notes):
        create(sim, configmap("a", "x", tier="front"))
        create(
            sim, configmap("b", "x"), configmap("c", "y", tier="front")
        )  # each of these changes is announced after "a"
        await until(lambda: (found(cache, "x"), found(cache, "y")) == (["a", "b"], ["c"]))
        sim.store.delete(kinds.CONFIGMAP, *A)
        await until(lambda: found(cache, "x") == ["b"])
    assert sorted(notes.changes, key=str) == [("x", None), (None, "x"), (None, "x"), (None, "y")]


@pytest.mark.parametrize("change", [{"team": "y"}, {"tier": "back"}], ids=str)
async def test_an_object_that_leaves_one_selection_by_a_write_stays_in_the_cache_for_the_other_selection(
    sim: ClusterSim, change: Object
) -> None:
    create(sim, configmap("a", "x", tier="front"))
    async with followed(sim.api_url, *LABELLED) as cache:
        await until(lambda: sim.requests["tsoperator", "watch", "configmaps"] == 2)
    sim.store.merge(kinds.CONFIGMAP, *A, {"metadata": {"labels": change}})
    cache.written(CONFIGMAP, sim.store.get(kinds.CONFIGMAP, *A))
    assert cache.get(CONFIGMAP, A) == sim.store.get(kinds.CONFIGMAP, *A)
    assert (found(cache, "x"), found(cache, "y")) == (([], ["a"]) if change.get("team") else (["a"], []))
