"""Objects that are deleted while the node of their proxy is dead: the Pod can't end, but the objects have to go."""

import asyncio
from typing import NamedTuple

import pytest
from tsoperator.api.objects import POD, Object

from tests.support.manifests import DOMAIN, backend, connector, egress, ingress, proxy_group
from tests.support.operator import Condition, World

pytestmark = pytest.mark.simulated


class Row(NamedTuple):
    """An object, the type of its condition, and the reason of this condition while the object is being deleted.

    An object without a condition has an empty *kind* and *reason*.
    """

    obj: Object
    kind: str = ""
    reason: str = ""


ROWS = {
    "Connector": Row(connector(exitNode=True), "ConnectorReady", "ConnectorTerminating"),
    "ProxyGroup": Row(proxy_group("blue", replicas=1), "ProxyGroupReady", "ProxyGroupTerminating"),
    "Service": Row(egress(), "TailscaleProxyReady", "ProxyTerminating"),
    "Ingress": Row(ingress()),
}


async def start(world: World, obj: Object) -> None:
    """Create *obj*, and wait until its device has joined and the operator has settled."""
    await world.apply(obj)
    await world.eventually(world.device_names)
    await world.settled()


async def condition(world: World, row: Row) -> Condition | None:
    return await world.condition(row.obj, row.kind)


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
async def test_a_deleted_object_waits_only_for_a_limited_time_for_its_pod_on_a_dead_node(
    world: World, row: Row
) -> None:
    await world.apply(backend())
    await start(world, row.obj)
    world.sim.kubelet.kill_node("node1")
    await world.delete(row.obj)
    await asyncio.sleep(80)  # the grace period of the Pod, and less than a minute
    assert not await world.gone(row.obj)
    if row.kind:
        shown = await condition(world, row)
        assert shown is not None
        assert (shown.status, shown.reason, "waiting for Pod tailscale/" in shown.message) == (
            "False",
            row.reason,
            True,
        )
    await asyncio.sleep(20)
    assert (await world.gone(row.obj), await world.device_names()) == (True, [])
    assert "PodNotWaitedFor" in await world.events(row.obj)
    assert [each.partition(" ")[0] for each in await world.leftovers(row.obj)] == ["pods"]
    world.sim.kubelet.revive_node("node1")
    await world.settled()
    assert (await world.leftovers(row.obj), await world.device_names()) == ([], [])


async def pods(world: World, obj: Object) -> set[str]:
    """Return the names of the nodes on which the Pods of *obj* run."""
    return {pod["spec"]["nodeName"] for pod in await world.children(POD, obj)}


async def test_an_object_that_is_recreated_while_its_first_node_is_dead_gets_a_proxy_on_another_node(
    world: World,
) -> None:
    obj = ROWS["Connector"].obj
    await start(world, obj)
    world.sim.kubelet.add_node("node2")
    world.sim.kubelet.kill_node("node1")
    await world.delete(obj)
    await world.eventually(lambda: world.gone(obj), timeout=100)
    await start(world, obj)
    await world.becomes(lambda: world.reason(obj, "ConnectorReady"), "ConnectorCreated")
    assert (await pods(world, obj), await world.device_names()) == ({"node1", "node2"}, [f"router-connector.{DOMAIN}"])
    await world.delete(obj)
    await world.eventually(lambda: world.gone(obj))
    assert (await pods(world, obj), await world.device_names()) == ({"node1"}, [])
