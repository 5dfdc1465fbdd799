"""Connectors on a cluster: the operator runs, and the state of the world is looked at."""

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

import pytest
import yaml
from clustersim.demo_stage import EXAMPLES
from clustersim.faults import Failure
from clustersim.tailnet import Device
from tsoperator.api.names import FINALIZER
from tsoperator.api.objects import POD, SECRET, SERVICE, STATEFULSET, Object, Resource, key_of, uid
from tsoperator.kube.client import USER_AGENT

from tests.support.manifests import DOMAIN, connector, egress, proxy_class
from tests.support.operator import Proxy, World, is_ready, running_operator

READY = "ConnectorReady"
EXIT: Object = {"exitNode": True}
ROUTES = ["10.40.0.0/14", "2001:db8::/32"]
SITE = "fd7a:115c:a1e0:b1a:0:1:a2c:0/116"
ALL = ("0.0.0.0/0", "::/0")
THREE = connector(exitNode=True, replicas=3, hostnamePrefix="gate")


async def made(world: World, obj: Object, replicas: int = 1) -> list[Proxy]:
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
    (proxy,) = await made(world, router)
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


class Role(NamedTuple):
    spec: Object
    routes: tuple[str, ...]
    app_connector: bool = False


@pytest.mark.parametrize(
    "case",
    [
        Role(EXIT, ALL),
        Role({**EXIT, "subnetRouter": {"advertiseRoutes": ROUTES}}, (*ALL, *ROUTES)),
        Role({"appConnector": {}}, (), True),
        Role({"appConnector": {"routes": ROUTES}}, tuple(ROUTES), True),
    ],
    ids=["exit node", "exit node and subnet router", "app connector", "app connector with routes"],
)
async def test_every_role_reaches_the_tailnet(world: World, case: Role) -> None:
    await world.apply(connector(**case.spec))
    await made(world, connector())
    (device,) = devices(world)
    assert (device.advertised_routes, device.app_connector) == (case.routes, case.app_connector)
    assert (await status(world, connector()))["isAppConnector"] == case.app_connector


async def test_a_connector_that_is_right_is_left_alone(world: World) -> None:
    await world.apply(THREE)
    await made(world, THREE, 3)
    assert not await world.writes_when_left_alone()
    assert not await world.writes_during(world.restart())


async def test_every_replica_has_a_device_and_a_key_of_its_own(world: World) -> None:
    await world.apply(THREE)
    await made(world, THREE, 3)
    names = [f"gate-{number}.{DOMAIN}" for number in range(3)]
    assert [device.name for device in devices(world)] == names
    assert [device["hostname"] for device in (await status(world, THREE))["devices"]] == names
    assert [key.used for key in world.control.keys.values()] == [True] * 3


async def test_the_devices_get_the_tags_that_the_connector_asks_for(world: World) -> None:
    await world.apply(connector(**EXIT, tags=["tag:gate", "tag:prod"]))
    await made(world, connector())
    assert [device.tags for device in devices(world)] == [("tag:gate", "tag:prod")]


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
    (before,) = await made(world, connector())
    await world.change(connector(), {"spec": edit.spec})

    async def offered() -> tuple[object, ...]:
        (device,) = devices(world)
        return device.name, device.advertised_routes, device.app_connector

    await world.becomes(offered, (f"{edit.name}.{DOMAIN}", edit.routes, edit.app_connector))
    (after,) = await made(world, connector())
    assert (after.pod_uid, after.statefulset["spec"]) == (before.pod_uid, before.statefulset["spec"])
    assert (await status(world, connector()))["hostname"] == f"{edit.name}.{DOMAIN}"
    assert not await world.writes_when_left_alone()


async def test_more_replicas_leave_the_devices_that_are_there(world: World) -> None:
    one = connector(**EXIT, hostnamePrefix="gate")
    await world.apply(one)
    (before,) = await made(world, one)
    await world.change(one, {"spec": {"replicas": 3}})
    after = await made(world, one, 3)
    assert after[0].state["device_id"] == before.state["device_id"]
    assert await world.device_names() == [f"gate-{number}.{DOMAIN}" for number in range(3)]
    assert not await world.writes_when_left_alone()


async def test_fewer_replicas_lose_the_last_devices_and_secrets(world: World) -> None:
    await world.apply(THREE)
    before = await made(world, THREE, 3)
    await world.change(THREE, {"spec": {"replicas": 1}})
    (after,) = await made(world, THREE)
    assert after.state["device_id"] == before[0].state["device_id"]
    assert await world.device_names() == [f"gate-0.{DOMAIN}"]
    assert len(world.control.keys) == 3
    assert not await world.writes_when_left_alone()


