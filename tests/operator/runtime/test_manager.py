import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial

import pytest
from aiohttp import web
from clustersim import objects as kinds
from clustersim.sim import ClusterSim
from prometheus_client import CollectorRegistry
from tsoperator.api.objects import CONFIGMAP, SERVICE, Key, Object, Resource, key_of, labels
from tsoperator.kube.client import KubeClient
from tsoperator.kube.watch import Selection
from tsoperator.runtime import manager as module
from tsoperator.runtime.cache import Cache, Source
from tsoperator.runtime.controller import ControllerMetrics
from tsoperator.runtime.leader import LeaderElector, LeadershipLost, Timing
from tsoperator.runtime.manager import Manager, Mapper
from tsoperator.runtime.result import DONE, Result

from tests.support.cluster import kube_client, running, serving, until

LEASE = Key("tailscale", "operator")
TIMING = Timing(duration=1.0, renew_deadline=0.6, retry_period=0.05)


def by_name(obj: Object) -> Iterable[Key]:
    return (key_of(obj),)


def by_team(obj: Object) -> Iterable[Key]:
    return (Key("", labels(obj)["team"]),)


class Noting:
    """A reconciler that notes its keys, and calls *look* before each."""

    def __init__(
        self, mapper: Mapper = by_name, resource: Resource = CONFIGMAP, look: Callable[[], None] = lambda: None
    ) -> None:
        self.name = str(resource)
        self.keys: list[Key] = []
        self._watches = {resource: mapper}
        self._look = look

    @property
    def watches(self) -> Mapping[Resource, Mapper]:
        return self._watches

    async def reconcile(self, key: Key) -> Result:
        self._look()
        self.keys.append(key)
        return DONE

    @property
    def names(self) -> set[str]:
        return {key.name for key in self.keys}


class Meeting(Noting):
    """A reconciler that ends only when two of its keys are being reconciled."""

    def __init__(self) -> None:
        super().__init__()
        self._two = asyncio.Barrier(2)

    async def reconcile(self, key: Key) -> Result:
        await self._two.wait()
        return await super().reconcile(key)


def new_cache() -> Cache:
    return Cache([Source(Selection(CONFIGMAP, "default")), Source(Selection(SERVICE, "default"))])


def new_manager(
    *reconcilers: Noting, cache: Cache | None = None, coalesce: Mapping[str, float] | None = None
) -> Manager:
    return Manager(cache or new_cache(), reconcilers, ControllerMetrics(CollectorRegistry()), coalesce=coalesce)


def new_elector(client: KubeClient, identity: str) -> LeaderElector:
    return LeaderElector(client, LEASE, identity, TIMING)


@asynccontextmanager
async def managing(client: KubeClient, *reconcilers: Noting, cache: Cache | None = None) -> AsyncIterator[None]:
    async with running(new_manager(*reconcilers, cache=cache).run(client, None)):
        yield


def create(sim: ClusterSim, name: str, team: str = "x") -> None:
    metadata = {"name": name, "namespace": "default", "labels": {"team": team}}
    sim.store.create(kinds.CONFIGMAP, {"metadata": metadata, "data": {}})


def holder(sim: ClusterSim) -> str:
    lease = sim.store.find(kinds.LEASE, *LEASE)
    return lease["spec"]["holderIdentity"] if lease else ""


async def test_what_there_is_and_what_comes_is_reconciled(sim: ClusterSim, client: KubeClient) -> None:
    create(sim, "a")
    reconciler = Noting()
    async with managing(client, reconciler):
        await until(lambda: reconciler.keys == [Key("default", "a")])
        create(sim, "b")
        await until(lambda: reconciler.keys[1:] == [Key("default", "b")])
        sim.store.delete(kinds.CONFIGMAP, "default", "a")
        await until(lambda: reconciler.keys[2:] == [Key("default", "a")])


async def test_a_change_concerns_whom_the_old_and_the_new_object_concern(sim: ClusterSim, client: KubeClient) -> None:
    create(sim, "a", "x")
    reconciler = Noting(by_team)
    async with managing(client, reconciler):
        await until(lambda: reconciler.keys)
        sim.store.merge(kinds.CONFIGMAP, "default", "a", {"metadata": {"labels": {"team": "y"}}})
        await until(lambda: len(reconciler.keys) == 3)
    assert reconciler.keys == [Key("", "x"), Key("", "x"), Key("", "y")]


async def test_a_reconciler_hears_of_its_kinds_only(sim: ClusterSim, client: KubeClient) -> None:
    create(sim, "a")
    configmaps, services = Noting(), Noting(resource=SERVICE)
    async with managing(client, configmaps, services):
        await until(lambda: configmaps.keys and services.keys)
    assert (configmaps.names, services.names) == ({"a"}, {"kubernetes"})


async def test_nothing_is_reconciled_before_every_kind_is_known() -> None:
    cache = new_cache()
    unsynced: list[list[str]] = []
    reconciler = Noting(look=lambda: unsynced.append(cache.unsynced()))
    item = {"metadata": {"name": "a", "namespace": "default", "uid": "1", "resourceVersion": "1"}}

    async def handler(request: web.Request) -> web.Response:
        if request.path.endswith("services"):  # gives the reconciler the time to be wrong
            with suppress(TimeoutError):
                await until(lambda: reconciler.keys, 0.2)
        return web.json_response({"metadata": {"resourceVersion": "1"}, "items": [item]})

    async with serving(handler) as url, kube_client(url) as client, managing(client, reconciler, cache=cache):
        await until(lambda: reconciler.keys)
    assert unsynced[0] == []


