"""ProxyGroups on a cluster with the operator. Some tests call the reconciler on a cluster without controllers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

import pytest
from clustersim.sim import SimOptions, cluster_sim
from tsoperator.api.device import Device
from tsoperator.api.objects import (
    CONFIGMAP,
    DEVICE,
    ENDPOINTSLICE,
    NODE,
    POD,
    PROXYGROUP,
    SECRET,
    SERVICE,
    STATEFULSET,
    TAILNET,
    Key,
    Object,
    uid,
)
from tsoperator.group.proxygroup import group_owner
from tsoperator.kube.client import KubeClient
from tsoperator.reconcilers.proxies import Proxies
from tsoperator.reconcilers.proxygroup.accounts import account_key
from tsoperator.reconcilers.proxygroup.reconciler import proxygroups
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.kind import KindReconciler
from tsoperator.runtime.manager import Reconciler
from tsoperator.runtime.ownership import owner_reference
from tsoperator.sources import sources
from tsoperator.tailnet.tailnet import device_object

from tests.operator.reconcilers.proxygroup.groups import live_group
from tests.support.cluster import kube_client, put, running, until
from tests.support.groups import Replica, entries, ready_group
from tests.support.hosting import no_hosting
from tests.support.manifests import DOMAIN, backend, group_egress, proxy_class, proxy_group, tailnet
from tests.support.objects import OPERATOR_NAMESPACE, deleting, held, obj, settings, whole_secret
from tests.support.operator import NAMESPACE, World, running_operator
from tests.support.othertailnet import NAME, other_tailnet
from tests.support.tailnets import applier, running_tailnets, tailnet_client

READY = "ProxyGroupReady"
FOO = proxy_group("foo")


async def whole(world: World, group: Object = FOO, count: int = 2) -> list[Replica]:
    """Wait until *group* is ready, has no auth keys left, and the operator has settled. Return the replicas."""
    await world.becomes(lambda: devices(world, group), [f"foo-{number}" for number in range(count)])
    await world.becomes(lambda: world.reason(group, READY), READY)

    async def holding_keys() -> list[bool]:
        return ["AuthKey" in each.tailscaled for each in await ready_group(world, group, count)]

    await world.becomes(holding_keys, [False] * count)
    await world.settled()
    return await ready_group(world, group, count)


async def devices(world: World, group: Object = FOO) -> list[str]:
    return [device["hostname"] for device in ((await world.look(group)).get("status") or {}).get("devices", ())]


async def message(world: World, kind: str = READY) -> str:
    condition = await world.condition(FOO, kind)
    return condition.message if condition else ""


@pytest.mark.simulated
async def test_a_deleted_group_whose_proxies_ignore_sigterm_names_the_pods_and_is_gone_within_40_seconds(
    world: World,
) -> None:
    world.sim.kubelet.second, world.sim.kubelet.ignores_sigterm = 1.0, True
    await world.apply(FOO, group_egress("db", "foo"))
    await whole(world)
    await world.delete(FOO)
    await world.becomes(lambda: world.reason(FOO, READY), "ProxyGroupTerminating")
    await asyncio.sleep(25)
    assert await message(world) == "it is being removed: waiting for Pod tailscale/foo-0 and tailscale/foo-1 to end"
    await world.eventually(lambda: world.gone(FOO), timeout=15)
    assert await world.device_names() == []


@pytest.mark.simulated
async def test_a_rollout_waits_a_minute_at_most_for_a_proxy_that_ignores_sigterm(world: World) -> None:
    await world.apply(FOO)
    last = (await whole(world))[1].pod
    assert last is not None
    world.sim.kubelet.second, world.sim.kubelet.ignores_sigterm = 1.0, True
    await world.change(FOO, {"spec": {"replicas": 3}})
    words = "3/3 ProxyGroup pods running; waiting for Pod tailscale/foo-1 to end"
    await world.becomes(lambda: message(world, "ProxyGroupAvailable"), words)
    await asyncio.sleep(61)
    after = await world.find(POD, "foo-1")
    assert after is not None
    assert uid(after) != uid(last)


async def entry_names(world: World) -> list[str]:
    return sorted(await entries(world, FOO) or ())


@pytest.mark.simulated  # on a real API server a busy machine stretches the burst
async def test_a_burst_of_new_services_causes_few_writes_of_the_configmap(world: World) -> None:
    await world.apply(FOO)
    await whole(world)
    names = [f"db-{number}" for number in range(60)]

    async def burst() -> None:
        await world.apply(*(group_egress(name, "foo") for name in names))
        await world.becomes(lambda: entry_names(world), sorted(f"default-{name}" for name in names))

    written = await world.writes_during(burst())
    assert sum(count for (_, _, kind), count in written.items() if kind == CONFIGMAP.plural) < 45


OUTSIDE = obj(NODE, Key("", "outside"), {"status": {"addresses": [{"type": "ExternalIP", "address": "192.0.2.1"}]}})


def static_class(first: int, last: int) -> Object:
    return proxy_class("prod", staticEndpoints={"nodePort": {"ports": [{"port": first, "endPort": last}]}})


async def test_the_static_endpoints_of_a_group_change_with_the_nodes(world: World) -> None:
    class_, classy, outside = static_class(30001, 30002), proxy_group("foo", proxyClass="prod"), OUTSIDE
    await world.apply(class_, classy)
    await world.becomes(lambda: world.reason(classy, READY), "ProxyGroupCreationFailed")
    await put(world.api, outside)
    await whole(world, classy)
    wanted = [["192.0.2.1:30001"], ["192.0.2.1:30002"]]
    await world.becomes(lambda: static_endpoints(world, classy), wanted)
    await world.delete(outside)
    await world.becomes(lambda: world.reason(classy, READY), "ProxyGroupCreationFailed")
    assert await static_endpoints(world, classy) == wanted
    await world.change(class_, {"spec": {"staticEndpoints": None}})
    await world.becomes(lambda: static_endpoints(world, classy), [None, None])
    await world.becomes(lambda: world.find(SERVICE, "foo-0-nodeport"), None)


async def test_a_group_does_not_use_the_node_port_of_a_users_service(world: World) -> None:
    classy = proxy_group("foo", proxyClass="prod")
    spec = {"type": "NodePort", "ports": [{"port": 80, "nodePort": 30004}]}
    await world.apply({**backend("web"), "spec": spec}, static_class(30003, 30005), classy)
    await put(world.api, OUTSIDE)
    await whole(world, classy)
    await world.becomes(lambda: static_endpoints(world, classy), [["192.0.2.1:30003"], ["192.0.2.1:30005"]])
    assert not await world.writes_when_left_alone()


async def static_endpoints(world: World, group: Object) -> list[list[str] | None]:
    found = (await world.look(group))["status"].get("devices", ())
    return [device.get("staticEndpoints") for device in found]


async def test_a_change_of_the_default_class_reaches_the_groups_that_name_no_class(cluster: World) -> None:
    async with running_operator(cluster, proxy_class="prod"):
        await cluster.apply(FOO)
        await cluster.becomes(lambda: cluster.reason(FOO, READY), "ProxyGroupCreating")
        await cluster.apply(proxy_class("prod"))
        await whole(cluster)
        await cluster.change(proxy_class("prod"), {"spec": {"metrics": {"enable": True}}})
        await cluster.eventually(lambda: cluster.find(SERVICE, "foo-metrics"))


async def test_an_egress_group_that_is_deleted_and_created_again_serves_its_services(world: World) -> None:
    await world.apply(FOO, service := group_egress("db", "foo"))
    await whole(world)
    await world.becomes(lambda: world.reason(service, "TailscaleEgressSvcReady"), "ReadyToRouteTraffic")
    await world.delete(FOO)
    await world.eventually(lambda: world.gone(FOO))
    await world.apply(FOO)
    await whole(world)
    await world.becomes(lambda: entry_names(world), ["default-db"])
    await world.becomes(lambda: world.reason(service, "TailscaleEgressSvcReady"), "ReadyToRouteTraffic")
    assert await world.device_names() == [f"foo-0.{DOMAIN}", f"foo-1.{DOMAIN}"]


async def serves_and_ends(world: World, count: int) -> None:
    """Check that *count* Pods of the group serve a new Service at once, and that the Service can be deleted at once."""
    await world.apply(service := group_egress("new", "foo"))

    async def endpoints() -> int:
        found = (await world.api.list(ENDPOINTSLICE, NAMESPACE, "tailscale.com/parent-resource=new")).items
        return sum(len(each["endpoints"] or ()) for each in found)

    async with asyncio.timeout(10):
        await world.becomes(endpoints, count)
        await world.delete(service)
        await world.eventually(lambda: world.gone(service))
    assert await entry_names(world) == []


@pytest.mark.simulated
async def test_a_group_serves_new_services_and_drops_deleted_services_while_the_control_server_hangs(
    world: World,
) -> None:
    await world.apply(FOO)
    await whole(world)
    world.control.latency = 3600
    await world.change(FOO, {"spec": {"replicas": 3}})
    await serves_and_ends(world, 2)
    await world.change(FOO, {"spec": {"replicas": 1}})
    await world.becomes(lambda: world.find(POD, "foo-1"), None)
    await world.becomes(lambda: devices(world), ["foo-0"])
    await serves_and_ends(world, 1)  # while the device of a surplus replica is being deleted
    assert len(world.control.devices) == 2


@pytest.mark.simulated
async def test_a_group_serves_new_services_and_drops_deleted_services_before_its_tailnet_is_checked(
    cluster: World,
) -> None:
    group = proxy_group("foo", tailnet=NAME)
    async with other_tailnet(cluster) as lab:
        async with running_operator(cluster):
            await cluster.apply(lab.secret(), lab.tailnet(), group)
            await whole(cluster, group)
        lab.control.latency = 3600
        async with running_operator(cluster):
            await serves_and_ends(cluster, 2)
            await cluster.delete(group)
            await cluster.becomes(lambda: cluster.find(STATEFULSET, "foo"), None)
            await cluster.becomes(lambda: cluster.reason(group, READY), "ProxyGroupTailnetUnavailable")
            lab.control.heal()
            await cluster.eventually(lambda: cluster.gone(group), 90)
        assert lab.device_names() == []


KEY, LABELS = Key("", "foo"), group_owner("foo").labels
LEAVING = deleting(held(live_group({"replicas": 1})))


def named(name: str) -> Key:
    return Key(OPERATOR_NAMESPACE, name)


class Hand(NamedTuple):
    """A client and a cache of a cluster without controllers, and a reconciler that a test calls."""

    client: KubeClient
    cache: Cache
    reconciler: Reconciler


@asynccontextmanager
async def by_hand(*there: Object) -> AsyncIterator[Hand]:
    cache = Cache(sources(OPERATOR_NAMESPACE))
    async with (
        cluster_sim(SimOptions(controllers=False)) as sim,
        kube_client(sim.api_url) as client,
        tailnet_client(sim.control, sim.control_url) as opened,
        running_tailnets(opened, client, cache, settings()) as tailnets,
    ):
        await put(client, *there)
        acting = applier(client, cache, tailnets)
        async with running(cache.follow(client)):
            await cache.synced()
            kind = proxygroups(Proxies(cache, acting, tailnets, settings()), no_hosting(cache, settings()))
            yield Hand(client, cache, KindReconciler(kind, cache, acting))


async def test_a_deleted_group_leaves_objects_that_another_owner_controls() -> None:
    owned = {"ownerReferences": [owner_reference(PROXYGROUP, "bar", "bar-uid")]}
    secret = whole_secret("foo-7", {}, LABELS)
    secret["metadata"] |= owned
    service = obj(SERVICE, named("foo-7-nodeport"), {"spec": {"ports": [{"port": 1}]}}, labels=LABELS, **owned)
    async with by_hand(LEAVING, secret, service) as (client, cache, reconciler):
        await reconciler.reconcile(KEY)
        await until(lambda: not cache.all(PROXYGROUP))
        for resource, name in ((SECRET, "foo-7"), (SERVICE, "foo-7-nodeport")):
            assert await client.get(resource, named(name))


async def test_a_change_of_an_object_causes_a_reconcile_of_the_groups_to_which_the_object_belongs() -> None:
    groups = [live_group({"tailnet": "lab"}), live_group(name="bar")]
    async with by_hand(*groups, whole_secret("foo-0", {"device_id": "n1"}, LABELS)) as (_, _, reconciler):
        assert [*reconciler.watches[POD](obj(POD, named("foo-0"), labels=LABELS))] == [KEY]
        assert [*reconciler.watches[TAILNET](tailnet("lab"))] == [KEY]
        assert [*reconciler.watches[TAILNET](tailnet("other"))] == []
        for device, keys in (("n1", [KEY]), ("n2", [])):
            assert [*reconciler.watches[DEVICE](device_object("lab", Device(device, "foo-0.example.org")))] == keys
        shared = obj(SECRET, account_key(OPERATOR_NAMESPACE), {})
        assert sorted(reconciler.watches[SECRET](shared)) == [Key("", "bar"), KEY]


async def test_a_replica_whose_login_is_refused_gets_another_auth_key(world: World) -> None:
    await world.apply(FOO)
    before = await whole(world)
    world.control.delete_device(world.control.devices[before[0].device_id])
    await world.becomes(lambda: minted(world), 3)

    async def has_joined_again() -> bool:
        return (await ready_group(world, FOO))[0].device_id not in ("", before[0].device_id)

    await world.eventually(has_joined_again)
    after = await whole(world)
    assert (after[0].device_id != before[0].device_id, after[1].device_id) == (True, before[1].device_id)


async def minted(world: World) -> int:
    """Return the number of auth keys that were minted."""
    return len(world.control.keys)
