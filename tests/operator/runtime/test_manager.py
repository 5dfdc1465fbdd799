import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

import pytest
from aiohttp import web
from clustersim import objects as kinds
from clustersim.sim import ClusterSim
from prometheus_client import CollectorRegistry
from tsoperator.api.objects import CONFIGMAP, SERVICE, Key, Object, Resource, Signal, key_of, labels
from tsoperator.kube.client import KubeClient
from tsoperator.kube.watch import Selection
from tsoperator.runtime.cache import Cache, Listener, Source
from tsoperator.runtime.controller import ControllerMetrics, Policy
from tsoperator.runtime.gathering import AT_ONCE, Gathering
from tsoperator.runtime.holder import Process
from tsoperator.runtime.leader import LeaderElector, LeadershipLost, Timing
from tsoperator.runtime.manager import Comparison, Manager, Mapper, ResyncTimes, Watches
from tsoperator.runtime.result import Result

from tests.support.cluster import kube_client, running, serving, until

LEASE = Key("tailscale", "operator")
DEVICE = Signal("Device")
TIMING = Timing(duration=1.0, renew_deadline=0.6, retry_period=0.05, gone=1)


def by_name(obj: Object) -> Iterable[Key]:
    return (key_of(obj),)


def noting(mapped: list[Key]) -> Mapper:
    def mapper(obj: Object) -> Iterable[Key]:
        mapped.append(key_of(obj))
        return by_name(obj)

    return mapper


def by_team(obj: Object) -> Iterable[Key]:
    return (Key("", labels(obj)["team"]),)


class Noting:
    """A reconciler that records its keys, and calls *look* before each reconcile."""

    def __init__(
        self,
        mapper: Mapper = by_name,
        watched: Sequence[Resource | Signal] = (CONFIGMAP,),
        look: Callable[[], None] = lambda: None,
        gathering: Gathering = AT_ONCE,
    ) -> None:
        self.name = str(watched[0])
        self.gathering = gathering
        self.keys: list[Key] = []
        self.watches: Watches = dict.fromkeys(watched, mapper)
        self._look = look

    async def reconcile(self, key: Key) -> Result:
        self._look()
        self.keys.append(key)
        return Result()

    @property
    def names(self) -> set[str]:
        return {key.name for key in self.keys}


class Hanging(Noting):
    async def reconcile(self, key: Key) -> Result:
        await asyncio.Event().wait()
        return await super().reconcile(key)


class Table:
    """A feed of devices, which stand for things outside the cache. `put` adds a device, and tells the listeners."""

    def __init__(self, *names: str) -> None:
        self.names = {*names}
        self._listeners: list[Listener] = []

    def put(self, name: str) -> None:
        self.names.add(name)
        for listener in self._listeners:
            listener(None, {"metadata": {"name": name}})

    def listen(self, signal: Signal, listener: Listener) -> None:
        assert signal == DEVICE
        self._listeners.append(listener)

    def all(self, signal: Signal) -> list[Object]:
        assert signal == DEVICE
        return [{"metadata": {"name": name}} for name in self.names]


def new_manager(
    *reconcilers: Noting,
    cache: Cache | None = None,
    registry: CollectorRegistry | None = None,
    table: Table | None = None,
    times: ResyncTimes | None = None,
) -> Manager:
    metrics = ControllerMetrics(registry or CollectorRegistry())
    feeds = {DEVICE: table} if table else {}
    return Manager(cache or new_cache(), reconcilers, metrics, Policy(workers=1), feeds, times)


def new_cache() -> Cache:
    return Cache([Source(Selection(CONFIGMAP, "default")), Source(Selection(SERVICE, "default"))])


def new_elector(client: KubeClient, identity: str) -> LeaderElector:
    return LeaderElector(client, LEASE, Process(identity), TIMING)


@asynccontextmanager
async def managing(client: KubeClient, *reconcilers: Noting, **parts: Any) -> AsyncIterator[None]:
    async with running(new_manager(*reconcilers, **parts).run(client, None)):
        yield


def create(sim: ClusterSim, name: str, team: str = "x") -> None:
    metadata = {"name": name, "namespace": "default", "labels": {"team": team}}
    sim.store.create(kinds.CONFIGMAP, {"metadata": metadata, "data": {}})


def holder(sim: ClusterSim) -> str:
    lease = sim.store.find(kinds.LEASE, *LEASE)
    return lease["spec"]["holderIdentity"] if lease else ""