async def test_a_surplus_device_is_not_taken_from_a_pod_that_runs(world: World) -> None:
    two = connector(**EXIT, replicas=2, hostnamePrefix="gate")
    await world.apply(two)
    before = await made(world, two, 2)
    hold, let_go = ({"metadata": {"finalizers": finalizers}} for finalizers in (["example.org/hold"], None))
    await world.change(before[1].pod, hold)
    await world.change(two, {"spec": {"replicas": 1}})
    await world.becomes(lambda: wanted_replicas(world, two), [1])
    await world.settled()
    assert await world.device_names() == [f"gate-0.{DOMAIN}", f"gate-1.{DOMAIN}"]
    assert len(await world.children(SECRET, two)) == 2
    await world.change(before[1].pod, let_go)
    await made(world, two)


async def wanted_replicas(world: World, obj: Object) -> list[int]:
    """Return how many Pods the StatefulSet of *obj* is to have."""
    return [found["spec"]["replicas"] for found in await world.children(STATEFULSET, obj)]


async def test_no_replicas_are_no_devices_and_all_come_back(world: World) -> None:
    await world.apply(connector())
    await made(world, connector())
    await world.change(connector(), {"spec": {"replicas": 0}})
    await world.becomes(world.device_names, [])
    await world.becomes(lambda: world.children(SECRET, connector()), [])
    await world.settled()
    assert (await status(world, connector()))["devices"] == []
    assert "hostname" not in await status(world, connector())
    await world.change(connector(), {"spec": {"replicas": None}})
    await made(world, connector())


async def test_a_deleted_connector_takes_everything_with_it(world: World) -> None:
    await world.apply(THREE)
    await made(world, THREE, 3)
    await world.delete(THREE)
    await world.eventually(lambda: world.gone(THREE))
    assert (await world.leftovers(THREE), await world.device_names()) == ([], [])
    assert not await world.writes_when_left_alone()


async def test_a_connector_that_goes_before_its_proxy_was_made_leaves_nothing(world: World) -> None:
    await world.apply(connector())
    await world.delete(connector())
    await world.eventually(lambda: world.gone(connector()))
    await world.becomes(lambda: world.leftovers(connector()), [])
    assert await world.device_names() == []


async def test_a_service_of_the_same_name_has_children_of_its_own(world: World) -> None:
    service = egress("router")
    await world.apply(connector(), service)
    await world.eventually(lambda: world.proxy(service))
    await world.becomes(world.device_names, [f"default-router.{DOMAIN}", f"router-connector.{DOMAIN}"])
    await world.delete(connector())
    await world.eventually(lambda: world.gone(connector()))
    assert await world.device_names() == [f"default-router.{DOMAIN}"]


class Bad(NamedTuple):
    spec: Object
    reason: str
    words: str


BAD = {
    "host bits": Bad({"subnetRouter": {"advertiseRoutes": ["1.2.3.4/5"]}}, "ConnectorInvalid", "0.0.0.0/5"),
    "default route": Bad({"subnetRouter": {"advertiseRoutes": ["0.0.0.0/0"]}}, "ConnectorInvalid", "exitNode"),
    "4via6": Bad(
        {"subnetRouter": {"advertiseRoutes": ["fd7a:115c:a1e0:b1a:1:0:a2c:0/116"]}}, "ConnectorInvalid", "site 65536"
    ),
    "class": Bad({"proxyClass": "nonesuch"}, "ConnectorCreationFailed", "nonesuch"),
}
REFUSED = {  # by the CRD's rules, unless they were there first
    "nothing": Bad({"subnetRouter": None}, "ConnectorInvalid", "connects nothing"),
    "no list": Bad({"subnetRouter": {"advertiseRoutes": "10.40.0.0/14"}}, "ConnectorInvalid", "must be a list"),
    "two roles": Bad({"appConnector": {}}, "ConnectorInvalid", "app connector"),
    "one hostname": Bad({"hostname": "gate", "replicas": 2}, "ConnectorInvalid", "hostnamePrefix"),
}
EVERY_BAD = pytest.mark.parametrize(
    "case",
    [
        *(pytest.param(case, id=name) for name, case in BAD.items()),
        *(pytest.param(case, id=name, marks=pytest.mark.simulated) for name, case in REFUSED.items()),
    ],
)


@pytest.mark.full
@EVERY_BAD
async def test_a_bad_connector_is_told_why_it_has_no_proxy(world: World, case: Bad) -> None:
    bad = connector(**{**connector()["spec"], **case.spec})
    await world.apply(bad)
    await world.becomes(lambda: world.reason(bad, READY), case.reason)
    condition = await world.condition(bad, READY)
    assert condition is not None
    assert (condition.status, case.words in condition.message) == ("False", True)
    assert (await world.events(bad))[case.reason] == condition.message
    assert await world.leftovers(bad) == []
    assert not await world.writes_when_left_alone()


