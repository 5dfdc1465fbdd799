"""The records' reconciler without the rest of the operator, and with small shards: the tests create the proxies."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from clustersim.faults import Failure
from clustersim.objects import CONFIGMAP as SIM_CONFIGMAP
from prometheus_client import CollectorRegistry
from tsnameserver.records import LABEL_SELECTOR, RECORDS_KEY, merge, parse
from tsoperator.api.names import LABEL_SERVICE_NAME, LABEL_SERVICE_TYPE, NAMESERVER, PROXY_GROUP, SERVICE_TYPE_EGRESS
from tsoperator.api.objects import CONFIGMAP, DEPLOYMENT, ENDPOINTSLICE, SERVICE, SUFFIXES, Key, Object, key_of
from tsoperator.dns.nameserver import nameserver_labels
from tsoperator.dns.records.live import in_order
from tsoperator.dns.records.shards import Limits
from tsoperator.kube.client import USER_AGENT
from tsoperator.proxy.service import headless_service
from tsoperator.reconcilers.dnsrecords.reconciler import dnsrecords
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.controller import ControllerMetrics
from tsoperator.runtime.feeds import Announcer
from tsoperator.runtime.kind import KindReconciler
from tsoperator.runtime.manager import Manager
from tsoperator.runtime.ownership import Owner
from tsoperator.sources import sources
from tsoperator.tailnet.tailnet import Tailnets
from tsoperator.tailnet.zones import Suffixes

from tests.support.cluster import running
from tests.support.hosting import QUIET, no_hosting
from tests.support.manifests import DOMAIN, FQDN, dnsconfig, egress, group_egress, ingress, load_balancer
from tests.support.objects import settings
from tests.support.operator import NAMESPACE, World
from tests.support.tailnets import applier

SHARDED = settings(nameserver_image="example.org/tsnameserver:v1")
SMALL = Limits(split=2048, full=8192)


class Known:
    """The known suffixes of tailnets. A test announces their changes to the reconciler."""

    def __init__(self) -> None:
        self.suffixes = Suffixes()
        self.feed = Announcer(SUFFIXES)

    def __call__(self) -> Suffixes:
        return self.suffixes

    def tell(self, suffix: str) -> None:
        """Make *suffix* the only known suffix, and announce the change to the reconciler."""
        self.suffixes = Suffixes((suffix,))
        self.feed.announce()


@asynccontextmanager
async def following_records(world: World, cache: Cache | None = None) -> AsyncIterator[Known]:
    cache, known = cache or Cache(sources(NAMESPACE)), Known()
    acting = applier(world.api, cache, Tailnets([]))
    reconciler = KindReconciler(dnsrecords(cache, SHARDED, no_hosting(cache, SHARDED), known, SMALL), cache, acting)
    metrics = ControllerMetrics(CollectorRegistry())
    manager = Manager(cache, [reconciler], metrics, feeds={SUFFIXES: known.feed, **QUIET})
    async with running(manager.run(world.api, None)):
        yield known


async def prepared(world: World, count: int) -> None:
    """Create a DNSConfig, and the objects of *count* proxies without Pods: the Pods would overload the machine."""
    await world.apply(dnsconfig(), nameserver())
    for batch in (range(count)[start : start + 20] for start in range(0, count, 20)):
        await asyncio.gather(*(world.apply(*proxy_of(number)) for number in batch))


def nameserver(image: str = SHARDED.nameserver_image) -> Object:
    """Return the nameserver's Deployment without replicas, so that its rollout is complete at once."""
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
    """Return the objects for the name with this *number*: an egress Service, its proxy's Service, and an EndpointSlice.

    No controller of Kubernetes changes the EndpointSlice.
    """
    parent = egress(f"db-{number}", f"db-{number}.{DOMAIN}")
    name, owner = f"ts-db-{number}", Owner("svc", key_of(parent))
    made = slice_of(name, owner.labels, f"192.0.2.{number % 200 + 1}")
    return [parent, headless_service(Key(NAMESPACE, name), owner, f"uid-{number}", f"db-{number}.{DOMAIN}"), made]


