"""What the tailnet has of the proxies' devices: tags and names that follow their parents, approval, destinations."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import pytest
from clustersim.faults import Failure
from clustersim.sim import SimOptions
from tsoperator.api.objects import POD, SECRET, Object, uid

from tests.operator.proxies import event, served_name
from tests.support.lanes import cases
from tests.support.manifests import (
    DOMAIN,
    FQDN,
    backend,
    connector,
    egress,
    group_egress,
    ingress,
    load_balancer,
    proxy_group,
)
from tests.support.operator import World, new_world, running_operator
from tests.support.tailnets import join

pytestmark = pytest.mark.full

TAGS = "/api/v2/device/{id}/tags"
NAME = f"default-db.{DOMAIN}"


async def tags(world: World) -> list[tuple[str, ...]]:
    """Return the tags of the tailnet's devices."""
    return [device.tags for device in world.control.devices.values()]


async def all_joined(world: World, obj: Object, count: int = 1) -> list[str]:
    """Wait until *obj* has *count* proxies that report their devices; return the UIDs of their Pods."""

    async def ready() -> bool:
        secrets = [each for each in await world.children(SECRET, obj) if "device_fqdn" in each["data"]]
        return len(secrets) == count

    await world.eventually(ready)
    await world.settled()
    return sorted(uid(pod) for pod in await world.children(POD, obj))


class Kind(NamedTuple):
    obj: Object
    edit: Object
    replicas: int = 1


GIVEN = {"metadata": {"annotations": {"tailscale.com/tags": "tag:web, tag:prod"}}}
GATES = connector(exitNode=True, replicas=2, hostnamePrefix="gate")
KINDS = {
    "egress": Kind(egress(tags="tag:web, tag:prod, tag:k8s"), GIVEN),
    "load balancer": Kind(load_balancer(), GIVEN),
    "ingress": Kind(ingress(), GIVEN),
    "connector": Kind(GATES, {"spec": {"tags": ["tag:web", "tag:prod"]}}, 2),
}


@pytest.mark.parametrize("kind", cases(KINDS, "egress", "connector"))
async def test_an_edit_of_tags_reaches_the_devices_that_run(world: World, kind: Kind) -> None:
    await world.apply(backend(), kind.obj)
    pods = await all_joined(world, kind.obj, kind.replicas)
    await world.change(kind.obj, kind.edit)
    await world.becomes(lambda: tags(world), [("tag:web", "tag:prod")] * kind.replicas)
    assert "tag:k8s" in (await world.eventually(lambda: world.events(kind.obj)))["TagsChanged"]
    assert not await world.writes_when_left_alone()
    assert world.control.requests["POST", TAGS] == kind.replicas
    assert await all_joined(world, kind.obj, kind.replicas) == pods


async def test_the_default_of_tags_reaches_the_devices_that_run(cluster: World) -> None:
    parents = (egress(), ingress(), connector())
    await cluster.apply(backend(), *parents)
    async with running_operator(cluster):
        for parent in parents:
            await all_joined(cluster, parent)
    async with running_operator(cluster, proxy_tags=("tag:other",)):
        await cluster.becomes(lambda: tags(cluster), [("tag:other",)] * 3)


REFUSED = {
    "Service": (egress(), "TailscaleProxyReady", "ProxyFailed"),
    "Connector": (connector(), "ConnectorReady", "ConnectorCreationFailed"),
}


@pytest.mark.parametrize("parent", cases(REFUSED, "Service"))
async def test_tags_that_are_refused_are_said_once_and_asked_for_again_on_an_edit(
    world: World, parent: tuple[Object, str, str]
) -> None:
    obj, kind, reason = parent
    world.control.policy_tags = {"tag:k8s", "tag:web"}
    await world.apply(obj)
    await all_joined(world, obj)
    await world.change(obj, tagged("tag:db"))
    await world.becomes(lambda: world.reason(obj, kind), reason)
    said = await world.condition(obj, kind)
    assert said is not None
    assert all(words in said.message for words in ("tag:k8s", "tag:db", "invalid or not permitted"))
    assert not await world.writes_when_left_alone()
    assert (world.control.requests["POST", TAGS], await tags(world)) == (1, [("tag:k8s",)])
    await world.change(obj, tagged("tag:web"))
    await world.becomes(lambda: tags(world), [("tag:web",)])
    await world.eventually(lambda: is_true(world, obj, kind))


def tagged(tag: str) -> Object:
    """Return the edit that asks for *tag*, of a Service or a Connector."""
    return {"metadata": {"annotations": {"tailscale.com/tags": tag}}, "spec": {"tags": [tag]}}


async def is_true(world: World, obj: Object, kind: str = "TailscaleProxyReady") -> bool:
    """Tell whether the condition of *obj* is true."""
    condition = await world.condition(obj, kind)
    return condition is not None and condition.status == "True"


