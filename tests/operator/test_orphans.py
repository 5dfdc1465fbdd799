"""The removal of a proxy whose parent is gone."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from clustersim.faults import Ban
from clustersim.objects import RESOURCES
from tsoperator.api.objects import POD, SECRET, SERVICE, STATEFULSET, Object, Resource, is_deleting, key_of, resource_of
from tsoperator.proxy.orphan import ORPHANED_FOR
from tsoperator.reconcilers.connector.reconciler import connectors
from tsoperator.reconcilers.ingress.reconciler import ingresses
from tsoperator.reconcilers.peerrelay.addresses import HostAddresses
from tsoperator.reconcilers.peerrelay.reconciler import peerrelays
from tsoperator.reconcilers.proxies import Proxies
from tsoperator.reconcilers.service.reconciler import services
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.kind import Kind, KindReconciler
from tsoperator.runtime.manager import Reconciler
from tsoperator.runtime.result import Pending, Result
from tsoperator.sources import sources
from tsoperator.tsclient.errors import ControlError

from tests.support.cluster import running, until
from tests.support.hosting import no_hosting
from tests.support.manifests import backend, connector, egress, ingress, peer_relay
from tests.support.objects import OPERATOR_NAMESPACE, settings
from tests.support.operator import World, new_world, running_operator
from tests.support.tailnets import applier, running_tailnets, tailnet_client

KINDS = (SERVICE, STATEFULSET, SECRET, POD)
NAMESPACED = {"Service": egress(), "Ingress": ingress()}
PARENTS = {**NAMESPACED, "Connector": connector()}
ALL = {**PARENTS, "PeerRelay": peer_relay()}


@dataclass
class Left:
    """The proxy of a parent that is gone, and the reconciler for it, with a clock that the test sets."""

    world: World
    cache: Cache
    parent: Object
    reconciler: Reconciler = field(init=False)
    now: float = 1000.0

    async def reconcile(self, after: float = 0) -> Result:
        """Put the clock forward by *after* seconds, and reconcile the parent once the cache has caught up."""
        self.now += after
        await self.world.eventually(self._caught_up)
        while True:
            try:
                return await self.reconciler.reconcile(key_of(self.parent))
            except Pending as pending:
                await pending.until

    async def _caught_up(self) -> bool:
        seen = self.cache.get(resource_of(self.parent), key_of(self.parent)) is None
        return seen == await self.world.gone(self.parent) and all([await self._same(kind) for kind in KINDS])

    async def _same(self, kind: Resource) -> bool:
        live = (await self.world.api.list(kind, OPERATOR_NAMESPACE)).items
        seen = [obj for obj in self.cache.all(kind) if key_of(obj).namespace == OPERATOR_NAMESPACE]
        live_keys, seen_keys = ({(key_of(obj), is_deleting(obj)) for obj in each} for each in (live, seen))
        return live_keys == seen_keys

    async def left(self) -> list[str]:
        return [*await self.world.leftovers(self.parent), *await self.world.device_names()]

    async def gone(self, kind: Resource) -> bool:
        return await self.world.children(kind, self.parent) == []

    async def vanish(self) -> None:
        """Delete the parent without waiting for anybody's finalizer."""
        await self.world.change(self.parent, {"metadata": {"finalizers": None}})
        await self.world.delete(self.parent)


@asynccontextmanager
async def leaving(parent: Object, *watched: str) -> AsyncIterator[Left]:
    """Create a proxy for *parent*, delete the parent, and yield a `Left`.

    The operator watches the namespaces *watched*, or all.
    """
    async with new_world() as world:
        async with running_operator(world):
            await world.apply(backend(), parent)
            await world.eventually(world.device_names)
            await world.settled()
        cache = Cache(sources(OPERATOR_NAMESPACE, watched))
        made = Left(world, cache, parent)
        await made.vanish()
        async with (
            tailnet_client(world.control, world.control_url) as tailnet,
            running_tailnets(tailnet, world.api, cache, settings()) as tailnets,
            running(cache.follow(world.api)),
        ):
            acting = applier(world.api, cache, tailnets)
            proxies = Proxies(cache, acting, tailnets, settings(), lambda: made.now)
            hosting = no_hosting(cache, settings())
            relays = peerrelays(proxies, HostAddresses(world.resolve))
            kinds: list[Kind[Any]] = [
                services(proxies, world.api, hosting),
                ingresses(proxies, hosting),
                connectors(proxies),
                relays,
            ]
            kind = next(each for each in kinds if str(each) == parent["kind"])
            made.reconciler = KindReconciler(kind, cache, acting)
            await cache.synced()
            yield made