def place_of(name: str) -> list[Object]:
    """Return an egress Service at a ProxyGroup, the ClusterIP Service of its place there, and its EndpointSlice."""
    parent = group_egress(name)
    labels = {**Owner("svc", key_of(parent)).labels, PROXY_GROUP: "pg", LABEL_SERVICE_TYPE: SERVICE_TYPE_EGRESS}
    metadata = {"namespace": NAMESPACE, "name": f"ts-{name}", "labels": labels}
    service = {"apiVersion": SERVICE.api_version, "kind": SERVICE.kind, "metadata": metadata}
    spec = {"type": "ClusterIP", "ports": parent["spec"]["ports"]}
    return [parent, {**service, "spec": spec}, slice_of(f"ts-{name}", labels, "192.0.2.1")]


def slice_of(name: str, labels: dict[str, str], address: str) -> Object:
    return {
        "apiVersion": ENDPOINTSLICE.api_version,
        "kind": ENDPOINTSLICE.kind,
        "metadata": {"namespace": NAMESPACE, "name": f"{name}-by-hand", "labels": {**labels, LABEL_SERVICE_NAME: name}},
        "addressType": "IPv4",
        "ports": [],
        "endpoints": [{"addresses": [address]}],
    }


async def shards(world: World) -> dict[str, Object]:
    found = (await world.api.list(CONFIGMAP, NAMESPACE, LABEL_SELECTOR)).items
    return {key_of(configmap).name: configmap for configmap in found}


async def names(world: World) -> list[str]:
    return sorted(await shards(world))


async def whole(world: World) -> dict[str, list[str]]:
    records = merge(parse(found["data"][RECORDS_KEY]) for found in (await shards(world)).values())
    return records.ip4 if records else {}


def addresses(count: int) -> dict[str, list[str]]:
    return {f"db-{number}.{DOMAIN}": [f"192.0.2.{number % 200 + 1}"] for number in range(count)}


async def sharded(world: World, count: int) -> dict[str, Object]:
    """Wait until *count* proxies have records and the reconciler has settled, and return the ConfigMaps."""
    await world.becomes(lambda: whole(world), addresses(count))
    await world.settled()
    return await shards(world)


async def test_a_new_name_without_an_address_is_written_only_after_a_second(cluster: World) -> None:
    known: dict[str, list[str]] = {}
    await cluster.apply(dnsconfig(), nameserver())
    async with following_records(cluster):
        await cluster.eventually(lambda: shards(cluster))
        await cluster.settled()
        for number in (1, 2):
            began = asyncio.get_running_loop().time()
            await cluster.apply(*proxy_of(number)[:2])
            known[f"db-{number}.{DOMAIN}"] = []
            await cluster.becomes(lambda: whole(cluster), known)
            assert asyncio.get_running_loop().time() >= began + 1


@pytest.mark.parametrize(("type_", "parent"), [("svc", load_balancer()), ("ingress", ingress())])
async def test_a_change_of_a_users_object_updates_the_record_even_if_its_proxy_stays_the_same(
    cluster: World, type_: str, parent: Object
) -> None:
    key, owner = Key(NAMESPACE, "ts-lb"), Owner(type_, key_of(parent))
    await cluster.apply(dnsconfig(), nameserver(), parent)
    address = (await cluster.look(parent))["spec"].get("clusterIP", "")
    await cluster.apply(headless_service(key, owner, "uid", FQDN, address))
    async with following_records(cluster):
        await cluster.becomes(lambda: whole(cluster), {FQDN: [address] if address else []})
        await cluster.annotate(parent, {"tailscale.com/cluster-dns": "false"})
        await cluster.becomes(lambda: whole(cluster), {})