async def test_a_mapper_that_compares_objects_gets_the_old_and_the_new_object_at_each_change(
    sim: ClusterSim, client: KubeClient
) -> None:
    def team(obj: Object | None) -> str:
        return labels(obj)["team"] if obj else "none"

    def teams(old: Object | None, new: Object | None) -> Iterable[Key]:
        return (Key(team(old), team(new)),)

    create(sim, "a")
    reconciler, late = Noting(Comparison(teams)), Noting(Comparison(teams, at_start=False))
    late.name = "late"
    async with managing(client, reconciler, late):
        await until(lambda: reconciler.keys == [Key("none", "x")])
        await client.patch(CONFIGMAP, Key("default", "a"), {"metadata": {"labels": {"team": "y"}}})
        await until(lambda: reconciler.keys[1:] == [Key("x", "y")])
        await client.delete(CONFIGMAP, Key("default", "a"))
        await until(lambda: reconciler.keys[2:] == [Key("y", "none")])
        await until(lambda: late.keys == reconciler.keys[1:])


def test_two_reconcilers_with_the_same_name_are_an_error_because_they_would_share_a_queue() -> None:
    with pytest.raises(ValueError, match="two reconcilers are called 'configmaps'"):
        new_manager(Noting(by_name), Noting(by_team))


async def test_existing_new_and_deleted_objects_are_reconciled_by_the_reconciler_of_their_kind(
    sim: ClusterSim, client: KubeClient
) -> None:
    create(sim, "a")
    reconciler, services = Noting(), Noting(watched=[SERVICE])
    async with managing(client, reconciler, services):
        await until(lambda: reconciler.keys == [Key("default", "a")])
        create(sim, "b")
        await until(lambda: reconciler.keys[1:] == [Key("default", "b")])
        sim.store.delete(kinds.CONFIGMAP, "default", "a")
        await until(lambda: reconciler.keys[2:] == [Key("default", "a")])
    assert services.names == {"kubernetes"}


async def test_a_change_queues_the_keys_that_the_mapper_returns_for_the_old_and_for_the_new_object(
    sim: ClusterSim, client: KubeClient
) -> None:
    create(sim, "a", "x")
    reconciler = Noting(by_team)
    async with managing(client, reconciler):
        await until(lambda: reconciler.keys)
        sim.store.merge(kinds.CONFIGMAP, "default", "a", {"metadata": {"labels": {"team": "y"}}})
        await until(lambda: len(reconciler.keys) == 3)
    assert reconciler.keys == [Key("", "x"), Key("", "x"), Key("", "y")]


async def test_no_reconcile_begins_before_the_objects_of_every_kind_have_been_listed() -> None:
    cache = new_cache()
    unsynced: list[list[str]] = []
    reconciler = Noting(look=lambda: unsynced.append(cache.unsynced_selections()))
    item = {"metadata": {"name": "a", "namespace": "default", "uid": "1", "resourceVersion": "1"}}

    async def handler(request: web.Request) -> web.Response:
        if request.path.endswith("services"):  # a reconciler that doesn't wait has the time to begin now
            with suppress(TimeoutError):
                await until(lambda: reconciler.keys, 0.2)
        return web.json_response({"metadata": {"resourceVersion": "1"}, "items": [item]})

    async with serving(handler) as url, kube_client(url) as client, managing(client, reconciler, cache=cache):
        await until(lambda: reconciler.keys)
    assert unsynced[0] == []


async def test_a_kind_that_gathers_changes_reconciles_a_key_once_after_a_burst(
    sim: ClusterSim, client: KubeClient
) -> None:
    cache, reconciler = new_cache(), Noting(by_team, gathering=Gathering(0.5))
    async with managing(client, reconciler, cache=cache):
        for name in "abcdefgh":
            create(sim, name)
            await until(lambda name=name: name in key_names(cache))  # type: ignore[misc]
        await until(lambda: reconciler.keys)
    assert len(reconciler.keys) == 1


def key_names(cache: Cache) -> set[str]:
    return {key_of(obj).name for obj in cache.all(CONFIGMAP)}


async def test_a_resync_enqueues_the_keys_of_all_objects_again(sim: ClusterSim, client: KubeClient) -> None:
    create(sim, "a")
    create(sim, "b")
    reconciler = Noting(watched=[CONFIGMAP, SERVICE, DEVICE])
    names = ("a", "b", "kubernetes", "d")
    async with managing(client, reconciler, table=Table("d"), times=ResyncTimes(resync=0.05)):
        await until(lambda: min([key.name for key in reconciler.keys].count(name) for name in names) >= 3)


