"""Devices of proxies: their tags and names change with the parents. Missing approval and destinations are reported."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import pytest
from clustersim.faults import Failure
from clustersim.sim import SimOptions
from tsoperator.api.objects import POD, SECRET, SERVICE, STATEFULSET, Object, uid

from tests.operator.proxies import event, served_name
from tests.support.lanes import cases
from tests.support.manifests import (
    DOMAIN,
    FQDN,
    annotated,
    backend,
    connector,
    egress,
    group_egress,
    ingress,
    load_balancer,
    peer_relay,
    proxy_group,
)
from tests.support.objects import texts
from tests.support.operator import World, new_world, running_operator
from tests.support.tailnets import join

pytestmark = pytest.mark.full

TAGS = "/api/v2/device/{id}/tags"
NAME = f"default-db.{DOMAIN}"


async def tags(world: World) -> list[tuple[str, ...]]:
    return [device.tags for device in world.control.devices.values()]


async def all_joined(world: World, obj: Object, count: int = 1) -> list[str]:
    """Wait until *obj* has *count* proxies that report their devices; return the UIDs of their Pods."""

    async def joined() -> int:
        return sum("device_fqdn" in texts(secret) for secret in await world.children(SECRET, obj))

    await world.becomes(joined, count)
    await world.settled()
    return sorted(uid(pod) for pod in await world.children(POD, obj))


GATES = connector(exitNode=True, replicas=2, hostnamePrefix="gate")
RELAYS = peer_relay(replicas=2)
KINDS = {
    "egress": egress(tags="tag:web, tag:prod, tag:k8s"),
    "load balancer": load_balancer(),
    "ingress": ingress(),
    "connector": GATES,
    "relay": RELAYS,
}


def tagged(obj: Object, *tags: str) -> Object:
    has_field = obj["kind"] in ("Connector", "PeerRelay")
    return {"spec": {"tags": [*tags]}} if has_field else annotated(tags=", ".join(tags))


async def tells_of(world: World, obj: Object, tag: str) -> bool:
    return tag in (await world.events(obj)).get("TagsChanged", "")


@pytest.mark.parametrize("obj", cases(KINDS, "egress", "connector"))
async def test_an_edit_of_the_tags_of_an_object_changes_the_tags_of_its_running_devices(
    world: World, obj: Object
) -> None:
    count = 2 if obj in (GATES, RELAYS) else 1
    await world.apply(backend(), obj)
    pods = await all_joined(world, obj, count)
    await world.change(obj, tagged(obj, "tag:web", "tag:prod"))
    await world.becomes(lambda: tags(world), [("tag:web", "tag:prod")] * count)
    await world.eventually(lambda: tells_of(world, obj, "tag:k8s"))
    assert not await world.writes_when_left_alone()
    assert world.control.requests["POST", TAGS] == count
    assert await all_joined(world, obj, count) == pods


REFUSED = {
    "Service": (egress(), "TailscaleProxyReady", "ProxyFailed"),
    "Connector": (connector(), "ConnectorReady", "ConnectorCreationFailed"),
    "PeerRelay": (peer_relay(), "PeerRelayReady", "PeerRelayCreationFailed"),
}


@pytest.mark.parametrize("parent", cases(REFUSED, "Service"))
async def test_refused_tags_are_reported_once_and_tried_again_after_an_edit(
    world: World, parent: tuple[Object, str, str]
) -> None:
    obj, kind, reason = parent
    world.control.policy_tags = {"tag:k8s", "tag:web"}
    await world.apply(obj)
    await all_joined(world, obj)
    await world.change(obj, tagged(obj, "tag:db"))
    await world.becomes(lambda: world.reason(obj, kind), reason)
    said = await world.condition(obj, kind)
    assert said is not None
    assert all(words in said.message for words in ("tag:k8s", "tag:db", "invalid or not permitted"))
    assert not await world.writes_when_left_alone()
    assert (world.control.requests["POST", TAGS], await tags(world)) == (1, [("tag:k8s",)])
    await world.change(obj, tagged(obj, "tag:web"))
    await world.becomes(lambda: tags(world), [("tag:web",)])
    await world.eventually(lambda: is_true(world, obj, kind))


async def is_true(world: World, obj: Object, kind: str = "TailscaleProxyReady") -> bool:
    condition = await world.condition(obj, kind)
    return condition is not None and condition.status == "True"


@pytest.mark.parametrize("status", [403, 503])
async def test_an_operator_that_cannot_list_the_devices_does_all_its_other_work(world: World, status: int) -> None:
    world.control.fail(status, count=10_000, path="/devices")
    await world.apply(egress())
    await all_joined(world, egress())
    await world.change(egress(), annotated(hostname="orders"))
    await world.becomes(world.device_names, [f"orders.{DOMAIN}"])
    assert await world.reason(egress()) == "ProxyCreated"
    asked = world.control.requests["GET", "/api/v2/tailnet/-/devices"]
    assert status != 403 or asked <= 2  # one request for all proxies, and one of preflight


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


async def test_a_rebuilt_cluster_with_the_secrets_of_the_old_one_has_the_same_devices(cluster: World) -> None:
    parents = [egress(), ingress(), GATES]
    async with running_operator(cluster):
        await cluster.apply(*parents, backend())
        for obj, count in zip(parents, (1, 1, 2), strict=True):
            await all_joined(cluster, obj, count)
        before = {node: device.name for node, device in cluster.control.devices.items()}
        secrets = [secret for obj in parents for secret in await cluster.children(SECRET, obj)]
    children = [
        each for obj in parents for kind in (STATEFULSET, SERVICE) for each in await cluster.children(kind, obj)
    ]
    for obj in parents:
        await cluster.change(obj, {"metadata": {"finalizers": None}})
    await cluster.delete(*parents, *children, *secrets)
    await cluster.settled()
    kept = ("name", "namespace", "labels", "annotations")
    for secret in secrets:
        metadata = {field: secret["metadata"][field] for field in kept if field in secret["metadata"]}
        await cluster.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": secret["data"]})
    await cluster.apply(*parents)
    async with running_operator(cluster):
        for obj, count in zip(parents, (1, 1, 2), strict=True):
            await all_joined(cluster, obj, count)
        assert {node: device.name for node, device in cluster.control.devices.items()} == before
        assert not await cluster.writes_when_left_alone()


class Held(NamedTuple):
    """A device that holds a name, and the *words* by which the message says why the name isn't available."""

    words: str
    tags: Sequence[str] = ("tag:k8s", "tag:web")
    seconds: float = 600
    headscale: bool = False
    unasked: bool = False


