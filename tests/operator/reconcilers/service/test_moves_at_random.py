"""Any sequence of moves, edits and deletions, with restarts, ends as the user wishes and leaves nothing behind."""

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest
from tsoperator.api.objects import ENDPOINTSLICE, SERVICE, Object, Resource, key_of
from tsoperator.kube.errors import KubeError

from tests.operator.reconcilers.service.played import READY, PlayedGroup, grouped, running_services
from tests.support.cluster import running
from tests.support.operator import NAMESPACE, World

pytestmark = pytest.mark.thorough

DB = grouped()
PLACES = "tailscale.com/svc-type=egress"
Step = Callable[[World, random.Random], Awaitable[None]]


def names(group: str | None) -> Step:
    """Let the Service name *group*."""
    return lambda world, _: world.annotate(DB, {"tailscale.com/proxy-group": group})


def lose(resource: Resource) -> Step:
    """Delete all of one kind that was made for the Service at groups."""

    async def step(world: World, _: random.Random) -> None:
        await world.delete(*(await world.api.list(resource, NAMESPACE, PLACES)).items)

    return step


async def other_ports(world: World, rng: random.Random) -> None:
    """Give the Service other ports."""
    numbers = rng.sample(range(1, 9), rng.randint(1, 3))
    await world.change(DB, {"spec": {"ports": [{"name": f"p{number}", "port": number} for number in numbers]}})


STEPS: list[Step] = [
    *map(names, ("egress", "other", "missing", None)),
    *map(lose, (SERVICE, ENDPOINTSLICE)),
    other_ports,
    lambda world, rng: world.annotate(DB, {"tailscale.com/tailnet-fqdn": f"{rng.choice('ab')}.tail1234.ts.net"}),
    lambda world, _: world.annotate(DB, {"tailscale.com/tailnet-fqdn": None}),
    lambda world, _: world.change(DB, {"spec": {"externalName": "placeholder"}}),
    lambda world, _: world.delete(DB),
    lambda world, _: world.apply(DB),
]


async def happen(world: World, rng: random.Random) -> None:
    """Let eight things happen, at any pace; some are refused."""
    for _ in range(8):
        try:
            await rng.choice(STEPS)(world, rng)
        except KubeError:
            await asyncio.sleep(0)
        await asyncio.sleep(rng.choice([0, 0.02, 0.1, 0.4]))  # also in the middle of a move


async def there(world: World) -> bool:
    """Tell whether the Service is there and stays."""
    live = await world.find(SERVICE, "db", "default")
    if live is None:
        await world.apply(DB)
    return live is not None and "deletionTimestamp" not in live["metadata"]


async def whole(world: World) -> list[object]:
    """Return how many places the Service has at each group and what it says, or that it has a proxy of its own."""
    places = (await world.api.list(SERVICE, NAMESPACE, PLACES)).items
    at = [each["metadata"]["labels"]["tailscale.com/proxy-group"] for each in places]
    return [at, await world.reason(DB, READY), await world.reason(DB), len(await world.device_names())]


WISHES: dict[str | None, list[object]] = {
    "egress": [["egress"], "ReadyToRouteTraffic", "", 0],
    "other": [["other"], "ReadyToRouteTraffic", "", 0],
    None: [[], "", "ProxyCreated", 1],
}


@pytest.mark.parametrize("seed", range(6))
async def test_any_sequence_ends_as_the_user_wishes_last_and_leaves_nothing(cluster: World, seed: int) -> None:
    rng, groups = random.Random(seed), [PlayedGroup(cluster, name, 1) for name in ("egress", "other")]
    for group in groups:
        await group.start()
    async with running(*(group.play() for group in groups)):
        for _ in range(3):
            async with running_services(cluster, move_grace=rng.choice([0.0, 0.05, 0.2])):
                await happen(cluster, rng)
        async with running_services(cluster):
            await cluster.eventually(lambda: there(cluster))
            wish = rng.choice([*WISHES])
            annotations = {"tailscale.com/proxy-group": wish, "tailscale.com/tailnet-fqdn": "db.tail1234.ts.net"}
            await cluster.annotate(DB, annotations)
            await cluster.becomes(lambda: whole(cluster), WISHES[wish])
            assert not await cluster.writes_when_left_alone()
            await cluster.delete(DB)
            await cluster.eventually(lambda: cluster.gone(DB))
            assert await left(cluster) == []


async def left(world: World) -> list[object]:
    """Return what is left of the Service."""
    slices: list[Object] = (await world.api.list(ENDPOINTSLICE, NAMESPACE, PLACES)).items
    return [*await world.leftovers(DB), *map(key_of, slices), *await world.device_names()]
