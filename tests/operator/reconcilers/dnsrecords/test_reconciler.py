"""The records of MagicDNS names on a cluster: the operator runs, and what the nameserver is told is looked at."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from ipaddress import ip_address
from typing import NamedTuple

import pytest
from clustersim.faults import Failure
from clustersim.objects import CONFIGMAP as SIM_CONFIGMAP
from clustersim.sim import SimOptions
from prometheus_client import CollectorRegistry
from tsnameserver.records import CONFIGMAP_NAME, LABEL_SELECTOR, RECORDS_KEY, merge, parse
from tsoperator.api.names import LABEL_SERVICE_NAME, NAMESERVER
from tsoperator.api.objects import CONFIGMAP, DEPLOYMENT, ENDPOINTSLICE, SERVICE, SUFFIXES, Key, Object, key_of, uid
from tsoperator.desired.canary import canary_name, service_addresses
from tsoperator.desired.children import Owner
from tsoperator.desired.nameserver import nameserver_labels
from tsoperator.desired.service import headless_service
from tsoperator.kube.client import USER_AGENT
from tsoperator.reconcilers.dnsrecords.reconciler import DNSRecordsReconciler
from tsoperator.reconcilers.dnsrecords.shards import Limits
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.controller import ControllerMetrics
from tsoperator.runtime.gathering import Gathering
from tsoperator.runtime.manager import EnqueueTimes, Manager
from tsoperator.sources import sources
from tsoperator.tailnet.devices import Pace
from tsoperator.tailnet.tailnet import Tailnets

from tests.operator.reconcilers.service.played import running_services
from tests.support.cluster import running
from tests.support.manifests import DOMAIN, FQDN, dnsconfig, egress, ingress, load_balancer
from tests.support.objects import settings
from tests.support.operator import NAMESPACE, Proxy, World, new_world, running_operator
from tests.support.tailnets import applier

SECOND = f"second.{DOMAIN}"


async def named_proxy(world: World, service: Object, name: str = FQDN) -> Proxy:
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


async def test_each_zone_has_a_canary_that_leads_to_the_nameserver(cluster: World) -> None:
    async with running_operator(cluster, zones=(DOMAIN, "example.org")):
        await cluster.apply(dnsconfig())
        await cluster.becomes(lambda: canaries_lead(cluster, {DOMAIN, "example.org"}), True)
    async with running_operator(cluster, zones=("example.org",)):
        await cluster.becomes(lambda: canaries_lead(cluster, {"example.org"}), True)
        await cluster.api.delete(SERVICE, Key(NAMESPACE, NAMESERVER))
        await cluster.becomes(lambda: canaries_lead(cluster, {"example.org"}), True)
        assert not await cluster.writes_when_left_alone()


async def test_a_canary_goes_with_its_zone(world: World) -> None:
    await world.apply(dnsconfig())
    await world.becomes(lambda: canaries_lead(world, {"ts.net"}), True)
    await world.apply(egress())
    await world.becomes(lambda: canaries_lead(world, {DOMAIN}), True)


async def test_the_own_suffix_of_a_tailnet_is_forwarded_even_if_its_control_server_is_away_later(
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


async def forwarded(world: World) -> list[str]:
    """Return the zones that the cluster's DNS has to forward, as the DNSConfig says."""
    status = (await world.look(dnsconfig())).get("status") or {}
    return list((status.get("clusterDNS") or {}).get("zones") or ())


async def canaries_lead(world: World, zones: Iterable[str]) -> bool:
    """Tell whether there are canaries in just these *zones*, which lead to the nameserver's Service."""
    service = await world.find(SERVICE, NAMESERVER)
    found = uid(await world.look(dnsconfig()))
    wanted = {canary_name(found, zone): service_addresses(service) for zone in zones}
    return service is not None and await world.canaries() == wanted


@pytest.mark.simulated  # a real Pod may take longer to its address than the name waits for it
async def test_a_new_name_is_written_once_with_its_address(world: World) -> None:
    await world.apply(dnsconfig())
    await world.settled()
    async with every_version(world) as seen:
        await world.apply(egress())
        await named_proxy(world, egress())
    assert {len(records[FQDN]) for records in seen if FQDN in records} == {1}


