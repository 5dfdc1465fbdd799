"""Egress Services on a cluster: the operator runs, and the state of the world is looked at."""

import asyncio

import pytest
from clustersim.faults import Failure
from tsoperator.api.names import FINALIZER
from tsoperator.api.objects import SECRET, STATEFULSET, Key, Object, key_of, uid
from tsoperator.api.rules import child_name
from tsoperator.desired.children import Owner

from tests.support.manifests import DOMAIN, FQDN, backend, egress
from tests.support.operator import NAMESPACE, Proxy, World, running_operator

TARGET_FQDN = "TS_TAILNET_TARGET_FQDN"


async def test_a_service_gets_a_proxy_and_leads_to_it(world: World) -> None:
    await world.apply(egress())
    proxy = await world.joined(egress())
    service = await world.look(egress())
    assert service["spec"]["externalName"] == f"{proxy.name}.tailscale.svc.cluster.local"
    assert FINALIZER in service["metadata"]["finalizers"]
    assert proxy.env[TARGET_FQDN] == f"{FQDN}."
    assert proxy.config["Hostname"] == "default-db"
    assert await world.device_names() == [f"default-db.{DOMAIN}"]


async def test_without_its_annotation_a_service_loses_its_proxy_and_its_condition(world: World) -> None:
    await world.apply(egress(hostname="orders"))
    await world.joined(egress())
    await world.annotate(egress(), {"tailscale.com/tailnet-fqdn": None})
    await world.becomes(lambda: world.leftovers(egress()), [])
    await world.settled()
    assert await world.condition(egress()) is None
    service = await world.look(egress())
    assert "finalizers" not in service["metadata"]
    assert service["metadata"]["annotations"] == {"tailscale.com/hostname": "orders"}
    assert await pointed(world)  # nobody knows where it pointed before
    assert await world.device_names() == []


async def test_a_users_service_labelled_as_a_proxys_is_the_users(world: World) -> None:
    stranger = backend("copied")
    stranger["metadata"]["labels"] = Owner("svc", key_of(egress())).labels
    await world.apply(stranger, egress())
    proxy = await world.joined(egress())
    assert key_of(proxy.service).namespace == NAMESPACE
    await world.annotate(stranger, {"tailscale.com/expose": "true"})
    await world.becomes(lambda: world.reason(stranger), "ProxyCreated")
    await world.delete(egress())
    await world.eventually(lambda: world.gone(egress()))
    assert not await world.gone(stranger)


async def set_back(world: World) -> None:
    """Set the Service back as often as it is changed, as a tool does that keeps to its manifest."""
    with world.store.subscribe() as changes:
        while True:
            if await pointed(world):
                await world.change(egress(), {"spec": {"externalName": "placeholder"}})
            await changes.batch()


async def pointed(world: World) -> bool:
    """Tell whether the Service points at a proxy."""
    return "ts-db-" in (await world.look(egress()))["spec"].get("externalName", "")


@pytest.mark.real_time
async def test_a_rival_that_sets_a_service_back_is_told_and_the_service_wins_in_the_end(world: World) -> None:
    await world.apply(egress())
    await world.joined(egress())
    async with asyncio.TaskGroup() as tasks:
        rival = tasks.create_task(set_back(world))
        await world.becomes(lambda: world.reason(egress()), "ProxyPending")
        message = (await world.events(egress()))["ExternalNameOverwritten"]
        condition = await world.condition(egress())
        rival.cancel()
    assert (condition and condition.message, "spec.externalName" in message) == (message, True)
    await world.becomes(lambda: world.reason(egress()), "ProxyCreated")
    assert await pointed(world)
    assert not await world.writes_when_left_alone()


@pytest.mark.simulated
async def test_a_rewrite_counts_even_if_it_cannot_be_reported(world: World) -> None:
    world.sim.faults.fail(Failure(status=409, times=10**9, verb="update", plural="services"))
    await world.apply(egress())
    async with asyncio.TaskGroup() as tasks:
        rival = tasks.create_task(set_back(world))
        await world.eventually(lambda: overwritten(world))
        rival.cancel()