async def test_a_client_that_may_not_list_devices_can_do_the_rest(world: World) -> None:
    world.control.scopes = {"auth_keys"}
    await world.apply(egress())
    await all_joined(world, egress())
    await world.change(egress(), {"metadata": {"annotations": {"tailscale.com/hostname": "orders"}}})
    await world.becomes(world.device_names, [f"orders.{DOMAIN}"])
    assert await world.reason(egress()) == "ProxyCreated"
    assert world.control.requests["GET", "/api/v2/tailnet/-/devices"] <= 2  # one for all proxies, one of preflight


@pytest.mark.simulated  # on a real API server the list of devices may not be read again that soon
async def test_a_device_that_needs_approval_is_said_until_it_is_approved(cluster: World) -> None:
    await cluster.apply(egress())
    async with running_operator(cluster):
        await all_joined(cluster, egress())
    [device] = cluster.control.devices.values()
    cluster.control.update(replace(device, authorized=False))
    async with running_operator(cluster):
        await cluster.becomes(lambda: cluster.reason(egress()), "ProxyPending")
        assert NAME in await cluster.eventually(lambda: event(cluster, egress(), "DeviceApprovalNeeded"))
        assert not await cluster.writes_when_left_alone()
        cluster.control.update(replace(device, authorized=True))
        await cluster.eventually(lambda: is_true(cluster, egress()), timeout=60)  # by the Service's next look


async def test_a_rebuilt_cluster_takes_over_the_names_of_its_dead_devices(cluster: World) -> None:
    dead = [join(cluster.control, name) for name in ("default-db", "web", *(f"gate-{number}" for number in range(2)))]
    for device in dead:
        cluster.control.disconnect(device.node_id, seconds=600)
    await cluster.apply(egress(), backend(), ingress(), GATES)
    async with running_operator(cluster, take_over_names=True):
        for obj, count in ((egress(), 1), (ingress(), 1), (GATES, 2)):
            await all_joined(cluster, obj, count)
        assert await cluster.device_names() == sorted(device.name for device in dead)
        assert not {device.node_id for device in dead} & cluster.control.devices.keys()
        assert dead[0].node_id in await cluster.eventually(lambda: event(cluster, egress(), "NameTakenOver"))
        assert not await cluster.writes_when_left_alone()


class Held(NamedTuple):
    words: str
    tags: Sequence[str] = ("tag:k8s", "tag:web")
    seconds: float = 600
    headscale: bool = False


HELD = {
    "offline for a minute": Held("in the last 5 minutes", seconds=60),
    "other tags": Held("has other tags: tag:other", ["tag:other"]),
    "more tags": Held("has other tags: tag:k8s, tag:other, tag:web", ["tag:k8s", "tag:other", "tag:web"]),
    "fewer tags": Held("has other tags: tag:k8s;", ["tag:k8s"]),
    "Headscale": Held("does not tell whether devices are online", headscale=True),
}


@pytest.mark.parametrize("held", cases(HELD, "offline for a minute", "fewer tags"))
async def test_a_device_that_may_live_keeps_its_name(held: Held) -> None:
    async with new_world(SimOptions(headscale=held.headscale)) as world, running_operator(world, take_over_names=True):
        holder = join(world.control, "default-db", *held.tags)
        world.control.disconnect(holder.node_id, held.seconds)
        await world.apply(egress(tags="tag:k8s,tag:web"))
        await all_joined(world, egress())
        await world.becomes(lambda: says(world, held.words), True)
        assert held.words in await world.eventually(lambda: event(world, egress(), "NameHeld"))
        assert await world.device_names() == sorted([NAME, f"default-db-1.{DOMAIN}"])
        assert holder.node_id in world.control.devices
        assert await is_true(world, egress())
        assert not await world.writes_when_left_alone()


async def test_names_are_not_taken_over_unasked(world: World) -> None:
    holder = join(world.control, "default-db")
    world.control.disconnect(holder.node_id, seconds=600)
    await world.apply(egress())
    await all_joined(world, egress())
    assert await world.device_names() == sorted([NAME, f"default-db-1.{DOMAIN}"])
    holds = f"the name default-db is held by device {NAME} ({holder.node_id})"
    await world.becomes(lambda: says(world, holds), True)
    assert holds in await world.eventually(lambda: event(world, egress(), "NameHeld"))
    assert await is_true(world, egress())
    assert not await world.writes_when_left_alone()