HELD = {
    "offline for a minute": Held("in the last 5 minutes", seconds=60),
    "other tags": Held("has other tags: tag:k8s, tag:other, tag:web", ["tag:k8s", "tag:other", "tag:web"]),
    "fewer tags": Held("has other tags: tag:k8s;", ["tag:k8s"]),
    "Headscale": Held("does not tell whether devices are online", headscale=True),
    "unasked": Held(f"the name default-db is held by device {NAME} (n", unasked=True),
}


@pytest.mark.parametrize("held", cases(HELD, "offline for a minute"))
async def test_a_device_keeps_its_name_if_it_is_possibly_in_use_or_if_the_operator_takes_over_no_names(
    held: Held,
) -> None:
    options = SimOptions(headscale=held.headscale)
    async with new_world(options) as world, running_operator(world, take_over_names=not held.unasked):
        holder = join(world.control, "default-db", *held.tags)
        world.control.disconnect(holder.node_id, held.seconds)
        await world.apply(egress(tags="tag:k8s,tag:web"))
        await all_joined(world, egress())
        await world.eventually(lambda: says(world, held.words))
        assert held.words in await world.eventually(lambda: event(world, egress(), "NameHeld"))
        assert await world.device_names() == sorted([NAME, f"default-db-1.{DOMAIN}"])
        assert holder.node_id in world.control.devices
        assert await is_true(world, egress())
        assert not await world.writes_when_left_alone()


