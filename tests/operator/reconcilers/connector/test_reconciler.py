"""Connectors on a cluster with a running operator: the tests check the state of the cluster and of the tailnet."""

from typing import Any, cast

import pytest
from tsoperator.api.objects import POD, SECRET, SERVICE, SERVICEMONITOR, STATEFULSET, Key, Object, key_of
from tsoperator.reconcilers.connector.reconciler import connectors
from tsoperator.reconcilers.proxies import Proxies
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.ownership import Owner
from tsoperator.sources import sources

from tests.support.manifests import DOMAIN, connector
from tests.support.objects import OPERATOR_NAMESPACE, obj, settings
from tests.support.operator import Proxy, World, is_ready

READY = "ConnectorReady"
EXIT: Object = {"exitNode": True}
APPS: Object = {"appConnector": {}}
ROUTES = ["10.40.0.0/14", "2001:db8::/32"]


def test_a_change_of_a_child_causes_a_reconcile_of_its_connector() -> None:
    missing, owner = cast("Any", None), Owner("connector", Key("", "router"))
    watches = connectors(Proxies(Cache(sources(OPERATOR_NAMESPACE)), missing, missing, settings())).watches
    for resource in (SERVICE, SERVICEMONITOR, STATEFULSET, SECRET, POD):
        child = obj(resource, Key(OPERATOR_NAMESPACE, "ts-router-0"), labels=owner.labels)
        assert [*watches[resource](child)] == [owner.key]


async def joined_replicas(world: World, obj: Object, replicas: int = 1) -> list[Proxy]:
    """Wait until exactly that many *replicas* of *obj* have joined and the operator has settled, and return them."""

    async def joined() -> list[Proxy] | None:
        found = await proxies(world, obj)
        shown = (await world.look(obj))["status"].get("devices", ()) if await world.reason(obj, READY) else ()
        good = [each for each in found if "device_fqdn" in each.state and "AuthKey" not in each.config]
        names = [each.state["device_fqdn"].removesuffix(".") for each in good]
        whole = len(found) == len(good) == replicas == len(world.control.devices)
        return good if whole and names == [device["hostname"] for device in shown] else None

    await world.becomes(lambda: world.reason(obj, READY), "ConnectorCreated")
    await world.eventually(joined)
    await world.settled()
    return await proxies(world, obj)


async def proxies(world: World, obj: Object) -> list[Proxy]:
    """Return the replicas of *obj*; empty unless all its children exist, and each Secret has a ready Pod."""
    services, statefulsets, secrets, pods = [
        await world.children(kind, obj) for kind in (SERVICE, STATEFULSET, SECRET, POD)
    ]
    names = [[key_of(each).name for each in found] for found in (secrets, pods)]
    if len(services) != 1 or len(statefulsets) != 1 or names[0] != names[1] or not all(map(is_ready, pods)):
        return []
    return [Proxy(services[0], statefulsets[0], *each) for each in zip(secrets, pods, strict=True)]


LEARNED = ("198.51.100.1/32",)


@pytest.mark.parametrize(
    ("former", "learned", "kept"),
    [
        (APPS, LEARNED, LEARNED),
        ({"appConnector": {"routes": ROUTES}}, (*ROUTES, *LEARNED), ()),
        ({"subnetRouter": {"advertiseRoutes": ROUTES}}, tuple(ROUTES), ()),
    ],
    ids=["itself", "one with routes", "a router"],
)
async def test_an_app_connector_without_routes_keeps_the_routes_that_it_has_learned(
    world: World, former: Object, learned: tuple[str, ...], kept: tuple[str, ...]
) -> None:
    await world.apply(connector(**former))
    (before,) = await joined_replicas(world, connector())
    world.control.advertise(before.state["device_id"], learned, None)
    await world.change(connector(), {"spec": {"subnetRouter": None, "appConnector": {"routes": None}}})

    async def offered() -> tuple[object, ...]:
        ((device,), (now,)) = world.control.devices.values(), await proxies(world, connector())
        return device.app_connector, device.advertised_routes, "AdvertiseRoutes" in now.config

    await world.becomes(offered, (True, kept, False))
    world.control.advertise(before.state["device_id"], LEARNED, None)
    await world.restart()
    assert not await world.writes_when_left_alone()
    assert await offered() == (True, LEARNED, False)


async def test_scaling_a_connector_up_and_down_keeps_the_device_of_its_first_replica(world: World) -> None:
    one = connector(**EXIT, hostnamePrefix="gate")
    await world.apply(one)
    (before,) = await joined_replicas(world, one)
    for replicas in (3, 1):
        await world.change(one, {"spec": {"replicas": replicas}})
        after = await joined_replicas(world, one, replicas)
        assert after[0].state["device_id"] == before.state["device_id"]
        assert await world.device_names() == [f"gate-{number}.{DOMAIN}" for number in range(replicas)]
        assert len(world.control.keys) == 3
        assert not await world.writes_when_left_alone()