async def test_a_new_name_takes_the_old_one_away_in_both_families(world: World) -> None:
    await world.apply(dnsconfig(), egress())
    before = await named_proxy(world, egress())
    await world.annotate(egress(), {"tailscale.com/tailnet-fqdn": SECOND})
    await world.eventually(lambda: moved(world, before))
    after = await named_proxy(world, egress(), SECOND)
    await world.becomes(world.records, {SECOND: after.addresses})
    assert FQDN not in after.service["metadata"]["annotations"].values()


async def test_a_new_pod_is_followed_and_the_name_exists_all_the_while(world: World) -> None:
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
    """Tell whether another Pod is ready."""
    proxy = await world.proxy(egress())
    return proxy is not None and proxy.pod_uid != before.pod_uid


async def test_two_services_for_one_name_share_it_and_each_takes_only_its_own_address_away(world: World) -> None:
    second = egress("second")
    await world.apply(dnsconfig(), egress(), second)
    proxies = [await named_proxy(world, service) for service in (egress(), second)]
    both = in_order(address for proxy in proxies for address in proxy.addresses)
    await world.becomes(world.records, {FQDN: both})
    await world.delete(egress())
    await world.becomes(world.records, {FQDN: proxies[1].addresses})
    await world.delete(second)
    await world.becomes(world.records, {})


async def test_a_proxy_whose_service_becomes_bad_keeps_its_name(world: World) -> None:
    await world.apply(dnsconfig(), egress())
    proxy = await named_proxy(world, egress())
    await world.annotate(egress(), {"tailscale.com/tailnet-fqdn": "db.example.org"})
    await world.becomes(lambda: world.reason(egress()), "ProxyInvalid")
    await world.settled()
    assert await world.records() == {FQDN: proxy.addresses}


@pytest.mark.simulated  # a controller manager makes some 5 StatefulSets' Pods a second
async def test_thirty_services_are_named_by_a_few_requests_each_and_then_nothing_is_written(world: World) -> None:
    services = [egress(f"db-{number}", f"db-{number}.{DOMAIN}") for number in range(30)]
    await world.apply(dnsconfig())
    before = asked(world)
    await asyncio.gather(*(world.apply(service) for service in services))
    await world.eventually(lambda: all_named(world, 30))
    assert asked(world) - before <= 15 * len(services)  # of writes that collide, some are made again
    assert len(world.control.keys) == 30
    assert not await world.writes_when_left_alone()


def asked(world: World) -> int:
    """Return how many requests of the operator there were."""
    return sum(count for (agent, _, _), count in world.requests().items() if agent == USER_AGENT)


async def all_named(world: World, count: int) -> bool:
    """Tell whether *count* names have an address."""
    return [bool(addresses) for addresses in (await world.records()).values()] == [True] * count


async def test_a_burst_is_few_writes_of_the_records(cluster: World) -> None:
    services = [egress(f"db-{number}", f"db-{number}.{DOMAIN}") for number in range(20)]
    await cluster.apply(dnsconfig(), *services)
    async with running_operator(cluster), every_version(cluster) as seen:
        await cluster.eventually(lambda: all_named(cluster, 20))
        await cluster.settled()
    assert 0 < len(seen) < 40


FOREIGN = egress(target="no-device-yet.tail.example.org")
BOTH_ZONES = ["ts.net", "tail.example.org"]
SOON = Pace(first=0.01, longest=0.01, interval=0.01)


@pytest.fixture
async def outside() -> AsyncIterator[World]:
    """A cluster with a DNSConfig, whose tailnet has a suffix outside of ts.net and one device."""
    async with new_world(SimOptions(tailnet_domain="tail.example.org")) as world:
        world.peer()
        await world.apply(dnsconfig())
        yield world


async def test_a_service_in_a_zone_that_is_not_known_yet_is_refused_until_it_is(outside: World) -> None:
    outside.control.fail(count=10**6)
    async with running_services(outside, SOON):
        await outside.apply(FOREIGN)
        await outside.becomes(lambda: outside.reason(FOREIGN), "ProxyInvalid")
        assert await outside.zones() == ["ts.net"]
        outside.control.heal()
        await outside.becomes(lambda: outside.reason(FOREIGN), "ProxyCreated")
        await outside.becomes(outside.zones, BOTH_ZONES)