async def test_a_name_that_services_share_has_the_addresses_of_the_services_with_endpoints(cluster: World) -> None:
    first, second = place_of("db"), place_of("too")
    await cluster.apply(dnsconfig(), nameserver(), *first)
    address = (await cluster.look(first[1]))["spec"]["clusterIP"]
    async with following_records(cluster):
        await cluster.becomes(lambda: whole(cluster), {FQDN: [address]})
        await cluster.change(first[2], {"endpoints": []})
        await cluster.settled()
        await cluster.apply(*second)
        other = (await cluster.look(second[1]))["spec"]["clusterIP"]
        await cluster.becomes(lambda: whole(cluster), {FQDN: [other]})
        await cluster.change(first[2], {"endpoints": first[2]["endpoints"]})
        await cluster.becomes(lambda: whole(cluster), {FQDN: [*in_order([address, other])[0]]})


async def test_records_are_split_when_the_nameserver_reads_shards_and_a_lost_shard_is_written_again(
    cluster: World,
) -> None:
    await prepared(cluster, 60)
    await cluster.change(nameserver(), {"spec": nameserver("example.org/k8s-nameserver:v1")["spec"]})
    async with following_records(cluster):
        assert [*await sharded(cluster, 60)] == ["dnsrecords"]
        await cluster.change(nameserver(), {"spec": nameserver()["spec"]})
        await cluster.becomes(lambda: names(cluster), ["dnsrecords", "dnsrecords-1"])
        before = await sharded(cluster, 60)
        await cluster.delete(before["dnsrecords-1"])
        deleted = await sharded(cluster, 60)
        await cluster.change(deleted["dnsrecords-1"], {"data": {RECORDS_KEY: '{"version":"v1alpha1","ip4":{}}'}})
        edited = await sharded(cluster, 60)
    assert before["dnsrecords"] == deleted["dnsrecords"] == edited["dnsrecords"]


@pytest.mark.simulated
@pytest.mark.parametrize(("verb", "after"), [("create", 110), ("patch", 110), ("patch", 10), ("delete", 10)])
async def test_a_failed_write_of_a_shard_is_repeated_until_the_records_are_right(
    cluster: World, verb: str, after: int
) -> None:
    await prepared(cluster, 60)
    async with following_records(cluster):
        await sharded(cluster, 60)
        cluster.sim.faults.fail(Failure(403, 3, verb, "configmaps"))
        await resized(cluster, 60, after)
        await sharded(cluster, after)
        assert not await cluster.writes_when_left_alone()


async def resized(world: World, before: int, after: int) -> None:
    """Change the number of proxies from *before* to *after*: create more, or delete the Services of some."""
    added, removed = map(proxy_of, range(before, after)), map(proxy_of, range(after, before))
    await asyncio.gather(*(world.apply(*objects) for objects in added))
    await asyncio.gather(*(world.delete(objects[0]) for objects in removed))


@pytest.mark.full
async def test_no_name_vanishes_while_the_records_are_split_again(cluster: World) -> None:
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


class Brittle(dict[str, Any]):
    """An EndpointSlice whose endpoints can't be read the first time."""

    reads = 0

    def get(self, name: str, default: Any = None) -> Any:
        self.reads += name == "endpoints"
        if self.reads == 1:
            raise RuntimeError("unreadable")
        return super().get(name, default)


async def test_the_reconciler_of_records_reads_a_proxy_again_if_the_first_read_fails(
    cluster: World, caplog: pytest.LogCaptureFixture
) -> None:
    watched, slims = sources(NAMESPACE), {ENDPOINTSLICE: Brittle}
    cache = Cache([replace(each, slim=slims.get(each.selection.resource, each.slim)) for each in watched])
    await prepared(cluster, 1)
    async with following_records(cluster, cache):
        await sharded(cluster, 1)
    assert "unreadable" in caplog.text


@pytest.mark.simulated
async def test_a_zone_that_becomes_known_during_a_write_of_the_records_is_in_the_next_write(cluster: World) -> None:
    async def is_writing() -> int:
        return cluster.sim.writes[USER_AGENT, "create", "configmaps"]

    await cluster.apply(dnsconfig())
    cluster.sim.faults.latency = 0.1  # the API server executes a write 0.1 s after it has counted it
    async with following_records(cluster) as known:
        await cluster.eventually(is_writing)
        known.tell("tail.example.org")
        await cluster.becomes(cluster.zones, ["ts.net", "tail.example.org"])