async def test_two_services_that_ask_for_one_name_leave_each_other_be(cluster: World) -> None:
    async with running_operator(cluster, take_over_names=True):
        for name in ("one", "two"):
            await cluster.apply(egress(name, hostname="db"))
            await all_joined(cluster, egress(name))
        first, second = await cluster.device_names()
        assert (first, second) == (f"db-1.{DOMAIN}", f"db.{DOMAIN}")
        assert "another proxy of this cluster" in await cluster.eventually(
            lambda: event(cluster, egress("two"), "NameHeld")
        )


@pytest.mark.parametrize("gone", cases({"it is dead": False, "it is gone": True}, "it is dead"))
async def test_a_proxy_that_got_a_number_gets_its_name_once_that_is_free(cluster: World, gone: bool) -> None:
    holder = join(cluster.control, "default-lb")
    await cluster.apply(load_balancer())
    async with running_operator(cluster):
        await all_joined(cluster, load_balancer())
    if gone:
        cluster.control.delete_device(holder)
    else:
        cluster.control.disconnect(holder.node_id, seconds=600)
    async with running_operator(cluster, take_over_names=True):
        await cluster.becomes(cluster.device_names, [f"default-lb.{DOMAIN}"])
        await cluster.becomes(lambda: served_name(cluster, load_balancer()), f"default-lb.{DOMAIN}")
        await cluster.annotate(load_balancer(), {"tailscale.com/hostname": "shop"})
        await cluster.becomes(lambda: served_name(cluster, load_balancer()), f"shop.{DOMAIN}")


async def test_a_destination_that_goes_away_and_comes_back_is_told(world: World) -> None:
    target = join(world.control, "db", "tag:db")
    await world.apply(egress())
    await all_joined(world, egress())
    await world.settled()
    world.control.delete_device(target)
    await look_again(world, "first")
    await world.becomes(lambda: says(world, f"device {FQDN}, to which this leads, is not in the tailnet"), True)
    assert FQDN in await world.eventually(lambda: event(world, egress(), "TargetGone"))
    assert (await world.reason(egress()), await is_true(world, egress())) == ("TargetGone", False)
    assert not await world.writes_when_left_alone()
    join(world.control, "db", "tag:db")
    await look_again(world, "second")
    await world.becomes(lambda: message(world), "ProxyCreated")
    assert await is_true(world, egress())


@pytest.mark.simulated
async def test_a_destination_that_was_never_there_is_told_until_it_joins(world: World) -> None:
    world.control.has_all_targets = False
    await world.apply(egress())
    await world.becomes(lambda: world.reason(egress()), "TargetNotFound")
    lost = await world.eventually(lambda: event(world, egress(), "TargetNotFound"))
    assert (await message(world), await is_true(world, egress())) == (lost, False)
    assert not await world.writes_when_left_alone()
    world.peer()
    await world.becomes(lambda: message(world), "ProxyCreated")
    assert await is_true(world, egress())


async def test_a_destination_that_no_proxy_of_a_group_finds_is_told_until_it_joins(world: World) -> None:
    service = group_egress()
    await world.apply(proxy_group(), service)
    lost = await world.eventually(lambda: event(world, service, "TargetNotFound"))
    assert f"the proxies of ProxyGroup 'pg' find no device {FQDN} in the tailnet" in lost
    serving = "2 out of 2 replicas are ready to route traffic"
    await world.becomes(lambda: message(world, service, READY), f"{serving}; {lost}")
    assert not await world.writes_when_left_alone()
    world.peer()
    await world.becomes(lambda: message(world, service, READY), serving)


async def look_again(world: World, name: str) -> None:
    """Let the operator list the tailnet's devices, as it does when a proxy has joined."""
    await world.apply(connector(name, exitNode=True))


READY = "TailscaleEgressSvcReady"


async def message(world: World, service: Object | None = None, kind: str = "TailscaleProxyReady") -> str:
    """Return the message of the condition of the egress Service."""
    condition = await world.condition(service or egress(), kind)
    return condition.message if condition else ""


async def says(world: World, words: str) -> bool:
    """Tell whether *words* are in the message of the condition."""
    return words in await message(world)


FINDING_WRITES = {"condition": ("update", "services"), "event": ("create", "events")}


@pytest.mark.simulated
@pytest.mark.parametrize("write", cases(FINDING_WRITES, "condition"))
async def test_a_finding_is_told_though_a_write_fails(cluster: World, write: tuple[str, str]) -> None:
    async with running_operator(cluster):
        await cluster.apply(egress())
        await all_joined(cluster, egress())
    cluster.control.policy_tags = {"tag:k8s"}
    await cluster.annotate(egress(), {"tailscale.com/tags": "tag:db"})
    for status in (500, 409):
        cluster.sim.faults.fail(Failure(status, verb=write[0], plural=write[1]))
    async with running_operator(cluster):
        await cluster.becomes(lambda: cluster.reason(egress()), "ProxyFailed")
        assert not await cluster.writes_when_left_alone()