@pytest.mark.parametrize("gone", cases({"it is dead": False, "it is gone": True}, "it is dead"))
async def test_a_proxy_that_got_a_numbered_name_gets_its_own_name_once_the_name_is_free(
    cluster: World, gone: bool
) -> None:
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
        await cluster.change(load_balancer(), annotated(hostname="shop"))
        await cluster.becomes(lambda: served_name(cluster, load_balancer()), f"shop.{DOMAIN}")


async def test_a_destination_that_goes_away_and_comes_back_is_reported(world: World) -> None:
    target = join(world.control, "db", "tag:db")
    await world.apply(egress())
    await all_joined(world, egress())
    world.control.delete_device(target)
    # The operator reads the list of devices when the proxy of the Connector joins.
    await world.apply(connector("first", exitNode=True))
    await world.eventually(lambda: says(world, f"device {FQDN}, to which this leads, is not in the tailnet"))
    assert FQDN in await world.eventually(lambda: event(world, egress(), "TargetGone"))
    assert (await world.reason(egress()), await is_true(world, egress())) == ("TargetGone", False)
    assert not await world.writes_when_left_alone()
    join(world.control, "db", "tag:db")
    await world.apply(connector("second", exitNode=True))
    await world.becomes(lambda: world.condition(egress()), WELL)


@pytest.mark.simulated
async def test_a_destination_that_never_existed_is_reported_until_it_joins(world: World) -> None:
    world.control.has_all_targets = False
    await world.apply(egress())
    lost = await world.eventually(lambda: event(world, egress(), "TargetNotFound"))
    await world.becomes(lambda: world.condition(egress()), ("False", "TargetNotFound", lost))
    assert not await world.writes_when_left_alone()
    world.peer()
    await world.becomes(lambda: world.condition(egress()), WELL)


async def test_a_destination_that_no_proxy_of_a_group_finds_is_reported_until_it_joins(world: World) -> None:
    service, kind = group_egress(), "TailscaleEgressSvcReady"
    await world.apply(proxy_group(), service)
    lost = await world.eventually(lambda: event(world, service, "TargetNotFound"))
    assert f"the proxies of ProxyGroup 'pg' find no device {FQDN} in the tailnet" in lost
    serving = "2 out of 2 replicas are ready to route traffic"
    await world.eventually(lambda: says(world, f"{serving}; {lost}", service, kind))
    assert not await world.writes_when_left_alone()
    world.peer()
    await world.eventually(lambda: says(world, f"{serving}; Pods reach {FQDN} at ", service, kind))


WELL = ("True", "ProxyCreated", f"Pods reach {FQDN} as db.default.svc.cluster.local")


async def says(world: World, words: str, service: Object | None = None, kind: str = "TailscaleProxyReady") -> bool:
    condition = await world.condition(service or egress(), kind)
    return condition is not None and words in condition.message


@pytest.mark.simulated  # on a real API server the list of devices may not be read again that soon
async def test_a_device_that_needs_approval_is_reported_until_it_is_approved(cluster: World) -> None:
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
        await cluster.eventually(lambda: is_true(cluster, egress()), timeout=60)  # at the next reconcile of the Service


@pytest.mark.parametrize("take_over", [True, False], ids=["names are taken over", "names are left"])
async def test_two_services_that_ask_for_one_name_do_not_take_the_name_from_each_other(
    cluster: World, *, take_over: bool
) -> None:
    async with running_operator(cluster, take_over_names=take_over):
        for name in ("one", "two"):
            await cluster.apply(egress(name, hostname="db"))
            await all_joined(cluster, egress(name))
        first, second = await cluster.device_names()
        assert (first, second) == (f"db-1.{DOMAIN}", f"db.{DOMAIN}")
        told = await cluster.eventually(lambda: event(cluster, egress("two"), "NameHeld"))
        assert f"held by device {second} (" in told
        assert "a proxy of Service default/one" in told
        assert told.endswith("give one of these two objects another hostname")


FINDING_WRITES = {"condition": ("update", "services"), "event": ("create", "events")}


@pytest.mark.simulated
@pytest.mark.parametrize("write", cases(FINDING_WRITES, "condition"))
async def test_a_finding_is_reported_even_if_a_write_fails_at_first(cluster: World, write: tuple[str, str]) -> None:
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
