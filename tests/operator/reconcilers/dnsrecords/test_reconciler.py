"""The records of MagicDNS names on a cluster with a running operator: the tests read the nameserver's ConfigMaps."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from clustersim.objects import CONFIGMAP as SIM_CONFIGMAP
from clustersim.sim import SimOptions
from tsnameserver.records import CONFIGMAP_NAME, RECORDS_KEY
from tsoperator.api.names import NAMESERVER
from tsoperator.api.objects import SERVICE, Key, Object, uid
from tsoperator.dns.canary import canary_name, service_addresses
from tsoperator.kube.client import USER_AGENT
from tsoperator.tailnet.devices import ListPace

from tests.operator.reconcilers.service.played import running_services
from tests.support.manifests import (
    DOMAIN,
    FQDN,
    backend,
    dnsconfig,
    egress,
    ingress,
    load_balancer,
    proxy_group,
    tailnet,
)
from tests.support.operator import NAMESPACE, Proxy, World, new_world, running_operator

SECOND = f"second.{DOMAIN}"


async def named_proxy(world: World, service: Object, name: str = FQDN) -> Proxy:
    """Wait until *name* leads to the proxy of *service*, and return the proxy."""

    async def leads() -> Proxy | None:
        proxy = await world.proxy(service)
        return proxy if proxy and set(proxy.addresses) <= set((await world.records()).get(name, ())) else None

    return await world.eventually(leads)


@asynccontextmanager
async def every_version(world: World) -> AsyncIterator[list[dict[str, list[str]]]]:
    """Collect the IPv4 records in each version of the ConfigMap `CONFIGMAP_NAME` that is written during the block.

    Yield the list of them, which stays empty until the end of the block.
    """
    seen: list[dict[str, list[str]]] = []
    with world.store.subscribe(SIM_CONFIGMAP) as changes:
        yield seen
        changes.close()
        async for change in changes:
            if change.object["metadata"]["name"] == CONFIGMAP_NAME:
                seen.append(json.loads(change.object["data"][RECORDS_KEY])["ip4"])


async def test_each_zone_has_a_canary_that_leads_to_the_nameserver(cluster: World) -> None:
    async with running_operator(cluster, zones=(DOMAIN, "example.org")):
        await cluster.apply(dnsconfig())
        await cluster.becomes(lambda: canaries_lead(cluster, {DOMAIN, "example.org"}), True)
    async with running_operator(cluster, zones=("example.org",)):
        await cluster.becomes(lambda: canaries_lead(cluster, {"example.org"}), True)
        await cluster.api.delete(SERVICE, Key(NAMESPACE, NAMESERVER))
        await cluster.becomes(lambda: canaries_lead(cluster, {"example.org"}), True)
        assert not await cluster.writes_when_left_alone()


async def test_the_suffix_of_a_tailnet_stays_among_the_forwarded_zones_while_its_control_server_fails(
    cluster: World,
) -> None:
    cluster.peer()
    async with running_operator(cluster):
        await cluster.apply(dnsconfig())
        await cluster.becomes(lambda: forwarded(cluster), [DOMAIN])
        await cluster.becomes(lambda: canaries_lead(cluster, {DOMAIN}), True)
    cluster.control.fail(count=10**6)
    async with running_operator(cluster):
        assert not await cluster.writes_when_left_alone()
    assert await cluster.zones() == ["ts.net"]
    assert await forwarded(cluster) == [DOMAIN]


async def test_a_zone_that_the_settings_no_longer_name_is_not_served_even_while_a_tailnet_is_unusable(
    cluster: World,
) -> None:
    cluster.peer()
    await cluster.apply(tailnet())  # this Tailnet's Secret doesn't exist
    async with running_operator(cluster, zones=("example.org",)):
        await cluster.apply(dnsconfig())
        await cluster.becomes(lambda: forwarded(cluster), ["example.org"])
        await cluster.becomes(cluster.zones, ["example.org"])
    async with running_operator(cluster):
        await cluster.becomes(lambda: forwarded(cluster), [DOMAIN])
        await cluster.becomes(cluster.zones, ["ts.net"])
        await cluster.becomes(lambda: canaries_lead(cluster, {DOMAIN}), True)


async def forwarded(world: World) -> list[str]:
    """Return the zones that the DNSConfig tells the user to forward."""
    status = (await world.look(dnsconfig())).get("status") or {}
    return list((status.get("clusterDNS") or {}).get("zones") or ())


async def canaries_lead(world: World, zones: Iterable[str]) -> bool:
    """Tell whether exactly *zones* have canaries, and all of these have the address of the nameserver's Service."""
    service = await world.find(SERVICE, NAMESERVER)
    found = uid(await world.look(dnsconfig()))
    wanted = {canary_name(found, zone): service_addresses(service) for zone in zones}
    return service is not None and await world.canaries() == wanted


@pytest.mark.simulated  # a real Pod may get its address only after the operator has stopped waiting for it
async def test_the_first_write_of_a_new_name_already_has_the_address(world: World) -> None:
    await world.apply(dnsconfig())
    await world.settled()
    async with every_version(world) as seen:
        await world.apply(egress())
        await named_proxy(world, egress())
    assert {len(records[FQDN]) for records in seen if FQDN in records} == {1}