class Looking(LeaderElector):
    """An elector that records whether it has read the Lease."""

    def __init__(self, client: KubeClient) -> None:
        super().__init__(client, LEASE, Process("a"), TIMING)
        self.looked = False

    async def look(self) -> None:
        await super().look()
        self.looked = True


async def test_a_process_reads_the_lease_before_it_is_ready_to_lead(sim: ClusterSim, client: KubeClient) -> None:
    elector = Looking(client)

    async def before() -> None:
        assert elector.looked
        assert holder(sim) == ""

    async with running(new_manager(Noting()).run(client, elector, before)):
        await until(lambda: holder(sim) == "a")


async def test_the_keys_of_all_objects_are_enqueued_before_the_first_reconcile(client: KubeClient) -> None:
    mapped: list[Key] = []
    seen: list[int] = []
    reconciler = Noting(noting(mapped), [DEVICE], look=lambda: seen.append(len(mapped)))
    async with managing(client, reconciler, table=Table(*map(str, range(100))), times=ResyncTimes(time_slice=0)):
        await until(lambda: seen)
    assert seen[0] == 100


async def test_a_change_that_happens_while_all_keys_are_enqueued_is_not_lost(client: KubeClient) -> None:
    table, mapped, started = Table(*map(str, range(100))), list[Key](), asyncio.Event()

    async def change() -> None:
        await started.wait()
        for name in map(str, range(100, 110)):
            assert len(mapped) < 50  # other tasks run before everything is enqueued
            table.put(name)
            await asyncio.sleep(0)

    def mapper(obj: Object) -> Iterable[Key]:
        started.set()
        return noting(mapped)(obj)

    reconciler = Noting(mapper, [DEVICE])
    async with managing(client, reconciler, table=table, times=ResyncTimes(time_slice=0)), running(change()):
        await until(lambda: len(table.names) == 110 and reconciler.names == table.names)


async def test_a_process_that_no_longer_leads_empties_its_queues_and_adds_no_keys_to_them(client: KubeClient) -> None:
    registry, table, reconciler = CollectorRegistry(), Table("a", "b"), Hanging(watched=[DEVICE])

    def depth() -> float | None:
        return registry.get_sample_value("tsoperator_queue_depth", {"controller": reconciler.name})

    async with managing(client, reconciler, table=table, registry=registry):
        await until(lambda: depth() == 1)  # the other key is with the only worker
    assert depth() == 0
    table.put("c")
    assert depth() == 0


async def test_a_new_leader_reconciles_all_existing_objects(sim: ClusterSim, client: KubeClient) -> None:
    create(sim, "a")
    create(sim, "b")
    cache, mapped = new_cache(), list[Key]()
    first, second = Noting(), Noting(noting(mapped))
    async with AsyncExitStack() as standby:
        async with running(new_manager(first).run(client, new_elector(client, "first"))):
            await until(lambda: first.keys)
            manager = new_manager(second, cache=cache)
            await standby.enter_async_context(running(manager.run(client, new_elector(client, "second"))))
            await until(lambda: key_names(cache) == {"a", "b"})
            sim.store.delete(kinds.CONFIGMAP, "default", "a")
            create(sim, "c")
            await until(lambda: first.names == {"a", "b", "c"} and key_names(cache) == {"b", "c"})
            assert not mapped
        await until(lambda: second.names >= {"b", "c"})
        assert (second.names, holder(sim)) == ({"b", "c"}, "second")
    assert holder(sim) == ""
    await until(lambda: not sim.faults.watches)


def leading(registry: CollectorRegistry) -> float | None:
    return registry.get_sample_value("tsoperator_leading")


async def test_the_programs_beside_the_reconcilers_run_only_while_the_process_leads(
    sim: ClusterSim, client: KubeClient
) -> None:
    registry, seen = CollectorRegistry(), list[str]()

    async def beside() -> None:
        seen.append(f"{holder(sim)} {leading(registry)}")
        try:
            await asyncio.Event().wait()
        finally:
            seen.append("stopped")

    manager = new_manager(registry=registry)
    with pytest.RaisesGroup(LeadershipLost, flatten_subgroups=True):
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(manager.run(client, new_elector(client, "first"), beside=[beside]))
            assert leading(registry) == 0
            await until(lambda: seen == ["first 1.0"])
            sim.store.merge(kinds.LEASE, *LEASE, {"spec": {"holderIdentity": "second"}})
    assert (seen[1:], leading(registry)) == (["stopped"], 0)
