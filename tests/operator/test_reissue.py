"""Auth keys that die and devices that go away, for every kind of proxy: the proxy comes back under its name."""

from collections.abc import Callable
from typing import NamedTuple

import pytest
from clustersim.faults import Failure
from clustersim.tailnet import Device, Tailnet
from tsoperator.api.objects import SECRET, Object
from tsoperator.kube.client import USER_AGENT

from tests.operator.proxies import event
from tests.support.lanes import cases
from tests.support.manifests import DOMAIN, backend, connector, egress, ingress, load_balancer
from tests.support.operator import Proxy, World, running_operator

pytestmark = pytest.mark.full

Lose = Callable[[Tailnet, Device], None]
LOSSES = {"deleted": Tailnet.delete_device, "expired": Tailnet.expire_device}


class Kind(NamedTuple):
    """A parent, and its proxy's name in the tailnet."""

    parent: Object
    name: str


KINDS = {
    "egress": Kind(egress(), "default-db"),
    "exposed": Kind(load_balancer(), "default-lb"),
    "ingress": Kind(ingress(), "web"),
    "connector": Kind(connector(), "router-connector"),
}
EGRESS = KINDS["egress"]
READY = {"Service": ("TailscaleProxyReady", "ProxyCreated"), "Connector": ("ConnectorReady", "ConnectorCreated")}
"""The condition of a kind and its reason where all is well; an Ingress has none."""


async def start(world: World, kind: Kind) -> Proxy:
    await world.apply(*([backend()] if kind.parent["kind"] == "Ingress" else []), kind.parent)
    return await well(world, kind)


async def well(world: World, kind: Kind, other_than: str = "") -> Proxy:
    """Wait until the proxy has joined by a device that is not *other_than*, and its parent says that all is well."""
    proxy = await world.joined(kind.parent, other_than)
    if condition := READY.get(kind.parent["kind"]):
        await world.becomes(lambda: world.reason(kind.parent, condition[0]), condition[1])
    return proxy


def only_device(world: World) -> Device:
    (device,) = world.control.devices.values()
    return device


@pytest.mark.parametrize("kind", cases(KINDS, "egress"))
@pytest.mark.parametrize("lose", cases(LOSSES, "deleted"))
async def test_a_lost_device_comes_back_under_its_name(world: World, kind: Kind, lose: Lose) -> None:
    before = await start(world, kind)
    lose(world.control, only_device(world))
    after = await well(world, kind, before.state["device_id"])
    assert await world.device_names() == [f"{kind.name}.{DOMAIN}"]
    assert only_device(world).node_id == after.state["device_id"]
    assert [key.used for key in world.control.keys.values()] == [True, True]
    assert (after.pod_uid, after.statefulset["spec"]) == (before.pod_uid, before.statefulset["spec"])
    assert "AuthKeyReissued" in await world.events(kind.parent)
    assert not await world.writes_when_left_alone()


async def waits(world: World, parent: Object) -> str:
    """Return what *parent* says of a proxy that waits for another key; empty before it does."""
    if parent["kind"] not in READY:
        return await event(world, parent, "AuthKeyDelayed")
    condition = await world.condition(parent, READY[parent["kind"]][0])
    return condition.message if condition and condition.status == "False" and "within 30 s" in condition.message else ""


@pytest.mark.parametrize("kind", cases(KINDS, "ingress"))
async def test_a_proxy_that_loses_its_device_again_and_again_waits_for_its_key_and_says_so(
    world: World, kind: Kind
) -> None:
    await start(world, kind)

    async def lose_and_wait() -> str:
        for device in list(world.control.devices.values()):
            world.control.delete_device(device)
        return await waits(world, kind.parent)

    assert "could not log in" in await world.eventually(lose_and_wait)
    assert [key.used for key in world.control.keys.values()] == [True, True]
    assert not await world.writes_when_left_alone()


@pytest.mark.parametrize("kind", cases(KINDS, "exposed"))
async def test_a_parent_that_goes_while_its_proxy_logs_in_anew_leaves_nothing(world: World, kind: Kind) -> None:
    await start(world, kind)
    world.control.delete_device(only_device(world))
    await world.eventually(lambda: asked_or_given(world, kind))
    await world.delete(kind.parent)
    await world.eventually(lambda: world.gone(kind.parent))
    assert (await world.leftovers(kind.parent), await world.device_names()) == ([], [])


async def asked_or_given(world: World, kind: Kind) -> bool:
    """Tell whether the proxy has asked for a key, or was given one since."""
    (secret,) = await world.children(SECRET, kind.parent)
    state = Proxy({}, {}, secret, {}).state
    return "reissue_authkey" in state or len(world.control.keys) > 1


async def test_an_operator_that_starts_finds_what_was_asked_while_there_was_none(cluster: World) -> None:
    async with running_operator(cluster):
        before = await start(cluster, EGRESS)
    cluster.control.delete_device(only_device(cluster))
    await cluster.eventually(lambda: asked_or_given(cluster, EGRESS))
    async with running_operator(cluster):
        await well(cluster, EGRESS, before.state["device_id"])
        assert len(cluster.control.keys) == 2


WRITES = {"patch": "secrets", "update": "services", "create": "events"}


@pytest.mark.simulated
@pytest.mark.parametrize("verb", cases({verb: verb for verb in WRITES}, "patch"))
async def test_a_write_that_fails_costs_no_second_key(world: World, verb: str) -> None:
    before = await start(world, EGRESS)
    world.sim.writes.clear()
    for code in (500, 409):
        world.sim.faults.fail(Failure(code, verb=verb, plural=WRITES[verb]))
    world.control.delete_device(only_device(world))
    await well(world, EGRESS, before.state["device_id"])
    assert len(world.control.keys) == 2
    assert {written[1:] for written in world.sim.writes if written[0] == USER_AGENT} == {*WRITES.items()}
