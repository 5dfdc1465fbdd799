"""Connectors on a cluster: the operator runs, and the state of the world is looked at."""

from typing import NamedTuple

import pytest
import yaml
from clustersim.demo_stage import EXAMPLES
from clustersim.tailnet import Device
from tsoperator.api.names import FINALIZER
from tsoperator.api.objects import POD, SECRET, SERVICE, STATEFULSET, Object, key_of

from tests.support.manifests import DOMAIN, connector, egress
from tests.support.operator import Proxy, World, is_ready

READY = "ConnectorReady"
EXIT: Object = {"exitNode": True}
ROUTES = ["10.40.0.0/14", "2001:db8::/32"]
SITE = "fd7a:115c:a1e0:b1a:0:1:a2c:0/116"
ALL = ("0.0.0.0/0", "::/0")


async def joined_replicas(world: World, obj: Object, replicas: int = 1) -> list[Proxy]:
    """Wait until *obj* has that many replicas that have joined, and no more, and nothing is left to do."""

    async def joined() -> list[Proxy] | None:
        found = await proxies(world, obj)
        shown = (await world.look(obj))["status"].get("devices", ()) if await world.reason(obj, READY) else ()
        good = [each for each in found if "device_fqdn" in each.state and "AuthKey" not in each.config]
        names = [each.state["device_fqdn"].removesuffix(".") for each in good]
        whole = len(found) == len(good) == replicas == len(world.control.devices)
        return good if whole and names == [device["hostname"] for device in shown] else None

    await world.becomes(lambda: world.reason(obj, READY), "ConnectorCreated")
    if replicas:
        await world.eventually(joined)
    await world.settled()
    return await proxies(world, obj)


async def proxies(world: World, obj: Object) -> list[Proxy]:
    """Return the replicas of *obj* that are whole and ready; none while children and Pods don't match."""
    services, statefulsets, secrets, pods = [
        await world.children(kind, obj) for kind in (SERVICE, STATEFULSET, SECRET, POD)
    ]
    names = [[key_of(each).name for each in found] for found in (secrets, pods)]
    if len(services) != 1 or len(statefulsets) != 1 or names[0] != names[1] or not all(map(is_ready, pods)):
        return []
    return [Proxy(services[0], statefulsets[0], *each) for each in zip(secrets, pods, strict=True)]


def devices(world: World) -> list[Device]:
    """Return the tailnet's devices by name."""
    return sorted(world.control.devices.values(), key=lambda device: device.name)


async def status(world: World, obj: Object) -> Object:
    """Return the status of *obj* without its condition."""
    found = (await world.look(obj)).get("status") or {}
    return {name: value for name, value in found.items() if name != "conditions"}


async def test_a_subnet_router_gets_a_proxy_that_advertises_its_routes(world: World) -> None:
    router = connector(subnetRouter={"advertiseRoutes": ROUTES})
    await world.apply(router)
    (proxy,) = await joined_replicas(world, router)
    (device,) = devices(world)
    assert (device.name, device.advertised_routes) == (f"router-connector.{DOMAIN}", tuple(ROUTES))
    assert proxy.env["TS_INTERNAL_APP"] == "k8s-operator-connector-resource"
    assert FINALIZER in (await world.look(router))["metadata"]["finalizers"]
    shown = {"hostname": device.name, "tailnetIPs": list(device.addresses)}
    roles = {"subnetRoutes": "10.40.0.0/14,2001:db8::/32", "isExitNode": False, "isAppConnector": False}
    assert await status(world, router) == {**shown, "devices": [shown], **roles}


async def test_the_examples_become_devices_of_the_tailnet(world: World) -> None:
    await world.apply(*yaml.safe_load_all((EXAMPLES / "connector.yaml").read_text()))
    names = [f"{name}.{DOMAIN}" for name in ("apps-connector", "cluster-exit", "devnet-0", "devnet-1")]
    await world.becomes(world.device_names, names)


class Edit(NamedTuple):
    spec: Object
    name: str = "router-connector"
    routes: tuple[str, ...] = ("10.40.0.0/14",)
    app_connector: bool = False


