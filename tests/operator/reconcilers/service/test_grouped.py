"""Egress Services that a ProxyGroup serves, on a cluster with the reconciler: the tests write the group's objects."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
from clustersim.history import Change, Subscription
from clustersim.nodes import NODE_NAME
from clustersim.objects import CONFIGMAP as SIM_CONFIGMAP
from clustersim.objects import ENDPOINTSLICE as SIM_ENDPOINTSLICE
from clustersim.objects import SERVICE as SIM_SERVICE
from tsoperator.api.names import FINALIZER, PROXY_GROUP
from tsoperator.api.objects import POD, SERVICE, Key, Object, key_of
from tsoperator.group.clusterip import Target, cluster_ip_service, place_labels
from tsoperator.runtime.clock import loop_time
from tsoperator.runtime.ownership import Owner

from tests.operator.group.places import NAMES, PORTS
from tests.operator.reconcilers.service.played import (
    CLUSTER_DOMAIN,
    CONFIGURED,
    GRACE,
    READY,
    VALID,
    PlayedGroup,
    grouped,
    make_namespaces,
    running_services,
)
from tests.support.cluster import running
from tests.support.manifests import FQDN, dnsconfig, group_egress
from tests.support.objects import HOLD
from tests.support.operator import NAMESPACE, World

DOMAIN = f"{NAMESPACE}.svc.{CLUSTER_DOMAIN}"


@pytest.fixture
async def group(cluster: World) -> AsyncIterator[PlayedGroup]:
    """A ProxyGroup with two replicas, on a cluster where the reconciler of Services runs."""
    async with running_services(cluster):
        made = PlayedGroup(cluster)
        await made.start()
        yield made


async def external_name(world: World, service: Object) -> str:
    """Return the name of the place that *service* points at."""
    name: str = (await world.look(service))["spec"].get("externalName", "")
    return name.removesuffix(f".{DOMAIN}")


async def test_a_service_of_a_group_becomes_ready_as_its_proxies_report_its_entry(group: PlayedGroup) -> None:
    world = group.world
    await world.apply(grouped())
    place = await world.eventually(group.place)
    await world.becomes(lambda: external_name(world, grouped()), key_of(place).name)
    await world.becomes(lambda: world.reason(grouped(), READY), "NotReadyToRouteTraffic")
    assert (await world.look(grouped()))["metadata"]["finalizers"] == [FINALIZER]
    assert (await world.reason(grouped(), CONFIGURED)).startswith("ConfigurationFailed:ProxyGroup:egress:Config:")
    await group.configure()

    async def is_configured() -> bool:
        return (await world.reason(grouped(), CONFIGURED)).startswith("ConfiguredFor:ProxyGroup:egress:Config:")

    await world.eventually(is_configured)
    await group.report(0)
    await world.becomes(lambda: world.reason(grouped(), READY), "PartiallyReadyToRouteTraffic")
    assert await group.endpoints() == {"ipv4": (await group.addresses(0))[:1]}
    await group.report(1)
    await world.becomes(lambda: world.reason(grouped(), READY), "ReadyToRouteTraffic")
    assert await is_configured()
    assert await world.reason(grouped(), VALID) == "EgressSvcValid"
    assert not await world.writes_when_left_alone()


async def served(group: PlayedGroup) -> Object:
    """Let all proxies of *group* serve the Service, and return its place."""
    place = await group.world.eventually(group.place)
    await group.configure()
    await group.report()
    await group.world.becomes(lambda: group.world.reason(grouped(), READY), "ReadyToRouteTraffic")
    await group.world.settled()
    return place


@pytest.mark.simulated  # a deleted Pod stays only on a simulated node without a kubelet
async def test_a_pod_that_is_being_deleted_gets_no_connections(group: PlayedGroup) -> None:
    await group.world.apply(grouped())
    await served(group)
    group.world.sim.store.silent_nodes.add(NODE_NAME)
    await group.world.api.delete(POD, Key(NAMESPACE, "egress-0"))
    assert await group.addresses(0)
    await group.world.becomes(group.endpoints, {"ipv4": (await group.addresses(1))[:1]})
    await group.world.becomes(lambda: group.world.reason(grouped(), READY), "PartiallyReadyToRouteTraffic")


async def test_a_name_leads_to_the_new_place_while_a_finalizer_of_others_keeps_the_old_place(cluster: World) -> None:
    group, labels = PlayedGroup(cluster), place_labels(Owner("svc", key_of(grouped())), "egress")
    name = Key(NAMESPACE, "ts-db-x7k2p")  # a name such as the Go operator gives: the new place gets another
    made = cluster_ip_service(name, labels, Target(FQDN, ""), PORTS, NAMES)
    await cluster.apply(dnsconfig(), grouped(), made)
    async with running_services(cluster):
        await group.start()
        await served(group)
        await cluster.change(made, HOLD)
        await cluster.delete(made)
        await cluster.settled()
        assert await external_name(cluster, grouped()) == name.name
        places = (await cluster.api.list(SERVICE, NAMESPACE, f"{PROXY_GROUP}=egress")).items
        (new,) = (each for each in places if key_of(each) != name)
        assert await cluster.records() == {FQDN: [new["spec"]["clusterIP"]]}


@pytest.mark.real_time
async def test_a_pod_that_replaces_another_gets_connections_only_after_the_wait_for_newcomers(cluster: World) -> None:
    group = PlayedGroup(cluster)
    async with running_services(cluster):
        await group.start()
        async with running(group.play()):
            await cluster.apply(grouped())
            await cluster.becomes(lambda: cluster.reason(grouped(), READY), "ReadyToRouteTraffic")
            await asyncio.sleep(GRACE)
            replaced = loop_time()
            await group.replace_pod(1)
            await group.report(1)
            both = sorted([(await group.addresses(ordinal))[0] for ordinal in range(2)])
            await cluster.becomes(group.endpoints, {"ipv4": both})
    assert loop_time() - replaced >= GRACE


async def test_a_service_moves_from_group_to_group_to_its_own_proxy_and_back(group: PlayedGroup) -> None:
    world, other = group.world, PlayedGroup(group.world, "other")
    await other.start()
    async with running(group.play(), other.play()):
        await world.apply(dnsconfig(), grouped())
        await world.becomes(lambda: world.reason(grouped(), READY), "ReadyToRouteTraffic")
        place = await world.eventually(group.place)
        await world.becomes(world.records, {FQDN: [place["spec"]["clusterIP"]]})
        with world.store.subscribe(SIM_CONFIGMAP) as changes:
            await moves_to(world, "other")
            await world.becomes(group.place, None)
            await moves_to(world, None)
            await world.becomes(other.place, None)
            assert await world.reason(grouped()) == "ProxyCreated"
            await moves_to(world, "egress")
            await world.becomes(world.device_names, [])
            changes.close()
            told = [change.object async for change in changes if change.object["metadata"]["name"] == "dnsrecords"]
        assert all(len(json.loads(each["data"]["records.json"])["ip4"][FQDN]) == 1 for each in told)
        await world.delete(grouped())
        await world.eventually(lambda: world.gone(grouped()))
        assert await world.leftovers(grouped()) == []


async def moves_to(world: World, group: str | None) -> None:
    """Change the group that the Service names; None for no group. Wait until the Service points at the new place."""
    old = await external_name(world, grouped())
    await world.annotate(grouped(), {"tailscale.com/proxy-group": group})

    async def moved() -> bool:
        return await external_name(world, grouped()) not in ("", old)

    await world.eventually(moved)


async def test_a_service_says_that_its_group_is_deleted_and_is_served_again_when_the_group_is_back(
    group: PlayedGroup,
) -> None:
    world = group.world
    async with running(group.play()):
        await world.apply(grouped())
        await world.becomes(lambda: world.reason(grouped(), READY), "ReadyToRouteTraffic")
        place = await world.eventually(group.place)
        await group.stop()
        await world.becomes(lambda: world.reason(grouped(), VALID), "ProxyGroupNotReady")
        condition = await world.condition(grouped(), VALID)
        assert condition
        assert "ProxyGroup 'egress' does not exist: create it" in condition.message
        await world.becomes(group.endpoints, {"ipv4": []})
        await group.start()
        await group.configure()
        await group.report()
        await world.becomes(lambda: world.reason(grouped(), READY), "ReadyToRouteTraffic")
    assert key_of(await world.eventually(group.place)) == key_of(place)


async def test_the_younger_of_two_services_with_the_same_entry_name_waits_for_the_older_service(
    group: PlayedGroup,
) -> None:
    world = group.world
    older, younger = grouped("b-c"), grouped("c")
    older["metadata"]["namespace"], younger["metadata"]["namespace"] = "a", "a-b"
    await make_namespaces(world, "a", "a-b")
    await world.apply(older)
    await world.eventually(group.place)
    await world.apply(younger)
    await world.becomes(lambda: world.reason(younger, VALID), "EgressSvcInvalid")
    assert "Service a/b-c there: rename one" in (await world.events(younger))["INVALIDSERVICE"]
    assert "finalizers" not in (await world.look(younger))["metadata"]
    await world.delete(older)
    await world.becomes(lambda: world.reason(younger, VALID), "EgressSvcValid")


async def test_a_service_reports_that_no_proxy_ports_are_free_and_gets_ports_when_other_services_are_deleted(
    group: PlayedGroup,
) -> None:
    world, big, small = group.world, grouped("big", "egress", *range(1, 1001)), grouped("small")
    await world.apply(big)
    await world.eventually(group.place)
    await world.apply(small)

    async def told() -> bool:
        condition = await world.condition(small, CONFIGURED)
        return condition is not None and "has too few free ports" in condition.message

    await world.eventually(told)
    assert "finalizers" not in (await world.look(small))["metadata"]
    assert await external_name(world, small) == "placeholder"
    await world.delete(big)
    await world.becomes(lambda: world.reason(small, READY), "NotReadyToRouteTraffic")
    assert (await external_name(world, small)).startswith("ts-small-")


async def test_services_that_are_applied_at_the_same_time_get_different_ports_by_few_writes(group: PlayedGroup) -> None:
    world, services = group.world, [grouped(f"db-{number}") for number in range(30)]

    async def apply() -> None:
        await asyncio.gather(*(world.apply(service) for service in services))
        for service in services:
            await world.becomes(lambda service=service: world.reason(service, READY), "ReadyToRouteTraffic")  # type: ignore[misc]  # a value is bound
        await world.settled()

    async with running(group.play()):
        written = await world.writes_during(apply())
    ports = [port for entry in (await group.entries()).values() for port in entry.ports]
    assert len({port.match_port for port in ports}) == len(ports) == 30
    mine = sum(count for (_, _, plural), count in written.items() if plural in ("services", "endpointslices"))
    assert mine - len(services) <= 7 * len(services)


def with_ports(*ports: tuple[str, int]) -> Object:
    return {"spec": {"ports": [{"name": name, "port": port, "protocol": "TCP"} for name, port in ports]}}


@pytest.fixture
async def serving(group: PlayedGroup) -> PlayedGroup:
    """The group, after both of its proxies have begun to serve the Service."""
    await group.world.apply(grouped())
    await group.world.eventually(group.entries)
    await group.configure()
    await group.report()
    await group.world.becomes(lambda: group.world.reason(grouped(), READY), "ReadyToRouteTraffic")
    return group


async def test_a_new_port_leads_to_the_proxies_that_report_it_and_the_other_ports_go_on_working(
    serving: PlayedGroup,
) -> None:
    world, both = serving.world, sorted([(await serving.addresses(ordinal))[0] for ordinal in range(2)])
    first, checks = (await serving.addresses(0))[:1], "tailscale-health-check"
    with world.store.subscribe(SIM_ENDPOINTSLICE) as changes:
        await world.change(grouped(), with_ports(("port-5432", 5432), ("web", 80)))
        await world.becomes(lambda: world.reason(grouped(), READY), "NotReadyToRouteTraffic")
        assert await serving.led() == {"port-5432": both, checks: both}
        await serving.report(0)
        await world.becomes(serving.led, {"port-5432": both, "web": first, checks: both})
        await serving.report(1)
        await world.becomes(serving.endpoints, {"ipv4": both})
        assert await serving.led() == {"port-5432": both, "web": both, checks: both}
        changes.close()
        with_old_port = [each.object for each in await drained(changes) if "port-5432" in port_names(each.object)]
    assert all(len(each["endpoints"]) == 2 for each in with_old_port)
    assert not await world.writes_when_left_alone()


async def drained(changes: Subscription) -> list[Change]:
    return [change async for change in changes]


def port_names(endpoint_slice: Object) -> list[str]:
    return [each["name"] for each in endpoint_slice["ports"]]


async def test_the_endpoints_of_a_changed_port_are_removed_before_the_clusterip_service_changes(
    serving: PlayedGroup,
) -> None:
    world, place = serving.world, await serving.world.eventually(serving.place)
    with world.store.subscribe(SIM_SERVICE, SIM_ENDPOINTSLICE) as changes:
        await world.change(grouped(), with_ports(("port-5432", 5433)))
        await world.becomes(serving.led, {"port-5432": [], "tailscale-health-check": []})
        await world.settled()
        changes.close()
        found = await drained(changes)
    ours = [each.resource for each in found if each.object["metadata"]["name"].startswith(key_of(place).name)]
    assert ours == [SIM_ENDPOINTSLICE, SIM_SERVICE]


async def proxy_ports(group: PlayedGroup) -> dict[str, int]:
    """Return the proxies' port of each entry, by the entry's name. Each entry has one port."""
    return {name: port.match_port for name, entry in (await group.entries()).items() for port in entry.ports}


async def all_ready(world: World, *services: Object) -> bool:
    return {await world.reason(each, READY) for each in services} == {"ReadyToRouteTraffic"}


async def test_a_proxy_port_that_two_services_have_stays_with_the_older_service(group: PlayedGroup) -> None:
    world, older, younger = group.world, group_egress("web", "egress", f"web-{FQDN}"), grouped("db")
    async with running(group.play()):
        await world.apply(older)
        place = await world.eventually(group.place)
        await asyncio.sleep(1)  # a creation time is in whole seconds
        await world.apply(younger)
        await world.eventually(lambda: all_ready(world, older, younger))
        await world.settled()  # a reconcile that began before the edit would restore the port
        taken = (await proxy_ports(group))["default-db"]
        ports = [{**place["spec"]["ports"][0], "targetPort": taken}, *place["spec"]["ports"][1:]]
        await world.change(place, {"spec": {"ports": ports}})
        await world.settled()
        found = await proxy_ports(group)
        assert found["default-web"] == taken != found["default-db"]
        assert await all_ready(world, older, younger)
    assert "Service default/web, which is older and keeps it" in (await world.events(younger))["ProxyPortChanged"]
    assert "ProxyPortChanged" not in await world.events(older)
    assert not await world.writes_when_left_alone()
