"""What the reconcilers of proxies share; here: what becomes of a proxy whose parent is gone."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import aiohttp
import pytest
from pydantic import SecretStr
from tsoperator.api.objects import POD, SECRET, SERVICE, STATEFULSET, Key, Object, Resource, is_deleting, key_of
from tsoperator.app import sources
from tsoperator.authkeys import AuthKeys
from tsoperator.desired.children import Owner
from tsoperator.proxies import ORPHANED_FOR, Proxies
from tsoperator.runtime.apply import Applier
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.events import EventRecorder
from tsoperator.runtime.result import DONE, Result
from tsoperator.tsclient.client import TailnetClient
from tsoperator.tsclient.errors import ControlError
from tsoperator.tsclient.oauth import Credentials

from tests.support.cluster import running
from tests.support.manifests import DOMAIN, egress
from tests.support.objects import OPERATOR_NAMESPACE, settings
from tests.support.operator import World, new_world, running_operator

OWNER = Owner("svc", Key("default", "db"))
KINDS = (SERVICE, STATEFULSET, SECRET, POD)


@dataclass
class Left:
    """The proxy of a Service that is gone, and what sees to it, on a clock of the test's."""

    world: World
    cache: Cache
    proxies: Proxies = field(init=False)
    now: float = 1000.0

    async def clear_away(self, after: float = 0) -> Result:
        """See to it so many seconds later, once the cache has caught up."""
        self.now += after
        await self.world.eventually(self._caught_up)
        return await self.proxies.clear_away(OWNER)

    async def _caught_up(self) -> bool:
        return [self._seen(kind) for kind in KINDS] == [await self._live(kind) for kind in KINDS]

    def _seen(self, kind: Resource) -> set[tuple[Key, bool]]:
        return {_state(obj) for obj in self.cache.all(kind) if key_of(obj).namespace == OPERATOR_NAMESPACE}

    async def _live(self, kind: Resource) -> set[tuple[Key, bool]]:
        return {_state(obj) for obj in (await self.world.api.list(kind, OPERATOR_NAMESPACE)).items}

    async def left(self) -> list[str]:
        """Return the children and devices that there are."""
        return [*await self.world.leftovers(egress()), *await self.world.device_names()]


def _state(obj: Object) -> tuple[Key, bool]:
    return key_of(obj), is_deleting(obj)


@pytest.fixture
async def left() -> AsyncIterator[Left]:
    async with new_world() as world:
        async with running_operator(world):
            await world.apply(egress())
            await world.becomes(world.device_names, [f"default-db.{DOMAIN}"])
            await world.settled()
        await world.change(egress(), {"metadata": {"finalizers": None}})
        await world.delete(egress())
        credentials = Credentials(world.control.client_id, SecretStr(world.control.client_secret))
        cache = Cache(sources(OPERATOR_NAMESPACE))
        async with aiohttp.ClientSession() as session, running(cache.follow(world.api)):
            tailnet = TailnetClient(session, world.control_url, lambda: credentials)
            applier = Applier(world.api, cache, EventRecorder(world.api), tailnet.delete_device)
            made = Left(world, cache)
            made.proxies = Proxies(cache, applier, AuthKeys(world.api, tailnet), settings(), lambda: made.now)
            await cache.synced()
            yield made


async def test_a_proxy_outlives_its_parent_for_an_hour(left: Left) -> None:
    before = await left.left()
    assert len(before) == 5
    assert await left.clear_away() == Result(ORPHANED_FOR)
    assert await left.clear_away(ORPHANED_FOR - 1) == Result(1)
    assert await left.left() == before


async def test_then_it_goes_step_by_step_with_its_device(left: Left) -> None:
    await left.clear_away()
    assert (await left.clear_away(ORPHANED_FOR)).requeue_after
    await left.world.eventually(lambda: gone(left, STATEFULSET))
    assert await left.clear_away() == DONE
    assert (await left.left(), await left.clear_away()) == ([], DONE)


async def gone(left: Left, kind: Resource) -> bool:
    """Tell whether no child of one kind is left."""
    return await left.world.children(kind, egress()) == []


async def test_a_parent_that_was_back_meanwhile_has_its_hour_again(left: Left) -> None:
    await left.clear_away()
    left.proxies.keep(OWNER)
    assert await left.clear_away(ORPHANED_FOR) == Result(ORPHANED_FOR)


async def test_a_device_that_cannot_be_deleted_keeps_its_secret(left: Left) -> None:
    await left.clear_away()
    await left.clear_away(ORPHANED_FOR)
    await left.world.eventually(lambda: gone(left, STATEFULSET))
    left.world.control.fail(403, count=100, path="/api/v2/device/")
    with pytest.raises(ControlError):
        await left.clear_away()
    assert not await gone(left, SECRET)


async def test_what_is_only_labelled_as_a_proxys_is_left_alone(left: Left) -> None:
    (secret,) = await left.world.children(SECRET, egress())
    theirs = {"namespace": OPERATOR_NAMESPACE, "name": "password", "labels": secret["metadata"]["labels"]}
    await left.world.apply({"apiVersion": "v1", "kind": "Secret", "metadata": theirs})
    for after in (0, ORPHANED_FOR, 1, 1):
        await left.clear_away(after)
    assert [key_of(obj).name for obj in await left.world.children(SECRET, egress())] == ["password"]