@pytest.mark.full
@EVERY_BAD
async def test_a_proxy_that_ran_keeps_running_when_its_connector_becomes_bad(world: World, case: Bad) -> None:
    await world.apply(connector())
    (before,) = await made(world, connector())
    await world.change(connector(), {"spec": case.spec})
    await world.becomes(lambda: world.reason(connector(), READY), case.reason)
    assert not await world.writes_when_left_alone()
    (after,) = await proxies(world, connector())
    assert (after.pod_uid, after.statefulset["spec"], after.config) == (
        before.pod_uid,
        before.statefulset["spec"],
        before.config,
    )
    assert (await status(world, connector()))["devices"][0]["hostname"] == f"router-connector.{DOMAIN}"


async def test_a_bad_connector_can_be_deleted(world: World) -> None:
    await world.apply(connector())
    await made(world, connector())
    await world.change(connector(), {"spec": BAD["host bits"].spec})
    await world.becomes(lambda: world.reason(connector(), READY), "ConnectorInvalid")
    await world.delete(connector())
    await world.eventually(lambda: world.gone(connector()))
    assert (await world.leftovers(connector()), await world.device_names()) == ([], [])


async def test_a_connector_waits_for_its_class_and_goes_on_without_it(world: World) -> None:
    prod = proxy_class("prod", statefulSet={"pod": {"tailscaleContainer": {"image": "never ready"}}})
    classy = connector(**EXIT, proxyClass="prod")
    await world.apply(classy)
    await world.becomes(lambda: world.reason(classy, READY), "ConnectorCreationFailed")
    await world.apply(prod)
    await world.becomes(lambda: world.reason(classy, READY), "ConnectorCreating")
    assert await world.leftovers(classy) == []
    await world.delete(prod)
    await world.becomes(lambda: world.reason(classy, READY), "ConnectorCreationFailed")
    await world.change(classy, {"spec": {"proxyClass": None}})
    await made(world, classy)


@pytest.mark.parametrize("kind", [SERVICE, STATEFULSET, SECRET], ids=str)
async def test_a_child_that_is_deleted_comes_back_under_its_name(world: World, kind: Resource) -> None:
    await world.apply(connector())
    (before,) = await made(world, connector())
    (child,) = await world.children(kind, connector())
    await world.delete(child)

    async def back() -> bool:
        return [uid(obj) for obj in await world.children(kind, connector())] not in ([], [uid(child)])

    await world.eventually(back)
    (after,) = await made(world, connector())
    same_device = after.state["device_id"] == before.state["device_id"]
    assert (after.name, same_device) == (before.name, kind != SECRET)  # with the Secret the device's own keys are lost
    assert not await world.writes_when_left_alone()


async def test_a_pod_that_is_deleted_keeps_its_device(world: World) -> None:
    await world.apply(THREE)
    before = await made(world, THREE, 3)
    await world.delete(before[1].pod)

    async def replaced() -> bool:
        found = await proxies(world, THREE)
        return len(found) == 3 and found[1].pod_uid != before[1].pod_uid

    await world.eventually(replaced)
    after = await made(world, THREE, 3)
    assert [each.state["device_id"] for each in after] == [each.state["device_id"] for each in before]
    assert len(world.control.keys) == 3


async def test_a_connector_made_anew_while_no_operator_ran_gets_a_proxy_of_its_own(cluster: World) -> None:
    async with running_operator(cluster):
        await cluster.apply(connector())
        (before,) = await made(cluster, connector())
    await cluster.change(connector(), {"metadata": {"finalizers": None}})
    await cluster.delete(connector())
    await cluster.apply(connector())
    async with running_operator(cluster):
        await cluster.eventually(lambda: replaced(cluster, before))
        (after,) = await made(cluster, connector())
    wanted = {"app": uid(await cluster.look(connector()))}
    assert (after.statefulset["spec"]["selector"]["matchLabels"], after.service["spec"]["selector"]) == (wanted, wanted)


async def replaced(world: World, before: Proxy) -> bool:
    """Tell whether the Connector has another StatefulSet."""
    found = await proxies(world, connector())
    return bool(found) and uid(found[0].statefulset) != uid(before.statefulset)


async def test_a_tag_that_is_not_permitted_is_said_and_the_keys_come_once_it_is(world: World) -> None:
    world.control.client_tags = {"tag:other"}
    await world.apply(THREE)
    await world.becomes(lambda: world.reason(THREE, READY), "ConnectorCreationFailed")
    condition = await world.condition(THREE, READY)
    assert condition is not None
    assert "tag:k8s" in condition.message
    assert (await world.events(THREE))["ConnectorCreationFailed"]
    world.control.client_tags = None
    await made(world, THREE, 3)


