"""Auth keys that die and devices that go away, for every kind of proxy: the operator runs, and all comes back."""

from collections.abc import Callable
from typing import NamedTuple

import pytest
from clustersim.faults import Failure
from clustersim.tailnet import Device, Tailnet
from tsoperator.api.objects import SECRET, Object
from tsoperator.kube.client import USER_AGENT

from tests.support.manifests import DOMAIN, backend, connector, dnsconfig, egress, ingress, load_balancer
from tests.support.operator import Proxy, World, running_operator

pytestmark = pytest.mark.full

Lose = Callable[[Tailnet, Device], None]
LOSSES = {"deleted": Tailnet.delete_device, "expired": Tailnet.expire_device}


class Kind(NamedTuple):
    """A parent, its proxy's name in the tailnet, and its condition."""

    parent: Object
    name: str
    condition: str
    ready: str


SERVICE = ("TailscaleProxyReady", "ProxyCreated")
KINDS = {
    "egress": Kind(egress(), "default-db", *SERVICE),
    "exposed": Kind(load_balancer(), "default-lb", *SERVICE),
    "funnel": Kind(load_balancer("lb", 443, funnel="true"), "default-lb", *SERVICE),
    "ingress": Kind(ingress(), "web", "", ""),
    "connector": Kind(connector(), "router-connector", "ConnectorReady", "ConnectorCreated"),
}
EGRESS = KINDS["egress"]
every_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
GATES = connector(exitNode=True, replicas=3, hostnamePrefix="gate")


async def start(world: World, kind: Kind) -> Proxy:
    """Make the proxy and wait until it has joined."""
    await world.apply(*([backend()] if kind.parent["kind"] == "Ingress" else []), kind.parent)
    return await made(world, kind)


async def made(world: World, kind: Kind, other_than: str = "") -> Proxy:
    """Wait until the proxy is well, by a device that is not *other_than*, and nothing is left to do."""

    async def well() -> Proxy | None:
        proxy = await world.proxy(kind.parent)
        if proxy is None or "AuthKey" in proxy.config or "reissue_authkey" in proxy.state:
            return None
        ready = not kind.condition or await world.reason(kind.parent, kind.condition) == kind.ready
        joined = proxy.state.get("device_id", other_than) != other_than and "device_fqdn" in proxy.state
        return proxy if ready and joined else None

    await world.eventually(well)
    await world.settled()
    return await world.eventually(well)


def only_device(world: World) -> Device:
    """Return the one device of the tailnet."""
    (device,) = world.control.devices.values()
    return device


async def secret_of(world: World, parent: Object) -> Object:
    """Return the Secret of the proxy of *parent*."""
    (secret,) = await world.children(SECRET, parent)
    return secret


@every_kind
@pytest.mark.parametrize("lose", LOSSES.values(), ids=LOSSES)
async def test_a_lost_device_comes_back_under_its_name(world: World, kind: Kind, lose: Lose) -> None:
    before = await start(world, kind)
    lose(world.control, only_device(world))
    after = await made(world, kind, before.state["device_id"])
    assert await world.device_names() == [f"{kind.name}.{DOMAIN}"]
    assert only_device(world).node_id == after.state["device_id"]
    assert [key.used for key in world.control.keys.values()] == [True, True]
    assert (after.pod_uid, after.statefulset["spec"]) == (before.pod_uid, before.statefulset["spec"])
    assert "AuthKeyReissued" in await world.events(kind.parent)
    assert not await world.writes_when_left_alone()


@every_kind
async def test_a_key_that_died_unused_is_replaced(cluster: World, kind: Kind) -> None:
    cluster.control.dead_keys = 1
    async with running_operator(cluster):
        await start(cluster, kind)
        assert [key.used for key in cluster.control.keys.values()] == [False, True]
        assert await cluster.device_names() == [f"{kind.name}.{DOMAIN}"]
        assert not await cluster.writes_when_left_alone()


async def test_the_device_gets_the_tags_that_are_asked_for_now(world: World) -> None:
    before = await start(world, EGRESS)
    await world.annotate(EGRESS.parent, {"tailscale.com/tags": "tag:db"})
    world.control.delete_device(only_device(world))
    await made(world, EGRESS, before.state["device_id"])
    assert only_device(world).tags == ("tag:db",)