async def overwritten(world: World) -> bool:
    """Tell whether it is said that somebody sets the Service back."""
    return "ExternalNameOverwritten" in await world.events(egress())


async def test_a_service_that_is_set_back_once_is_mended_without_a_word(world: World) -> None:
    await world.apply(egress())
    await world.joined(egress())
    await world.change(egress(), {"spec": {"type": "ClusterIP", "externalName": None, "ports": [{"port": 80}]}})
    await world.eventually(lambda: pointed(world))
    await world.settled()
    assert (await world.reason(egress()), await world.events(egress())) == ("ProxyCreated", {})


@pytest.mark.simulated
async def test_a_rival_is_forgotten_when_the_service_asks_for_nothing(world: World) -> None:
    await world.apply(egress())
    await world.joined(egress())
    async with asyncio.TaskGroup() as tasks:
        rival = tasks.create_task(set_back(world))
        await world.eventually(lambda: overwritten(world))
        rival.cancel()
    await world.annotate(egress(), {"tailscale.com/tailnet-fqdn": None})
    await world.becomes(lambda: world.leftovers(egress()), [])
    await world.annotate(egress(), {"tailscale.com/tailnet-fqdn": FQDN})
    await world.joined(egress())
    await world.change(egress(), {"spec": {"externalName": "placeholder"}})
    await world.eventually(lambda: pointed(world))
    await world.settled()
    assert await world.reason(egress()) == "ProxyCreated"


async def test_a_new_hostname_keeps_the_key_of_a_proxy_that_has_yet_to_log_in(cluster: World) -> None:
    await cluster.apply(egress())
    name = f"{child_name('db', uid(await cluster.look(egress())))}-0"
    spec = {"containers": [{"name": "other", "image": "example.org/other:1"}]}
    blocker = {"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "tailscale", "name": name}, "spec": spec}
    await cluster.apply(blocker)  # nobody's: the StatefulSet can't have its own Pod
    async with running_operator(cluster):
        await cluster.becomes(lambda: cluster.reason(egress()), "ProxyCreated")
        before = await config(cluster, name)
        await cluster.annotate(egress(), {"tailscale.com/hostname": "orders"})
        await cluster.becomes(lambda: config(cluster, name), before | {"Hostname": "orders"})
        await cluster.delete(blocker)
        statefulset = (await cluster.children(STATEFULSET, egress()))[0]
        await cluster.annotate(statefulset, {"example.org/try-again": "now"})  # or wait until its controller does
        await cluster.becomes(cluster.device_names, [f"orders.{DOMAIN}"])
        assert ("AuthKey" in before, len(cluster.control.keys)) == (True, 1)


async def config(world: World, name: str) -> Object:
    """Return the newest configuration in the Secret named *name*."""
    return Proxy({}, {}, await world.api.get(SECRET, Key("tailscale", name)), {}).config


@pytest.mark.simulated
async def test_a_key_with_other_tags_than_are_asked_for_now_is_not_used(world: World) -> None:
    world.sim.faults.fail(Failure(403, times=1000, verb="create", plural="secrets"))
    await world.apply(egress())
    await world.becomes(lambda: world.reason(egress()), "ProxyFailed")
    await world.annotate(egress(), {"tailscale.com/tags": "tag:db"})
    await world.settled()
    world.sim.faults.clear()
    await world.joined(egress())
    assert [device.tags for device in world.control.devices.values()] == [("tag:db",)]


async def test_a_manifest_that_says_nothing_of_where_it_points_can_be_applied_again(world: World) -> None:
    manifest = egress()
    manifest["spec"] = {"ports": [{"port": 5432}]}
    await world.apply(manifest)
    await world.joined(manifest)
    assert (await world.writes_during(reapplied(world, manifest))).total() <= 1  # the manifest itself
    assert await pointed(world)


async def reapplied(world: World, manifest: Object) -> None:
    """Apply *manifest* once more, and wait for what comes of it."""
    service = await world.look(manifest)
    ports = service["spec"]["ports"]
    assert service["spec"]["type"] == "ExternalName"
    await world.change(manifest, {"metadata": manifest["metadata"], "spec": {"ports": ports}})
    await world.settled()
