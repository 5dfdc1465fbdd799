"""The records of MagicDNS names on a cluster: the operator runs, and what the nameserver is told is looked at."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from ipaddress import ip_address

import pytest
from clustersim.objects import CONFIGMAP as SIM_CONFIGMAP
from tsnameserver.records import CONFIGMAP_NAME, RECORDS_KEY
from tsoperator.api.names import LABEL_SERVICE_NAME
from tsoperator.api.objects import CONFIGMAP, ENDPOINTSLICE, SERVICE, Object, key_of

from tests.support.manifests import DOMAIN, FQDN, backend, dnsconfig, egress, ingress
from tests.support.operator import NAMESPACE, Proxy, World, running_operator

SECOND = f"second.{DOMAIN}"


async def made(world: World, service: Object, name: str = FQDN) -> Proxy:
    """Wait until *name* leads to the proxy of *service*, and return that."""

    async def leads() -> Proxy | None:
        proxy = await world.proxy(service)
        return proxy if proxy and set(proxy.addresses) <= set((await world.records()).get(name, ())) else None

    return await world.eventually(leads)


@asynccontextmanager
async def every_version(world: World) -> AsyncIterator[list[dict[str, list[str]]]]:
    """Collect what the nameserver is told meanwhile: the IPv4 records of every version of the ConfigMap."""
    seen: list[dict[str, list[str]]] = []
    with world.store.subscribe(SIM_CONFIGMAP) as changes:
        yield seen
        changes.close()
        async for change in changes:
            if change.object["metadata"]["name"] == CONFIGMAP_NAME:
                seen.append(json.loads(change.object["data"][RECORDS_KEY])["ip4"])


def in_order(addresses: Iterable[str]) -> list[str]:
    """Return *addresses* as `World.records` does: IPv4 first, each family by number."""
    return sorted(addresses, key=lambda text: (ip_address(text).version, int(ip_address(text))))


async def test_a_name_leads_to_its_proxy(world: World) -> None:
    await world.apply(dnsconfig(), egress())
    proxy = await made(world, egress())
    assert await world.records() == {FQDN: proxy.addresses}


async def test_without_a_dnsconfig_there_are_no_records(world: World) -> None:
    await world.apply(egress())
    await world.eventually(lambda: world.proxy(egress()))
    await world.settled()
    assert await world.find(CONFIGMAP, CONFIGMAP_NAME) is None


async def test_an_address_has_no_name(world: World) -> None:
    await world.apply(dnsconfig(), egress(target="100.64.0.9"))
    await world.eventually(lambda: world.proxy(egress()))
    await world.settled()
    assert await world.records() == {}


@pytest.mark.simulated  # the real cluster has Services with IPv4 only
async def test_a_name_has_the_addresses_of_both_families(world: World) -> None:
    await world.apply(dnsconfig(), egress())
    proxy = await made(world, egress())
    assert [ip_address(address).version for address in proxy.addresses] == [4, 6]
    await world.becomes(world.records, {FQDN: proxy.addresses})


async def test_another_name_takes_the_old_one_away_in_both_families(world: World) -> None:
    await world.apply(dnsconfig(), egress())
    before = await made(world, egress())
    await world.annotate(egress(), {"tailscale.com/tailnet-fqdn": SECOND})
    await world.eventually(lambda: moved(world, before))
    after = await made(world, egress(), SECOND)
    await world.becomes(world.records, {SECOND: after.addresses})
    assert FQDN not in after.service["metadata"]["annotations"].values()


async def test_a_name_turned_into_an_address_is_gone(world: World) -> None:
    await world.apply(dnsconfig(), egress())
    await made(world, egress())
    await world.annotate(egress(), {"tailscale.com/tailnet-fqdn": None, "tailscale.com/tailnet-ip": "100.64.0.9"})
    await world.becomes(world.records, {})
    await world.settled()
    assert "finalizers" not in (await world.children(SERVICE, egress()))[0]["metadata"]


async def test_an_address_turned_into_a_name_gets_a_record(world: World) -> None:
    service = egress(target="100.64.0.9")
    await world.apply(dnsconfig(), service)
    await world.eventually(lambda: world.proxy(service))
    await world.annotate(service, {"tailscale.com/tailnet-fqdn": FQDN, "tailscale.com/tailnet-ip": None})
    await made(world, service)


async def test_a_name_goes_with_its_service(world: World) -> None:
    await world.apply(dnsconfig(), egress(), egress("second", SECOND))
    await made(world, egress())
    second = await made(world, egress("second"), SECOND)
    await world.delete(egress())
    await world.becomes(world.records, {SECOND: second.addresses})


async def test_a_new_pod_is_followed_and_the_name_exists_all_the_while(world: World) -> None:
    await world.apply(dnsconfig(), egress())
    before = await made(world, egress())
    async with every_version(world) as seen:
        await world.delete(before.pod)
        await world.eventually(lambda: moved(world, before))
        await made(world, egress())
        await world.settled()
    assert (await world.records())[FQDN] != before.addresses
    assert [FQDN in records for records in seen] == [True] * len(seen)


async def moved(world: World, before: Proxy) -> bool:
    """Tell whether another Pod is ready."""
    proxy = await world.proxy(egress())
    return proxy is not None and proxy.pod_uid != before.pod_uid


async def test_a_name_whose_proxies_are_all_down_exists_without_an_address(world: World) -> None:
    await world.apply(dnsconfig(), egress())
    proxy = await made(world, egress())
    endpoints = (await world.api.list(ENDPOINTSLICE, NAMESPACE, f"{LABEL_SERVICE_NAME}={proxy.name}")).items[0]
    (device,) = world.control.devices.values()
    world.control.delete_device(device)  # the proxy is no longer ready
    await world.becomes(world.records, {FQDN: []})
    assert endpoints["endpoints"][0]["conditions"]["ready"]


async def test_two_services_for_one_name_share_it_and_each_takes_only_its_own_address_away(world: World) -> None:
    second = egress("second")
    await world.apply(dnsconfig(), egress(), second)
    proxies = [await made(world, service) for service in (egress(), second)]
    both = in_order(address for proxy in proxies for address in proxy.addresses)
    await world.becomes(world.records, {FQDN: both})
    await world.delete(egress())
    await world.becomes(world.records, {FQDN: proxies[1].addresses})
    await world.delete(second)
    await world.becomes(world.records, {})


async def test_a_service_and_an_ingress_can_be_named_alike(world: World) -> None:
    await world.apply(dnsconfig(), backend(), ingress(), egress(target=f"web.{DOMAIN}"))
    first = await made(world, egress(), f"web.{DOMAIN}")
    second = await made(world, ingress(), f"web.{DOMAIN}")
    await world.becomes(world.records, {f"web.{DOMAIN}": in_order([*first.addresses, *second.addresses])})


async def test_a_proxy_whose_service_becomes_bad_keeps_its_name(world: World) -> None:
    await world.apply(dnsconfig(), egress())
    proxy = await made(world, egress())
    await world.annotate(egress(), {"tailscale.com/tailnet-fqdn": "db.example.org"})
    await world.becomes(lambda: world.reason(egress()), "ProxyInvalid")
    await world.settled()
    assert await world.records() == {FQDN: proxy.addresses}


async def test_names_of_any_spelling_are_one_name(world: World) -> None:
    await world.apply(dnsconfig(), egress(target="DB.Tail1234.ts.net."))
    proxy = await made(world, egress())
    assert await world.records() == {FQDN: proxy.addresses}


async def test_records_come_with_a_dnsconfig_that_is_made_later(world: World) -> None:
    await world.apply(egress())
    await world.eventually(lambda: world.proxy(egress()))
    await world.apply(dnsconfig())
    await made(world, egress())


@pytest.mark.simulated  # a controller manager makes some 5 StatefulSets' Pods a second
async def test_a_hundred_services_are_named_in_seconds_and_then_nothing_is_written(world: World) -> None:
    services = [egress(f"db-{number}", f"db-{number}.{DOMAIN}") for number in range(100)]
    await world.apply(dnsconfig())
    start = time.process_time()  # of one thread: what it takes on a machine that does nothing else
    await asyncio.gather(*(world.apply(service) for service in services))
    await world.eventually(lambda: served(world, 100), timeout=50)
    assert time.process_time() - start < 10
    assert len(world.control.keys) == 100
    assert not await world.writes_when_left_alone()


async def served(world: World, count: int) -> bool:
    """Tell whether *count* names have an address."""
    return [bool(addresses) for addresses in (await world.records()).values()] == [True] * count


async def test_a_burst_is_few_writes_of_the_records(cluster: World) -> None:
    services = [egress(f"db-{number}", f"db-{number}.{DOMAIN}") for number in range(20)]
    await cluster.apply(dnsconfig(), *services)
    async with running_operator(cluster), every_version(cluster) as seen:
        await cluster.eventually(lambda: served(cluster, 20))
        await cluster.settled()
    assert 0 < len(seen) < 40


async def test_a_headless_service_that_goes_loses_our_finalizer(world: World) -> None:
    await world.apply(dnsconfig(), egress())
    proxy = await made(world, egress())
    await world.delete(proxy.service)
    await world.settled()
    after = await made(world, egress())
    assert key_of(after.service) == key_of(proxy.service)
    assert after.pod_uid == proxy.pod_uid