async def test_every_replica_that_is_lost_gets_a_key_at_once(world: World) -> None:
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
    """Tell whether all replicas of GATES have devices that aren't among the *lost*, and no key any more."""
    found = [Proxy({}, {}, secret, {}) for secret in await world.children(SECRET, GATES)]
    good = [each for each in found if "AuthKey" not in each.config and "device_fqdn" in each.state]
    return len(good) == 3 and not {each.state["device_id"] for each in good} & lost


async def waits(world: World, kind: Kind) -> str:
    """Return what is said of a proxy that waits for another key; empty before it is."""
    if not kind.condition:
        return (await world.events(kind.parent)).get("AuthKeyDelayed", "")
    condition = await world.condition(kind.parent, kind.condition)
    return condition.message if condition and condition.status == "False" and "within 30 s" in condition.message else ""


@every_kind
async def test_a_proxy_that_loses_its_device_again_and_again_waits_for_its_key_and_says_so(
    world: World, kind: Kind
) -> None:
    await start(world, kind)

    async def lose_and_wait() -> str:
        for device in list(world.control.devices.values()):
            world.control.delete_device(device)
        return await waits(world, kind)

    assert "could not log in" in await world.eventually(lose_and_wait)
    assert [key.used for key in world.control.keys.values()] == [True, True]
    assert not await world.writes_when_left_alone()
    await world.delete(kind.parent)
    await world.eventually(lambda: world.gone(kind.parent))
    assert await world.leftovers(kind.parent) == []


@every_kind
async def test_a_parent_that_goes_while_its_proxy_logs_in_anew_leaves_nothing(world: World, kind: Kind) -> None:
    await start(world, kind)
    world.control.delete_device(only_device(world))
    await world.eventually(lambda: asked_or_given(world, kind))
    await world.delete(kind.parent)
    await world.eventually(lambda: world.gone(kind.parent))
    assert (await world.leftovers(kind.parent), await world.device_names()) == ([], [])


async def asked_or_given(world: World, kind: Kind) -> bool:
    """Tell whether the proxy has asked for a key, or was given one since."""
    state = Proxy({}, {}, await secret_of(world, kind.parent), {}).state
    return "reissue_authkey" in state or len(world.control.keys) > 1


WRITES = [("patch", "secrets"), ("update", "services")]


@pytest.mark.simulated
async def test_the_writes_that_are_made_to_fail_are_all_there_are(world: World) -> None:
    before = await start(world, EGRESS)
    world.sim.writes.clear()
    world.control.delete_device(only_device(world))
    await made(world, EGRESS, before.state["device_id"])
    written = {(verb, plural) for agent, verb, plural in world.sim.writes if agent == USER_AGENT}
    assert written == {*WRITES, ("create", "events")}


@pytest.mark.simulated
@pytest.mark.parametrize("write", [*WRITES, ("create", "events")], ids="-".join)
async def test_any_write_may_fail_and_costs_no_second_key(world: World, write: tuple[str, str]) -> None:
    before = await start(world, EGRESS)
    for code in (500, 409):
        world.sim.faults.fail(Failure(code, verb=write[0], plural=write[1]))
    world.control.delete_device(only_device(world))
    await made(world, EGRESS, before.state["device_id"])
    assert len(world.control.keys) == 2


@pytest.mark.parametrize("path", ["/api/v2/device/", "/keys"])
async def test_any_call_of_the_control_server_may_fail_and_costs_no_second_key(world: World, path: str) -> None:
    before = await start(world, EGRESS)
    world.control.fail(403, path=path)
    world.control.expire_device(only_device(world))
    await made(world, EGRESS, before.state["device_id"])
    assert (len(world.control.keys), await world.device_names()) == (2, [f"default-db.{DOMAIN}"])


