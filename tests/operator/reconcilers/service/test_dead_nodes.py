"""The Pods to which the Services of a ProxyGroup lead when nodes die, on a cluster with the whole operator."""

import asyncio

import pytest
from clustersim.nodes import MONITOR_GRACE
from clustersim.objects import NODE as SIM_NODE

from tests.support.groups import endpoints, ready_group, replicas
from tests.support.manifests import group_egress, proxy_group
from tests.support.operator import World

pytestmark = pytest.mark.simulated

FOO, DB = proxy_group("foo"), group_egress("db", "foo")
READY, AVAILABLE = "TailscaleEgressSvcReady", "ProxyGroupAvailable"


@pytest.fixture
async def spread(world: World) -> World:
    """A group with two Pods on two nodes, which serves a Service."""

    async def has_node() -> bool:
        return world.sim.store.find(SIM_NODE, "", "node1") is not None

    await world.eventually(has_node)
    world.sim.kubelet.add_node("node2")
    await world.apply(FOO, DB)
    await world.becomes(lambda: led_to(world), [0, 1])
    await ready_group(world, FOO)
    await world.becomes(lambda: world.reason(DB, READY), "ReadyToRouteTraffic")
    return world


async def led_to(world: World) -> list[int]:
    """Return the ordinals of the replicas to which the Service leads."""
    pods = {address: number for number, each in enumerate(await pod_addresses(world)) for address in each}
    slices = await endpoints(world, DB)
    return sorted(pods.get(address, -1) for found in slices.values() for address in found)


async def pod_addresses(world: World) -> list[list[str]]:
    """Return the addresses of each Pod of the group, in the order of the ordinals."""
    return [each.addresses for each in await replicas(world, FOO)]


async def test_when_a_node_dies_new_connections_go_to_the_other_pod_until_the_node_is_back(spread: World) -> None:
    spread.sim.kubelet.kill_node("node2")
    await asyncio.sleep(MONITOR_GRACE - 1)
    assert await led_to(spread) == [0, 1]
    await spread.becomes(lambda: led_to(spread), [0], timeout=3)
    await spread.becomes(lambda: spread.reason(DB, READY), "PartiallyReadyToRouteTraffic")
    await spread.becomes(lambda: message(spread), "1/2 ProxyGroup pods running")
    spread.sim.kubelet.revive_node("node2")
    await spread.becomes(lambda: led_to(spread), [0, 1], timeout=3)
    await spread.becomes(lambda: spread.reason(DB, READY), "ReadyToRouteTraffic")
    await spread.becomes(lambda: message(spread), "2/2 ProxyGroup pods running")
    assert not await spread.writes_when_left_alone()


async def test_when_all_nodes_seem_dead_the_service_still_leads_to_all_pods(spread: World) -> None:
    for name in ("node1", "node2"):
        spread.sim.kubelet.kill_node(name)
    await asyncio.sleep(2 * MONITOR_GRACE)
    assert await led_to(spread) == [0, 1]
    assert await message(spread) == "2/2 ProxyGroup pods running"


async def message(world: World) -> str:
    condition = await world.condition(FOO, AVAILABLE)
    return condition.message if condition else ""