async def test_a_zone_outlives_a_control_server_that_is_away_and_goes_when_its_tailnet_has_another(
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


SHARDED = settings(nameserver_image="example.org/tsnameserver:v1")
SMALL = Limits(split=2048, full=8192)


@asynccontextmanager
async def following_records(world: World) -> AsyncIterator[None]:
    """Run the records' reconciler alone, with small shards, so that a test can be the one that makes proxies."""
    cache = Cache(sources(NAMESPACE))
    tailnets = Tailnets([])
    reconciler = DNSRecordsReconciler(cache, applier(world.api, cache, tailnets), SHARDED, SMALL)
    manager = Manager(
        cache,
        [reconciler],
        ControllerMetrics(CollectorRegistry()),
        feeds={SUFFIXES: tailnets},
        times=EnqueueTimes({reconciler.name: Gathering(0.02)}),
    )
    async with running(manager.run(world.api, None)):
        yield


async def prepared(world: World, count: int) -> None:
    """Make a DNSConfig, and proxies by hand: 200 real ones would take a machine of their own."""
    await world.apply(dnsconfig(), nameserver())
    for batch in (range(count)[start : start + 20] for start in range(0, count, 20)):
        await asyncio.gather(*(world.apply(*proxy_of(number)) for number in batch))


def nameserver(image: str = SHARDED.nameserver_image) -> Object:
    """Return the nameserver's Deployment, which needs no Pod to be rolled out."""
    pods = {
        "metadata": {"labels": {"app": NAMESERVER}},
        "spec": {"containers": [{"name": NAMESERVER, "image": image}]},
    }
    labels = nameserver_labels(key_of(dnsconfig()).name, NAMESPACE)
    return {
        "apiVersion": DEPLOYMENT.api_version,
        "kind": DEPLOYMENT.kind,
        "metadata": {"namespace": NAMESPACE, "name": NAMESERVER, "labels": labels},
        "spec": {"replicas": 0, "selector": {"matchLabels": {"app": NAMESERVER}}, "template": pods},
    }


def proxy_of(number: int) -> list[Object]:
    """Return an egress Service, its proxy's headless Service and EndpointSlice."""
    parent = egress(f"db-{number}", f"db-{number}.{DOMAIN}")
    owner = Owner("svc", key_of(parent))
    service = headless_service(Key(NAMESPACE, f"ts-db-{number}"), owner, f"uid-{number}", f"db-{number}.{DOMAIN}")
    return [parent, service, slice_of(number, f"192.0.2.{number % 200 + 1}")]


def slice_of(number: int, address: str) -> Object:
    """Return the EndpointSlice of a proxy; a controller that makes Services' slices leaves it alone."""
    labels = Owner("svc", Key("default", f"db-{number}")).labels
    return {
        "apiVersion": ENDPOINTSLICE.api_version,
        "kind": ENDPOINTSLICE.kind,
        "metadata": {
            "namespace": NAMESPACE,
            "name": f"ts-db-{number}-by-hand",
            "labels": {**labels, LABEL_SERVICE_NAME: f"ts-db-{number}"},
        },
        "addressType": "IPv4",
        "ports": [],
        "endpoints": [{"addresses": [address]}],
    }


async def shards(world: World) -> dict[str, Object]:
    """Return the ConfigMaps of records by name."""
    found = (await world.api.list(CONFIGMAP, NAMESPACE, LABEL_SELECTOR)).items
    return {key_of(configmap).name: configmap for configmap in found}


async def whole(world: World) -> dict[str, list[str]]:
    """Return the IPv4 records as the nameserver reads them."""
    records = merge(parse(found["data"][RECORDS_KEY]) for found in (await shards(world)).values())
    return records.ip4 if records else {}


def addresses(count: int) -> dict[str, list[str]]:
    """The records of the first *count* proxies."""
    return {f"db-{number}.{DOMAIN}": [f"192.0.2.{number % 200 + 1}"] for number in range(count)}


async def sharded(world: World, count: int) -> dict[str, Object]:
    """Wait until *count* proxies have records and nothing is left to do, and return the ConfigMaps."""
    await world.becomes(lambda: whole(world), addresses(count))
    await world.settled()
    return await shards(world)


def versions(found: dict[str, Object]) -> dict[str, str]:
    return {name: configmap["metadata"]["resourceVersion"] for name, configmap in found.items()}


async def test_a_new_name_that_gets_no_address_is_written_a_moment_later(cluster: World) -> None:
    names: dict[str, list[str]] = {}
    await cluster.apply(dnsconfig(), nameserver())
    async with following_records(cluster):
        await cluster.eventually(lambda: shards(cluster))
        await cluster.settled()
        for number in (1, 2):
            began = asyncio.get_running_loop().time()
            await cluster.apply(*proxy_of(number)[:2])
            names[f"db-{number}.{DOMAIN}"] = []
            await cluster.becomes(lambda: whole(cluster), names)
            assert asyncio.get_running_loop().time() >= began + 1


@pytest.mark.parametrize(("type_", "parent"), [("svc", load_balancer()), ("ingress", ingress())])
async def test_a_change_of_a_users_object_alone_reaches_the_record(cluster: World, type_: str, parent: Object) -> None:
    key, owner = Key(NAMESPACE, "ts-lb"), Owner(type_, key_of(parent))
    await cluster.apply(dnsconfig(), nameserver(), parent)
    address = (await cluster.look(parent))["spec"].get("clusterIP", "")
    await cluster.apply(headless_service(key, owner, "uid", FQDN, address))
    async with following_records(cluster):
        await cluster.becomes(lambda: whole(cluster), {FQDN: [address] if address else []})
        await cluster.annotate(parent, {"tailscale.com/cluster-dns": "false"})
        await cluster.becomes(lambda: whole(cluster), {})


async def test_records_are_spread_when_the_nameserver_has_become_one_that_reads_shards(cluster: World) -> None:
    await prepared(cluster, 60)
    await cluster.change(nameserver(), {"spec": nameserver("example.org/k8s-nameserver:v1")["spec"]})
    async with following_records(cluster):
        assert [*await sharded(cluster, 60)] == ["dnsrecords"]
        await cluster.change(nameserver(), {"spec": nameserver()["spec"]})
        await cluster.eventually(lambda: spread(cluster))
        assert len(await sharded(cluster, 60)) == 2


async def spread(world: World) -> bool:
    """Tell whether the records are in several ConfigMaps."""
    return len(await shards(world)) > 1


@pytest.mark.full
@pytest.mark.parametrize("name", ["dnsrecords", "dnsrecords-1", "dnsrecords-3"])
async def test_a_shard_that_is_deleted_or_edited_comes_back_alone(cluster: World, name: str) -> None:
    await prepared(cluster, 110)
    async with following_records(cluster):
        before = await sharded(cluster, 110)
        await cluster.delete(before[name])
        deleted = await sharded(cluster, 110)
        await cluster.change(deleted[name], {"data": {RECORDS_KEY: '{"version":"v1alpha1","ip4":{}}'}})
        edited = await sharded(cluster, 110)
    assert len(before) == len(deleted) == len(edited) == 4
    for old, new in ((before, deleted), (deleted, edited)):
        assert {changed for changed, _ in versions(new).items() - versions(old).items()} == {name}


class Failing(NamedTuple):
    verb: str
    after: int


@pytest.mark.simulated
@pytest.mark.parametrize(
    "case", [Failing("create", 110), Failing("patch", 110), Failing("patch", 10), Failing("delete", 10)]
)
async def test_a_write_that_fails_is_made_good(cluster: World, case: Failing) -> None:
    await prepared(cluster, 60)
    async with following_records(cluster):
        await sharded(cluster, 60)
        cluster.sim.faults.fail(Failure(403, times=3, verb=case.verb, plural="configmaps"))
        await resized(cluster, 60, case.after)
        await sharded(cluster, case.after)
        assert not await cluster.writes_when_left_alone()


async def resized(world: World, before: int, after: int) -> None:
    """Make more proxies, or delete the Services that some are for."""
    added, removed = map(proxy_of, range(before, after)), map(proxy_of, range(after, before))
    await asyncio.gather(*(world.apply(*objects) for objects in added))
    await asyncio.gather(*(world.delete(objects[0]) for objects in removed))


@pytest.mark.full
async def test_no_name_vanishes_while_the_records_are_split_anew(cluster: World) -> None:
    await prepared(cluster, 100)
    async with following_records(cluster):
        await sharded(cluster, 100)
        held = {}
        texts = {name: found["data"][RECORDS_KEY] for name, found in (await shards(cluster)).items()}
        with cluster.store.subscribe(SIM_CONFIGMAP) as changes:
            await resized(cluster, 100, 200)
            after = await sharded(cluster, 200)
            changes.close()
            async for change in changes:
                texts[change.object["metadata"]["name"]] = change.object["data"][RECORDS_KEY]
                if records := merge(map(parse, texts.values())):
                    held = records.ip4
                    assert addresses(100).items() <= held.items()
    assert (len(after), held) == (8, addresses(200))