async def test_a_new_name_of_a_service_replaces_the_old_name_for_ipv4_and_ipv6(world: World) -> None:
    await world.apply(dnsconfig(), egress())
    before = await named_proxy(world, egress())
    await world.annotate(egress(), {"tailscale.com/tailnet-fqdn": SECOND})
    await world.eventually(lambda: moved(world, before))
    after = await named_proxy(world, egress(), SECOND)
    await world.becomes(world.records, {SECOND: after.addresses})
    assert FQDN not in after.service["metadata"]["annotations"].values()


async def test_a_name_gets_the_address_of_a_new_pod_and_never_vanishes_meanwhile(world: World) -> None:
    await world.apply(dnsconfig(), egress())
    before = await named_proxy(world, egress())
    async with every_version(world) as seen:
        await world.delete(before.pod)
        await world.eventually(lambda: moved(world, before))
        await named_proxy(world, egress())
        await world.settled()
    assert (await world.records())[FQDN] != before.addresses
    assert [FQDN in records for records in seen] == [True] * len(seen)


async def moved(world: World, before: Proxy) -> bool:
    proxy = await world.proxy(egress())
    return proxy is not None and proxy.pod_uid != before.pod_uid


@pytest.mark.simulated  # a real controller manager makes the Pods of only some 5 StatefulSets a second
async def test_thirty_services_get_names_by_few_requests_and_writes_and_after_that_nothing_is_written(
    world: World,
) -> None:
    services = [egress(f"db-{number}", f"db-{number}.{DOMAIN}") for number in range(30)]

    async def all_named() -> bool:
        return [bool(found) for found in (await world.records()).values()] == [True] * len(services)

    await world.apply(dnsconfig())
    before = asked(world)
    async with every_version(world) as seen:
        await asyncio.gather(*(world.apply(service) for service in services))
        await world.eventually(all_named)
    assert asked(world) - before <= 15 * len(services)  # some writes collide, and the operator repeats them
    assert (len(seen) < 60, len(world.control.keys)) == (True, 30)
    assert not await world.writes_when_left_alone()


def asked(world: World) -> int:
    return sum(count for (agent, _, _), count in world.requests().items() if agent == USER_AGENT)


FOREIGN = egress(target="no-device-yet.tail.example.org")
BOTH_ZONES = ["ts.net", "tail.example.org"]
SOON = ListPace(first=0.01, longest=0.01, interval=0.01)


@pytest.fixture
async def outside() -> AsyncIterator[World]:
    """A cluster with a DNSConfig. Its tailnet has one device, and a suffix outside of ts.net."""
    async with new_world(SimOptions(tailnet_domain="tail.example.org")) as world:
        world.peer()
        await world.apply(dnsconfig())
        yield world


async def test_a_service_whose_name_is_in_an_unknown_zone_is_invalid_until_the_operator_knows_the_zone(
    outside: World,
) -> None:
    outside.control.fail(count=10**6)
    async with running_services(outside, SOON):
        await outside.apply(FOREIGN)
        await outside.becomes(lambda: outside.reason(FOREIGN), "ProxyInvalid")
        await outside.becomes(outside.zones, ["ts.net"])
        outside.control.heal()
        await outside.becomes(lambda: outside.reason(FOREIGN), "ProxyCreated")
        await outside.becomes(outside.zones, BOTH_ZONES)


async def test_a_zone_stays_while_the_control_server_fails_and_is_removed_when_its_tailnet_has_another_suffix(
    outside: World,
) -> None:
    async with running_services(outside, SOON):
        await outside.becomes(outside.zones, BOTH_ZONES)
    outside.control.fail(count=10**6)
    async with running_services(outside, SOON):
        assert not await outside.writes_when_left_alone()
        assert await outside.zones() == BOTH_ZONES
        for device in [*outside.control.devices.values()]:
            outside.control.update(replace(device, name=FQDN))
        outside.control.heal()
        await outside.becomes(outside.zones, ["ts.net"])


@pytest.mark.simulated
async def test_the_name_of_a_service_that_a_group_exposes_leads_to_its_cluster_ips(cluster: World) -> None:
    service = load_balancer(hostname="orders", proxy_group="ing")
    async with running_operator(cluster, operator_secret="operator"):
        await cluster.apply(dnsconfig(), proxy_group("ing", type="ingress"))
        await cluster.apply(service, backend(), ingress(proxy_group="ing"))
        addresses = await cluster.eventually(lambda: cluster_ips(cluster, service))
        await cluster.becomes(cluster.records, {f"orders.{DOMAIN}": addresses})
        await cluster.settled()
        assert await cluster.records() == {f"orders.{DOMAIN}": addresses}
        await cluster.annotate(service, {"tailscale.com/cluster-dns": "false"})
        await cluster.becomes(cluster.records, {})


async def cluster_ips(world: World, service: Object) -> list[str]:
    return (await world.look(service))["spec"].get("clusterIPs") or []
