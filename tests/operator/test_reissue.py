"""Auth keys that are refused and devices that are deleted: a proxy of any kind comes back under its name."""

from collections.abc import Callable
from typing import NamedTuple

import pytest
from clustersim.faults import Failure
from clustersim.tailnet import Device, Tailnet
from tsoperator.api.objects import SECRET, Object
from tsoperator.kube.client import USER_AGENT

from tests.operator.proxies import event, served_name
from tests.support.lanes import cases
from tests.support.manifests import DOMAIN, backend, connector, dnsconfig, egress, ingress, load_balancer
from tests.support.operator import Proxy, World, running_operator

pytestmark = pytest.mark.full

Lose = Callable[[Tailnet, Device], None]
LOSSES = {"deleted": Tailnet.delete_device, "expired": Tailnet.expire_device}


class Kind(NamedTuple):
    """A parent, and the name of its proxy in the tailnet."""

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
"""A map from each kind to the type and the reason of its condition while all is well.

Ingresses have no condition.
"""


async def start(world: World, kind: Kind) -> Proxy:
    await world.apply(*([backend()] if kind.parent["kind"] == "Ingress" else []), kind.parent)
    return await well(world, kind)


async def well(world: World, kind: Kind, other_than: str = "") -> Proxy:
    """Wait until the proxy has joined and the parent's condition is good; return the proxy.

    The proxy has to have another device than *other_than*, an ID.
    """
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
    """Return the message of *parent* about a proxy that waits for an auth key, or an empty text without a message."""
    if parent["kind"] not in READY:
        return await event(world, parent, "AuthKeyDelayed")
    condition = await world.condition(parent, READY[parent["kind"]][0])
    return condition.message if condition and condition.status == "False" and "within 30 s" in condition.message else ""


@pytest.mark.parametrize("kind", cases(KINDS, "ingress"))
async def test_a_proxy_that_loses_its_device_again_and_again_waits_for_an_auth_key_and_the_parent_says_so(
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
async def test_a_parent_that_is_deleted_while_its_proxy_logs_in_anew_leaves_nothing_behind(
    world: World, kind: Kind
) -> None:
    await start(world, kind)
    world.control.delete_device(only_device(world))
    await world.eventually(lambda: asked_or_given(world, kind))
    await world.delete(kind.parent)
    await world.eventually(lambda: world.gone(kind.parent))
    assert (await world.leftovers(kind.parent), await world.device_names()) == ([], [])


async def asked_or_given(world: World, kind: Kind) -> bool:
    """Return True if the proxy asks for another auth key, or has already got one."""
    (secret,) = await world.children(SECRET, kind.parent)
    state = Proxy({}, {}, secret, {}).state
    return "reissue_authkey" in state or len(world.control.keys) > 1


async def test_a_new_operator_answers_requests_for_auth_keys_from_before_its_start(cluster: World) -> None:
    async with running_operator(cluster):
        before = await start(cluster, EGRESS)
    cluster.control.delete_device(only_device(cluster))
    await cluster.eventually(lambda: asked_or_given(cluster, EGRESS))
    async with running_operator(cluster):
        await well(cluster, EGRESS, before.state["device_id"])
        assert len(cluster.control.keys) == 2


WRITES = {
    "key": ("patch", "secrets"),
    "touch": ("patch", "pods"),
    "service": ("update", "services"),
    "event": ("create", "events"),
}
"""The writes by which a proxy gets another auth key, each by verb and kind."""


@pytest.mark.simulated
@pytest.mark.parametrize("write", cases(WRITES, "key"))
async def test_a_failed_write_while_a_proxy_gets_another_auth_key_causes_no_second_key(
    world: World, write: tuple[str, str]
) -> None:
    before = await start(world, EGRESS)
    world.sim.writes.clear()
    for code in (500, 409):
        world.sim.faults.fail(Failure(code, verb=write[0], plural=write[1]))
    world.control.delete_device(only_device(world))
    await well(world, EGRESS, before.state["device_id"])
    assert len(world.control.keys) == 2
    assert {written[1:] for written in world.sim.writes if written[0] == USER_AGENT} == {*WRITES.values()}


GATES = connector(exitNode=True, replicas=3, hostnamePrefix="gate")


async def test_every_replica_that_has_lost_its_device_gets_an_auth_key_at_once(world: World) -> None:
    await world.apply(GATES)
    await world.eventually(lambda: gates(world, set()))
    lost = set(world.control.devices)
    for device in list(world.control.devices.values()):
        world.control.delete_device(device)
    await world.eventually(lambda: gates(world, lost))
    await world.becomes(lambda: world.reason(GATES, "ConnectorReady"), "ConnectorCreated")
    assert await world.device_names() == [f"gate-{number}.{DOMAIN}" for number in range(3)]
    assert len(world.control.keys) == 6
    assert not await world.writes_when_left_alone()


async def gates(world: World, lost: set[str]) -> bool:
    """Return True if all replicas of `GATES` have devices that aren't among the *lost*, and no auth key any more."""
    found = [Proxy({}, {}, secret, {}) for secret in await world.children(SECRET, GATES)]
    good = [each for each in found if "AuthKey" not in each.config and "device_fqdn" in each.state]
    return len(good) == 3 and not {each.state["device_id"] for each in good} & lost


@pytest.mark.parametrize("path", ["/api/v2/device/", pytest.param("/keys", marks=pytest.mark.thorough)])
async def test_a_refused_call_to_the_control_server_is_reported_and_causes_no_second_auth_key(
    world: World, path: str
) -> None:
    before = await start(world, EGRESS)
    world.control.fail(403, path=path, count=1000)
    world.control.expire_device(only_device(world))
    await world.becomes(lambda: world.reason(EGRESS.parent), "ProxyFailed")
    assert len(world.control.keys) == 1
    world.control.heal()
    await well(world, EGRESS, before.state["device_id"])
    assert (len(world.control.keys), await world.device_names()) == (2, [f"default-db.{DOMAIN}"])


async def shown_name(world: World, parent: Object) -> str:
    """Return the name in the status of *parent*."""
    if parent["kind"] != "Connector":
        return await served_name(world, parent)
    devices = ((await world.look(parent)).get("status") or {}).get("devices") or [{}]
    return str(devices[0].get("hostname"))


FUNNEL = Kind(load_balancer("lb", 443, funnel="true"), "default-lb")


SHOWN = {"funnel": FUNNEL} | {name: KINDS[name] for name in ("exposed", "ingress", "connector")}


@pytest.mark.parametrize("kind", cases(SHOWN, "exposed"))
async def test_a_device_that_an_admin_renames_is_shown_by_its_new_name(world: World, kind: Kind) -> None:
    await start(world, kind)
    await world.becomes(lambda: shown_name(world, kind.parent), f"{kind.name}.{DOMAIN}")
    world.control.rename_device(only_device(world), "orders")
    await world.becomes(lambda: shown_name(world, kind.parent), f"orders.{DOMAIN}")
    await world.settled()
    assert not await world.writes_when_left_alone()


async def test_the_record_of_an_ingress_changes_with_the_name_that_an_admin_gives_its_device(world: World) -> None:
    await world.apply(dnsconfig())
    proxy = await start(world, KINDS["ingress"])
    await world.becomes(world.records, {f"web.{DOMAIN}": proxy.addresses})
    world.control.rename_device(only_device(world), "orders")
    await world.becomes(world.records, {f"orders.{DOMAIN}": proxy.addresses})