each_parent = pytest.mark.parametrize("parent", PARENTS.values(), ids=PARENTS)
each_of_all = pytest.mark.parametrize("parent", ALL.values(), ids=ALL)


@each_of_all
@pytest.mark.parametrize("watched", [(), ("default", "team")], ids=["all", "watched"])
async def test_an_orphan_stays_for_an_hour_before_it_is_deleted_step_by_step_with_its_device(
    parent: Object, watched: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "tsoperator.reconcilers.proxies")
    async with leaving(parent, *watched) as left:
        before = await left.left()
        assert len(before) == (6 if parent == ALL["PeerRelay"] else 5)  # a relay has two Secrets
        assert [await left.reconcile(after) for after in (0, ORPHANED_FOR - 1)] == [Result(ORPHANED_FOR), Result(1)]
        assert await left.left() == before
        assert (await left.reconcile(1)).requeue_after
        await left.world.eventually(lambda: left.gone(STATEFULSET))
        assert await left.reconcile() == Result()
        assert [await left.left(), await left.reconcile(), await left.reconcile()] == [[], Result(), Result()]
    begun, ended = caplog.messages
    about = f"{parent['kind']} {key_of(parent)}: "
    assert begun == f"{about}gone for long, and its proxy was left behind: removing it"
    assert ended == f"{about}removed the proxy that it left behind"


@each_of_all
async def test_a_proxy_is_deleted_at_once_if_a_running_operator_sees_that_its_parent_vanishes(parent: Object) -> None:
    async with new_world() as world, running_operator(world):
        await world.apply(backend(), parent)
        await world.eventually(world.device_names)
        resource = next(each for each in RESOURCES if each.kind == parent["kind"])
        world.sim.store.disown(resource, *key_of(parent))
        await world.becomes(lambda: world.leftovers(parent), [])
        assert await world.device_names() == []


@each_of_all
async def test_an_orphan_whose_parent_was_back_briefly_stays_for_another_hour_and_is_logged_again(
    parent: Object, caplog: pytest.LogCaptureFixture
) -> None:
    async with leaving(parent) as left:
        for _ in range(2):
            assert await left.reconcile() == Result(ORPHANED_FOR)
            await left.reconcile(ORPHANED_FOR)
            await left.world.apply(left.parent)
            await left.reconcile()
            await left.vanish()
    assert len([line for line in caplog.messages if line.endswith("left behind: removing it")]) == 2


@each_parent
async def test_a_secret_stays_if_its_device_cannot_be_deleted_or_if_the_secret_only_has_the_labels_of_a_proxy(
    parent: Object,
) -> None:
    async with leaving(parent) as left:
        (secret,) = await left.world.children(SECRET, parent)
        theirs = {"namespace": OPERATOR_NAMESPACE, "name": "password", "labels": secret["metadata"]["labels"]}
        await left.world.apply({"apiVersion": "v1", "kind": "Secret", "metadata": theirs})
        await left.reconcile()
        await left.reconcile(ORPHANED_FOR)
        await left.world.eventually(lambda: left.gone(STATEFULSET))
        left.world.control.fail(403, count=100, path="/api/v2/device/")
        with pytest.raises(ControlError):
            await left.reconcile()
        assert len(await left.world.children(SECRET, parent)) == 2
        left.world.control.heal()
        await left.reconcile(1)
        assert [key_of(obj).name for obj in await left.world.children(SECRET, parent)] == ["password"]


@pytest.mark.parametrize("parent", NAMESPACED.values(), ids=NAMESPACED)
async def test_a_proxy_is_no_orphan_if_its_parent_can_be_in_a_namespace_that_is_not_watched(parent: Object) -> None:
    async with leaving(parent, "team") as left:
        before = await left.left()
        assert [await left.reconcile(after) for after in (0, ORPHANED_FOR, 1)] == [Result(ORPHANED_FOR)] * 3
        assert await left.left() == before


@each_parent
async def test_a_proxy_is_no_orphan_if_its_parent_could_have_come_back_unseen(parent: Object) -> None:
    async with leaving(parent, "default") as left:
        before = await left.left()
        assert await left.reconcile() == Result(ORPHANED_FOR)
        for verb in ("list", "watch"):
            left.world.sim.faults.forbid(Ban(resource_of(parent).plural, key_of(parent).namespace, verb))
        left.world.sim.faults.drop_watches()
        await until(left.cache.refused_selections)
        assert [await left.reconcile(after) for after in (ORPHANED_FOR, 1)] == [Result(ORPHANED_FOR)] * 2
        assert await left.left() == before
        left.world.sim.faults.clear()
        await until(lambda: not left.cache.refused_selections(), 30)
        assert await left.reconcile() == Result(
            ORPHANED_FOR
        )  # the hour begins when the operator notices that the parent is gone