async def test_a_device_that_cannot_be_deleted_is_said(world: World) -> None:
    await world.apply(connector())
    await made(world, connector())
    world.control.fail(403, count=1000, path="/api/v2/device/")
    await world.delete(connector())
    await world.becomes(lambda: world.reason(connector(), READY), "ConnectorCreationFailed")
    world.control.heal()
    await world.eventually(lambda: world.gone(connector()))
    assert await world.device_names() == []


CHILDREN = ("secrets", "services", "statefulsets")
MAKING = [*(("create", kind) for kind in CHILDREN), ("patch", "secrets"), ("update", "connectors")]
SHRINKING = [("update", "statefulsets"), ("delete", "secrets"), ("update", "connectors")]
ENDING = [*(("delete", kind) for kind in CHILDREN), ("update", "connectors")]


async def written_until(cluster: World, done: Callable[[], Awaitable[object]]) -> set[tuple[str, str]]:
    """Run an operator until *done*, and return what it has written."""
    cluster.sim.writes.clear()
    async with running_operator(cluster):
        await done()
        return {(verb, plural) for agent, verb, plural in cluster.sim.writes if agent == USER_AGENT}


def fail(world: World, verb: str, plural: str) -> None:
    """Make a write fail in two ways, one after the other."""
    for code in (500, 409):
        world.sim.faults.fail(Failure(code, verb=verb, plural=plural))


@pytest.mark.simulated
async def test_the_writes_that_are_made_to_fail_are_all_there_are(cluster: World) -> None:
    await cluster.apply(THREE)
    assert await written_until(cluster, lambda: made(cluster, THREE, 3)) == {*MAKING}
    await cluster.change(THREE, {"spec": {"replicas": 1}})
    assert await written_until(cluster, lambda: made(cluster, THREE)) == {*SHRINKING}
    await cluster.delete(THREE)
    assert await written_until(cluster, lambda: cluster.eventually(lambda: cluster.gone(THREE))) == {*ENDING}


@pytest.mark.simulated
@pytest.mark.parametrize("write", MAKING, ids="-".join)
async def test_any_write_may_fail_on_the_way_there(world: World, write: tuple[str, str]) -> None:
    fail(world, *write)
    await world.apply(THREE)
    await made(world, THREE, 3)
    assert len(world.control.keys) == 3
    assert world.sim.faults.to_json()["fail"] == []


@pytest.mark.simulated
@pytest.mark.parametrize("write", SHRINKING, ids="-".join)
async def test_any_write_may_fail_while_replicas_go(world: World, write: tuple[str, str]) -> None:
    await world.apply(THREE)
    await made(world, THREE, 3)
    fail(world, *write)
    await world.change(THREE, {"spec": {"replicas": 1}})
    await made(world, THREE)
    assert world.sim.faults.to_json()["fail"] == []


@pytest.mark.simulated
@pytest.mark.parametrize("write", ENDING, ids="-".join)
async def test_any_write_may_fail_on_the_way_out(world: World, write: tuple[str, str]) -> None:
    await world.apply(THREE)
    await made(world, THREE, 3)
    fail(world, *write)
    await world.delete(THREE)
    await world.eventually(lambda: world.gone(THREE))
    assert (await world.leftovers(THREE), await world.device_names()) == ([], [])
    assert world.sim.faults.to_json()["fail"] == []


@pytest.mark.full
@pytest.mark.parametrize("acts", [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)], ids=str)
async def test_the_order_of_edits_does_not_matter(world: World, acts: Sequence[int]) -> None:
    edits: list[Object] = [{"replicas": 2}, {"hostnamePrefix": "gate"}, {"exitNode": True, "subnetRouter": None}]
    await world.apply(connector())
    for number in acts:
        await world.change(connector(), {"spec": edits[number]})
    await made(world, connector(), 2)
    assert [(device.name, device.advertised_routes) for device in devices(world)] == [
        (f"gate-0.{DOMAIN}", ALL),
        (f"gate-1.{DOMAIN}", ALL),
    ]


@pytest.mark.simulated
@pytest.mark.parametrize("what", ["drop_watches", "expire_history"])
async def test_watches_may_end_at_any_time(world: World, what: str) -> None:
    await world.apply(THREE)
    getattr(world.sim.faults, what)()
    await made(world, THREE, 3)
    await world.change(THREE, {"spec": {"replicas": 2}})
    getattr(world.sim.faults, what)()
    await made(world, THREE, 2)
    assert not await world.writes_when_left_alone()