EDITS = {
    "a site": Edit({"subnetRouter": {"advertiseRoutes": [SITE]}}, routes=(SITE,)),
    "another route": Edit({"subnetRouter": {"advertiseRoutes": ROUTES}}, routes=tuple(ROUTES)),
    "an exit node too": Edit(EXIT, routes=(*ALL, "10.40.0.0/14")),
    "an exit node instead": Edit({**EXIT, "subnetRouter": None}, routes=ALL),
    "an app connector instead": Edit({"appConnector": {}, "subnetRouter": None}, routes=(), app_connector=True),
    "a hostname": Edit({"hostname": "gate"}, name="gate"),
    "a prefix": Edit({"hostnamePrefix": "gate"}, name="gate-0"),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
async def test_an_edit_reaches_the_proxy_while_it_runs(world: World, edit: Edit) -> None:
    await world.apply(connector())
    (before,) = await joined_replicas(world, connector())
    await world.change(connector(), {"spec": edit.spec})

    async def offered() -> tuple[object, ...]:
        (device,) = devices(world)
        return device.name, device.advertised_routes, device.app_connector

    await world.becomes(offered, (f"{edit.name}.{DOMAIN}", edit.routes, edit.app_connector))
    (after,) = await joined_replicas(world, connector())
    assert (after.pod_uid, after.statefulset["spec"]) == (before.pod_uid, before.statefulset["spec"])
    assert (await status(world, connector()))["hostname"] == f"{edit.name}.{DOMAIN}"
    assert not await world.writes_when_left_alone()


APPS: Object = {"appConnector": {}}
LEARNED = ("198.51.100.1/32",)


class Former(NamedTuple):
    spec: Object
    learned: tuple[str, ...]
    kept: tuple[str, ...] = ()


@pytest.mark.parametrize(
    "former",
    [
        Former(APPS, LEARNED, LEARNED),
        Former({"appConnector": {"routes": ROUTES}}, (*ROUTES, *LEARNED)),
        Former({"subnetRouter": {"advertiseRoutes": ROUTES}}, tuple(ROUTES)),
    ],
    ids=["itself", "one with routes", "a router"],
)
async def test_an_app_connector_without_routes_keeps_those_that_it_learns(world: World, former: Former) -> None:
    await world.apply(connector(**former.spec))
    (before,) = await joined_replicas(world, connector())
    world.control.advertise(before.state["device_id"], former.learned, None)
    await world.change(connector(), {"spec": {"subnetRouter": None, "appConnector": {"routes": None}}})

    async def offered() -> tuple[object, ...]:
        ((device,), (now,)) = devices(world), await proxies(world, connector())
        return device.app_connector, device.advertised_routes, "AdvertiseRoutes" in now.config

    await world.becomes(offered, (True, former.kept, False))
    world.control.advertise(before.state["device_id"], LEARNED, None)
    await world.restart()
    assert not await world.writes_when_left_alone()
    assert await offered() == (True, LEARNED, False)


async def test_more_replicas_and_fewer_again_leave_the_other_devices(world: World) -> None:
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


async def test_a_surplus_device_is_not_taken_from_a_pod_that_runs(world: World) -> None:
    two = connector(**EXIT, replicas=2, hostnamePrefix="gate")
    await world.apply(two)
    before = await joined_replicas(world, two, 2)
    hold, let_go = ({"metadata": {"finalizers": finalizers}} for finalizers in (["example.org/hold"], None))
    await world.change(before[1].pod, hold)
    await world.change(two, {"spec": {"replicas": 1}})
    await world.becomes(lambda: wanted_replicas(world, two), [1])
    await world.settled()
    assert await world.device_names() == [f"gate-0.{DOMAIN}", f"gate-1.{DOMAIN}"]
    assert len(await world.children(SECRET, two)) == 2
    await world.change(before[1].pod, let_go)
    await joined_replicas(world, two)


async def wanted_replicas(world: World, obj: Object) -> list[int]:
    """Return how many Pods the StatefulSet of *obj* is to have."""
    return [found["spec"]["replicas"] for found in await world.children(STATEFULSET, obj)]


async def test_a_service_of_the_same_name_has_children_of_its_own(world: World) -> None:
    service = egress("router")
    await world.apply(connector(), service)
    await world.eventually(lambda: world.proxy(service))
    await world.becomes(world.device_names, [f"default-router.{DOMAIN}", f"router-connector.{DOMAIN}"])
    await world.delete(connector())
    await world.eventually(lambda: world.gone(connector()))
    assert await world.device_names() == [f"default-router.{DOMAIN}"]
