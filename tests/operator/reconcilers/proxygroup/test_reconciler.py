"""ProxyGroups on a cluster: the operator runs, and the state of the world is looked at."""

from typing import Any

import pytest
from tsoperator.api.names import FINALIZER
from tsoperator.api.objects import (
    CONFIGMAP,
    NODE,
    ROLE,
    ROLEBINDING,
    SECRET,
    SERVICE,
    SERVICEACCOUNT,
    STATEFULSET,
    Object,
    key_of,
    labels,
)

from tests.support.groups import Replica, entries, leftovers, ready_group, replicas
from tests.support.manifests import DOMAIN, group_egress, proxy_class, proxy_group
from tests.support.operator import Condition, World, running_operator

READY = "ProxyGroupReady"
AVAILABLE = "ProxyGroupAvailable"
FOO = proxy_group("foo")
NAMED = (SERVICEACCOUNT, ROLE, ROLEBINDING, STATEFULSET)


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


async def test_a_group_of_another_type_says_that_nothing_is_done_for_it(world: World) -> None:
    other = proxy_group(type="ingress")
    await world.apply(other)
    await world.becomes(lambda: world.reason(other, READY), "NotSupportedYet")
    assert not await world.writes_when_left_alone()
    await world.delete(other)
    await world.eventually(lambda: world.gone(other))


async def test_each_replica_of_a_group_joins_the_tailnet(world: World) -> None:
    await world.apply(FOO)
    found = await whole(world)
    assert await world.device_names() == [f"foo-0.{DOMAIN}", f"foo-1.{DOMAIN}"]
    assert [key.used for key in world.control.keys.values()] == [True, True]
    assert {device.tags for device in world.control.devices.values()} == {("tag:k8s",)}
    shown = [(await world.look(FOO))["status"]["devices"][number]["tailnetIPs"] for number in (0, 1)]
    assert shown == [list(world.control.devices[each.device_id].addresses) for each in found]
    assert await world.condition(FOO, AVAILABLE) == Condition("True", AVAILABLE, "2/2 ProxyGroup pods running")
    assert FINALIZER in (await world.look(FOO))["metadata"]["finalizers"]
    assert not await world.writes_when_left_alone()


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


async def test_no_replicas_are_no_devices(world: World) -> None:
    await world.apply(FOO)
    await whole(world)
    await world.change(FOO, {"spec": {"replicas": 0}})
    none = Condition("False", "ProxyGroupCreating", "0/0 ProxyGroup pods running")
    await world.becomes(lambda: world.condition(FOO, AVAILABLE), none)
    await world.becomes(lambda: replicas(world, FOO), [])
    await world.settled()
    assert await world.device_names() == []
    assert await world.reason(FOO, READY) == READY


async def test_a_group_that_is_deleted_leaves_nothing(world: World) -> None:
    await world.apply(FOO)
    await whole(world)
    await world.delete(FOO)
    await world.eventually(lambda: world.gone(FOO))
    assert await world.device_names() == []
    await world.becomes(lambda: leftovers(world), [])
    for kind in NAMED:
        await world.becomes(lambda kind=kind: world.find(kind, "foo"), None)  # type: ignore[misc]  # bound here


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


async def test_entries_come_and_go_with_the_services_of_the_group(world: World) -> None:
    await world.apply(FOO)
    await whole(world)
    await world.apply(service := group_egress("db", "foo"), group_egress("web", "foo"))
    await world.becomes(lambda: entry_names(world), ["default-db", "default-web"])
    entry = (await entries(world, FOO))["default-db"]
    assert entry["tailnetTarget"] == {"ip": "", "fqdn": "db.tail1234.ts.net"}
    assert [port["targetPort"] for port in entry["ports"]] == [5432]
    await world.delete(service)
    await world.becomes(lambda: entry_names(world), ["default-web"])
    assert not await world.writes_when_left_alone()


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