async def test_keys_are_reconciled_several_at_once(sim: ClusterSim, client: KubeClient) -> None:
    for name in ("a", "b", "c", "d"):
        create(sim, name)
    reconciler = Meeting()
    async with managing(client, reconciler):
        await until(lambda: reconciler.names == {"a", "b", "c", "d"})


async def test_a_burst_can_be_one_reconcile(sim: ClusterSim, client: KubeClient) -> None:
    cache, reconciler = new_cache(), Noting(by_team)
    manager = new_manager(reconciler, cache=cache, coalesce={reconciler.name: 0.5})
    async with running(manager.run(client, None)):
        for count in range(1, 9):
            create(sim, f"a{count}", "x")
            await until(partial(holds, cache, count))
        await until(lambda: reconciler.keys)
    assert len(reconciler.keys) == 1


def holds(cache: Cache, count: int) -> bool:
    return len(cache.all(CONFIGMAP)) == count


async def test_everything_is_looked_at_again_after_a_while(
    sim: ClusterSim, client: KubeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RESYNC", 0.05)
    create(sim, "a")
    create(sim, "b")
    reconciler = Noting()
    async with managing(client, reconciler):
        await until(lambda: min(reconciler.keys.count(Key("default", name)) for name in ("a", "b")) >= 3)


async def test_what_a_change_would_concern_can_be_looked_at_again(sim: ClusterSim, client: KubeClient) -> None:
    create(sim, "a", "x")
    cache, configmaps, services = new_cache(), Noting(by_team), Noting(resource=SERVICE)
    manager = new_manager(configmaps, services, cache=cache)
    async with running(manager.run(client, None)):
        await until(lambda: configmaps.keys and services.keys)
        manager.look_again(cache.all(CONFIGMAP)[0])
        await until(lambda: len(configmaps.keys) == 2)
    assert (configmaps.keys[1], len(services.keys)) == (Key("", "x"), 1)


async def test_what_runs_beside_runs_while_this_process_leads(sim: ClusterSim, client: KubeClient) -> None:
    events: list[str] = []

    async def program() -> None:
        events.append(f"started under {holder(sim)}")
        try:
            await asyncio.Event().wait()
        finally:
            events.append("stopped")

    metrics = ControllerMetrics(CollectorRegistry())
    manager = Manager(new_cache(), [Noting()], metrics, beside=[program])
    async with running(manager.run(client, new_elector(client, "first"))):
        await until(lambda: events == ["started under first"])
    assert events[1:] == ["stopped"]


async def test_a_standby_takes_over_and_looks_at_everything(sim: ClusterSim, client: KubeClient) -> None:
    create(sim, "a")
    first, second = Noting(), Noting()
    async with AsyncExitStack() as standby:
        async with running(new_manager(first).run(client, new_elector(client, "first"))):
            await until(lambda: first.keys)
            await standby.enter_async_context(running(new_manager(second).run(client, new_elector(client, "second"))))
            create(sim, "b")
            await until(lambda: first.names == {"a", "b"})
            assert not second.keys
        await until(lambda: second.names == {"a", "b"})
        assert holder(sim) == "second"


async def test_what_runs_beside_the_reconcilers_runs_while_this_process_leads(
    sim: ClusterSim, client: KubeClient
) -> None:
    seen: list[str] = []

    async def beside() -> None:
        seen.append(holder(sim))
        try:
            await asyncio.Event().wait()
        finally:
            seen.append("stopped")

    manager = Manager(new_cache(), [], ControllerMetrics(CollectorRegistry()), beside=[beside])
    with pytest.RaisesGroup(LeadershipLost, flatten_subgroups=True):
        async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
            tasks.create_task(manager.run(client, new_elector(client, "first")))
            await until(lambda: seen == ["first"])
            sim.store.merge(kinds.LEASE, *LEASE, {"spec": {"holderIdentity": "second"}})
    assert seen == ["first", "stopped"]


async def test_who_leads_says_so_in_its_metrics(sim: ClusterSim, client: KubeClient) -> None:
    registry = CollectorRegistry()
    seen: list[float | None] = []
    reconciler = Noting(look=lambda: seen.append(registry.get_sample_value("tsoperator_leading")))
    manager = Manager(new_cache(), [reconciler], ControllerMetrics(registry))
    create(sim, "a")
    assert registry.get_sample_value("tsoperator_leading") == 0
    async with running(manager.run(client, new_elector(client, "first"))):
        await until(lambda: seen)
    assert seen == [1]
    assert registry.get_sample_value("tsoperator_leading") == 0


async def test_a_leader_whose_lease_is_taken_stops(sim: ClusterSim, client: KubeClient) -> None:
    create(sim, "a")
    reconciler = Noting()
    with pytest.RaisesGroup(LeadershipLost, flatten_subgroups=True):
        async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
            tasks.create_task(new_manager(reconciler).run(client, new_elector(client, "first")))
            await until(lambda: reconciler.keys)
            sim.store.merge(kinds.LEASE, *LEASE, {"spec": {"holderIdentity": "second"}})


async def test_a_manager_that_is_stopped_leaves_nothing_running(sim: ClusterSim, client: KubeClient) -> None:
    task = asyncio.create_task(new_manager(Noting()).run(client, new_elector(client, "first")))
    await until(lambda: holder(sim) == "first")
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    assert holder(sim) == ""
    await until(lambda: not sim.faults.watches)
