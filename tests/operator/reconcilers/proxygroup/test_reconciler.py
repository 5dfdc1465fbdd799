"""ProxyGroups on a cluster: the operator runs, and the state of the world is looked at."""

import pytest
from tsoperator.api.objects import CONFIGMAP, NODE, SECRET, SERVICE, STATEFULSET, Object, key_of

from tests.support.groups import Replica, entries, ready_group, replicas
from tests.support.manifests import DOMAIN, group_egress, proxy_class, proxy_group
from tests.support.operator import Condition, World, running_operator

READY = "ProxyGroupReady"
AVAILABLE = "ProxyGroupAvailable"
FOO = proxy_group("foo")


async def whole(world: World, group: Object = FOO, count: int = 2) -> list[Replica]:
    """Wait until *group* says that all its proxies run, none of which needs its auth key, and nothing is left to do."""
    await world.becomes(lambda: devices(world, group), [f"{name_of(group)}-{number}" for number in range(count)])
    await world.becomes(lambda: world.reason(group, READY), READY)
    await world.settled()
    found = await ready_group(world, group, count)
    assert ["AuthKey" in each.tailscaled for each in found] == [False] * count
    return found


def name_of(group: Object) -> str:
    name: str = group["metadata"]["name"]
    return name


async def devices(world: World, group: Object = FOO) -> list[str]:
    """Return the names of the devices in the status of *group*."""
    return [device["hostname"] for device in ((await world.look(group)).get("status") or {}).get("devices", ())]


async def test_a_replica_more_and_two_fewer_leave_the_other_devices(world: World) -> None:
    await world.apply(FOO)
    before = await whole(world)
    await world.change(FOO, {"spec": {"replicas": 3}})
    await whole(world, count=3)
    await world.change(FOO, {"spec": {"replicas": 1}})
    (after,) = await whole(world, count=1)
    assert after.device_id == before[0].device_id
    await world.becomes(world.device_names, [f"foo-0.{DOMAIN}"])
    await world.becomes(lambda: world.find(SECRET, "foo-1"), None)
    assert not await world.writes_when_left_alone()


async def test_a_device_is_not_taken_from_a_pod_that_runs(world: World) -> None:
    await world.apply(FOO)
    found = await whole(world)
    pod = found[1].pod
    assert pod is not None
    hold, let_go = ({"metadata": {"finalizers": finalizers}} for finalizers in (["example.org/hold"], None))
    await world.change(pod, hold)
    await world.delete(FOO)
    await world.becomes(lambda: world.find(STATEFULSET, "foo"), None)
    await world.settled()
    assert f"foo-1.{DOMAIN}" in await world.device_names()
    await world.change(pod, let_go)
    await world.eventually(lambda: world.gone(FOO))
    assert await world.device_names() == []


async def entry_names(world: World) -> list[str]:
    return sorted(await entries(world, FOO) or ())


@pytest.mark.simulated  # on a real API server the burst takes as long as the machine is busy
async def test_a_burst_of_services_is_few_writes_of_the_configmap(world: World) -> None:
    await world.apply(FOO)
    await whole(world)
    names = [f"db-{number}" for number in range(60)]

    async def burst() -> None:
        await world.apply(*(group_egress(name, "foo") for name in names))
        await world.becomes(lambda: entry_names(world), sorted(f"default-{name}" for name in names))

    written = await world.writes_during(burst())
    assert sum(count for (_, _, kind), count in written.items() if kind == CONFIGMAP.plural) < 45


async def test_a_broken_spec_keeps_what_runs_and_what_it_serves_up_to_date(world: World) -> None:
    classy = proxy_group("foo", proxyClass="prod")
    await world.apply(proxy_class("prod"), classy)
    await whole(world, classy)
    image = {"statefulSet": {"pod": {"tailscaleContainer": {"image": "example.org/k8s-proxy"}}}}
    await world.change(proxy_class("prod"), {"spec": image})
    await world.becomes(lambda: world.reason(classy, READY), "ProxyGroupInvalid")
    await world.apply(group_egress("db", "foo"))
    await world.becomes(lambda: entry_names(world), ["default-db"])
    assert await devices(world, classy) == ["foo-0", "foo-1"]
    assert (await world.condition(classy, AVAILABLE) or Condition("", "", "")).status == "True"


async def test_a_replica_whose_login_is_refused_gets_another_key(world: World) -> None:
    await world.apply(FOO)
    before = await whole(world)
    world.control.delete_device(world.control.devices[before[0].device_id])
    await world.eventually(lambda: rejoined(world, before[0].device_id))
    assert len(world.control.keys) == 3


async def rejoined(world: World, old: str) -> bool:
    found = await replicas(world, FOO)
    return len(world.control.devices) == 2 and found[0].device_id not in ("", old)


async def test_the_static_endpoints_follow_the_nodes(world: World) -> None:
    class_ = proxy_class("prod", staticEndpoints={"nodePort": {"ports": [{"port": 30001, "endPort": 30002}]}})
    classy = proxy_group("foo", proxyClass="prod")
    await world.apply(class_, classy)
    await world.becomes(lambda: world.reason(classy, READY), "ProxyGroupCreationFailed")
    await world.apply(outside := node("192.0.2.1"))
    await world.api.patch(NODE, key_of(outside), {"status": outside["status"]}, "status")
    await whole(world, classy)
    wanted = [["192.0.2.1:30001"], ["192.0.2.1:30002"]]
    await world.becomes(lambda: static_endpoints(world, classy), wanted)
    await world.delete(outside)
    await world.becomes(lambda: world.reason(classy, READY), "ProxyGroupCreationFailed")
    assert await static_endpoints(world, classy) == wanted
    await world.change(class_, {"spec": {"staticEndpoints": None}})
    await world.becomes(lambda: static_endpoints(world, classy), [None, None])
    await world.becomes(lambda: world.find(SERVICE, "foo-0-nodeport"), None)


def node(address: str) -> Object:
    status = {"addresses": [{"type": "ExternalIP", "address": address}]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "outside"}, "status": status}


async def static_endpoints(world: World, group: Object) -> list[list[str] | None]:
    """Return the static endpoints of each replica in the status of *group*."""
    found = (await world.look(group))["status"].get("devices", ())
    return [device.get("staticEndpoints") for device in found]


async def test_a_change_of_the_default_class_reaches_the_groups_that_name_none(cluster: World) -> None:
    async with running_operator(cluster, proxy_class="prod"):
        await cluster.apply(FOO)
        await cluster.becomes(lambda: cluster.reason(FOO, READY), "ProxyGroupCreating")
        await cluster.apply(proxy_class("prod"))
        await whole(cluster)
        await cluster.change(proxy_class("prod"), {"spec": {"metrics": {"enable": True}}})
        await cluster.eventually(lambda: cluster.find(SERVICE, "foo-metrics"))


async def test_a_group_that_goes_and_comes_back_serves_its_services_again(world: World) -> None:
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