async def test_a_group_waits_for_its_class(world: World) -> None:
    classy = proxy_group("foo", proxyClass="prod")
    await world.apply(classy)
    await world.becomes(lambda: world.reason(classy, READY), "ProxyGroupCreating")
    assert "ProxyClass 'prod' does not exist" in (await world.condition(classy, READY) or Condition("", "", "")).message
    await world.settled()
    assert await world.find(STATEFULSET, "foo") is None
    await world.apply(proxy_class("prod", metrics={"enable": True}))
    await whole(world, classy)
    service = await world.find(SERVICE, "foo-metrics")
    assert service is not None
    assert labels(service)["ts_prom_job"] == "ts_proxygroup_foo"
    await world.change(proxy_class("prod"), {"spec": {"metrics": None}})
    await world.becomes(lambda: world.find(SERVICE, "foo-metrics"), None)


@pytest.mark.parametrize("kind", [*NAMED, CONFIGMAP, SECRET], ids=str)
async def test_a_child_that_is_lost_or_changed_is_put_right(world: World, kind: Any) -> None:
    name = {CONFIGMAP: "foo-egress-config", SECRET: "foo-1-config"}.get(kind, "foo")
    await world.apply(FOO)
    await whole(world)
    child = await world.find(kind, name)
    assert child is not None
    marks = labels(child)
    await world.change(child, {"metadata": {"labels": dict.fromkeys(marks), "ownerReferences": None}})

    async def marked() -> bool:
        found = await world.find(kind, name)
        return found is not None and marks == labels(found) and bool(found["metadata"].get("ownerReferences"))

    await world.eventually(marked)
    await world.delete(child)
    await world.eventually(marked)
    await whole(world)


async def test_a_name_that_another_object_has_is_not_taken(world: World) -> None:
    group = proxy_group("operator")  # the chart's ServiceAccount has this name
    account = await world.find(SERVICEACCOUNT, "operator")
    assert account is not None
    await world.apply(group)
    await world.becomes(lambda: world.reason(group, READY), "ProxyGroupCreationFailed")
    said = (await world.events(group))["ProxyGroupCreationFailed"]
    assert "ServiceAccount tailscale/operator is in the way" in said
    assert await world.children(ROLE, group) == []
    assert await world.find(SERVICEACCOUNT, "operator") == account
    await world.delete(group)
    await world.eventually(lambda: world.gone(group))


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


async def test_a_group_with_a_tailnet_that_is_not_there_says_so_and_can_go(world: World) -> None:
    away = proxy_group("foo", tailnet="nonesuch")
    await world.apply(away)
    await world.becomes(lambda: world.reason(away, READY), "ProxyGroupTailnetUnavailable")
    assert "nonesuch" in (await world.events(away))["ProxyGroupTailnetUnavailable"]
    await world.delete(away)
    await world.eventually(lambda: world.gone(away))


async def test_a_change_of_the_default_class_reaches_the_groups_that_name_none(cluster: World) -> None:
    async with running_operator(cluster, proxy_class="prod"):
        await cluster.apply(FOO)
        await cluster.becomes(lambda: cluster.reason(FOO, READY), "ProxyGroupCreating")
        await cluster.apply(proxy_class("prod"))
        await whole(cluster)
        await cluster.change(proxy_class("prod"), {"spec": {"metrics": {"enable": True}}})
        await cluster.eventually(lambda: cluster.find(SERVICE, "foo-metrics"))


async def test_the_devices_get_the_tags_and_names_that_the_group_asks_for(world: World) -> None:
    await world.apply(FOO)
    before = await whole(world)
    await world.change(FOO, {"spec": {"tags": ["tag:gate"], "hostnamePrefix": "gate"}})
    await world.becomes(world.device_names, [f"gate-0.{DOMAIN}", f"gate-1.{DOMAIN}"])
    await world.becomes(lambda: tags(world), {("tag:gate",)})
    await world.becomes(lambda: devices(world), ["gate-0", "gate-1"])
    assert [each.device_id for each in before] == sorted(world.control.devices)


async def tags(world: World) -> set[tuple[str, ...]]:
    return {device.tags for device in world.control.devices.values()}


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