async def test_a_device_that_cannot_be_deleted_costs_no_key_and_is_said(world: World) -> None:
    before = await start(world, EGRESS)
    world.control.fail(403, path="/api/v2/device/", count=1000)
    world.control.expire_device(only_device(world))
    await world.becomes(lambda: world.reason(EGRESS.parent), "ProxyFailed")
    assert len(world.control.keys) == 1
    world.control.heal()
    await made(world, EGRESS, before.state["device_id"])
    assert await world.device_names() == [f"default-db.{DOMAIN}"]


async def test_an_operator_that_starts_finds_what_was_asked_while_there_was_none(cluster: World) -> None:
    async with running_operator(cluster):
        before = await start(cluster, EGRESS)
    cluster.control.delete_device(only_device(cluster))
    await cluster.eventually(lambda: asked_or_given(cluster, EGRESS))
    async with running_operator(cluster):
        await made(cluster, EGRESS, before.state["device_id"])
        assert len(cluster.control.keys) == 2


@every_kind
async def test_a_request_that_a_working_proxy_left_behind_costs_it_nothing(cluster: World, kind: Kind) -> None:
    async with running_operator(cluster):
        before = await start(cluster, kind)
    await cluster.change(await secret_of(cluster, kind.parent), {"stringData": {"reissue_authkey": ""}})
    async with running_operator(cluster):
        assert not await cluster.writes_when_left_alone()
    assert only_device(cluster).node_id == before.state["device_id"]
    assert len(cluster.control.keys) == 1


@every_kind
async def test_a_secret_that_is_deleted_by_hand_makes_the_proxy_log_in_anew_under_its_name(
    world: World, kind: Kind
) -> None:
    before = await start(world, kind)
    await world.delete(before.secret)
    after = await made(world, kind, before.state["device_id"])
    assert await world.device_names() == [f"{kind.name}.{DOMAIN}"]
    assert (after.pod_uid, len(world.control.keys)) == (before.pod_uid, 2)
    assert not await world.writes_when_left_alone()


@every_kind
async def test_a_secret_that_lost_its_labels_keeps_its_device(world: World, kind: Kind) -> None:
    before = await start(world, kind)
    await world.change(before.secret, {"metadata": {"labels": None}})
    await world.eventually(lambda: world.children(SECRET, kind.parent))
    after = await made(world, kind)
    assert (after.state["device_id"], len(world.control.keys)) == (before.state["device_id"], 1)
    assert not await world.writes_when_left_alone()


@every_kind
async def test_a_device_id_that_is_removed_by_hand_costs_no_key(world: World, kind: Kind) -> None:
    before = await start(world, kind)
    await world.change(before.secret, {"data": {"device_id": None}})
    await world.settled()
    assert not await world.writes_when_left_alone()
    await world.delete(before.pod)
    after = await made(world, kind)
    assert (after.state["device_id"], len(world.control.keys)) == (before.state["device_id"], 1)


async def shown_names(world: World, parent: Object) -> list[str]:
    """Return the names in the status of *parent*."""
    status = (await world.look(parent)).get("status") or {}
    entries = (status.get("loadBalancer") or {}).get("ingress") or status.get("devices") or []
    return [entry["hostname"] for entry in entries if "hostname" in entry]


@pytest.mark.parametrize("kind", [KINDS[name] for name in ("exposed", "funnel", "ingress", "connector")])
async def test_a_device_that_an_admin_renames_is_shown_by_its_new_name(world: World, kind: Kind) -> None:
    await start(world, kind)
    await world.becomes(lambda: shown_names(world, kind.parent), [f"{kind.name}.{DOMAIN}"])
    world.control.rename_device(only_device(world), "orders")
    await world.becomes(lambda: shown_names(world, kind.parent), [f"orders.{DOMAIN}"])
    await world.settled()
    assert not await world.writes_when_left_alone()


async def test_the_record_of_an_ingress_follows_the_name_that_an_admin_gives_its_device(world: World) -> None:
    await world.apply(dnsconfig())
    proxy = await start(world, KINDS["ingress"])
    await world.becomes(world.records, {f"web.{DOMAIN}": proxy.addresses})
    world.control.rename_device(only_device(world), "orders")
    await world.becomes(world.records, {f"orders.{DOMAIN}": proxy.addresses})
