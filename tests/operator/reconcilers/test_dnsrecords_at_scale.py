"""100,000 names on a cluster: from the operator's table of records to the answers of a nameserver."""

import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from functools import lru_cache, partial
from ipaddress import IPv4Address
from pathlib import Path

import pytest
import yaml
from tsnameserver.answer import answer
from tsnameserver.compiler import empty_zone
from tsnameserver.configmaps import ApiSettings, ConfigMaps
from tsnameserver.records import LABEL_SELECTOR, MAX_SHARDS
from tsnameserver.source import Follower, Source
from tsnameserver.zone import Serving, Zone, ZoneSettings
from tsoperator.api.objects import CONFIGMAP, DNSCONFIG, Key, key_of
from tsoperator.dns.records.live import Record
from tsoperator.dns.records.shards import document, shard_named
from tsoperator.dns.records.table import Table
from tsoperator.kube.watch import Selection
from tsoperator.reconcilers.dnsrecords import plan as plans
from tsoperator.runtime import cache as caches
from tsoperator.runtime.plan import Deletion, Plan
from tsoperator.tailnet.tailnet import Tailnets

from tests.support.cluster import running, until
from tests.support.manifests import DOMAIN, dnsconfig
from tests.support.objects import rolled_out, settings
from tests.support.operator import NAMESPACE, World
from tests.support.tailnets import applier

NAMES = 100_000
SETTINGS = settings(nameserver_image="example.org/tsnameserver:v1")
FIRST = int(IPv4Address("100.64.0.1"))
MOVED = IPv4Address("100.127.255.254")
PATIENCE = 45.0  # seconds, enough for a real API server on a busy machine

pytestmark = [pytest.mark.full, pytest.mark.thorough, pytest.mark.timeout(3 * PATIENCE)]


@asynccontextmanager
async def writing(world: World) -> AsyncIterator[tuple[Table, Callable[[], Awaitable[int]]]]:
    """Yield a table of all names, and a function that writes the ConfigMaps that differ and returns their number.

    The function works as the operator's reconciler does, but the records come from the table, not from proxies.
    """
    await world.apply(dnsconfig())
    selections = (Selection(CONFIGMAP, NAMESPACE, LABEL_SELECTOR), Selection(DNSCONFIG))
    cache = caches.Cache([caches.Source(selection) for selection in selections])
    acting, owner, table = applier(world.api, cache, Tailnets([])), await world.look(dnsconfig()), Table()
    render = lru_cache(2 * MAX_SHARDS)(document)
    for number in range(NAMES):
        table.put(Key(NAMESPACE, f"ts-db-{number}"), record(number, IPv4Address(FIRST + number)))

    def plan() -> Plan:
        found = {shard_named(key_of(obj).name): obj for obj in cache.all(CONFIGMAP)}
        live = {shard: obj for shard, obj in found.items() if shard is not None}
        observed = plans.Observed(owner, table.buckets(), live, rolled_out(SETTINGS.nameserver_image))
        return plans.plan(observed, SETTINGS, plans.DEFAULT_LIMITS, render)

    async def write() -> int:
        steps = plan().steps
        await acting.act(owner, Plan(steps=steps), plans.failed)
        await until(lambda: plan().steps == [], PATIENCE)
        return sum(not isinstance(step, Deletion) for step in steps)

    async with running(cache.follow(world.api)):
        await cache.synced()
        yield table, write


def record(number: int, address: IPv4Address) -> Record:
    return Record(f"db-{number}.{DOMAIN}", (str(address),), ())


def api_settings(world: World, folder: Path) -> ApiSettings:
    """Write the files of a Pod's ServiceAccount into *folder*, and return the settings that name them."""
    config = yaml.safe_load(world.kubeconfig)
    cluster = config["clusters"][0]["cluster"]
    (folder / "token").write_text(config["users"][0]["user"]["token"])
    if "certificate-authority" in cluster:
        (folder / "ca.crt").write_text(Path(cluster["certificate-authority"]).read_text())
    return ApiSettings(cluster["server"], NAMESPACE, folder)


@asynccontextmanager
async def nameserver(world: World, folder: Path) -> AsyncIterator[Serving]:
    """Follow the ConfigMaps as the nameserver does, and yield the zone that it serves."""
    serving = Serving(empty_zone(ZoneSettings()))
    follower = Follower(serving, ZoneSettings())
    configmaps = ConfigMaps(api_settings(world, folder), partial(follower.offer, Source.API), follower.lose_api)
    async with running(configmaps.follow()):
        yield serving


def answers(zone: Zone, number: int) -> tuple[int, IPv4Address]:
    """Return the number of answers to a query for name *number*, and the address at the end of the response."""
    labels = f"db-{number}.{DOMAIN}".encode().split(b".")
    qname = b"".join(bytes([len(label)]) + label for label in labels)
    response = answer(struct.pack("!HHHHHH", 1, 0x0100, 1, 0, 0, 0) + qname + b"\0\0\1\0\1", zone) or bytes(12)
    return int.from_bytes(response[6:8]), IPv4Address(response[-4:])


def wrong(zone: Zone, numbers: Iterable[int]) -> list[int]:
    """Return those of *numbers* whose names don't lead to the addresses that they had at the start."""
    return [number for number in numbers if answers(zone, number) != (1, IPv4Address(FIRST + number))]


async def test_100_000_names_are_served_and_a_change_of_a_name_rewrites_one_shard(
    cluster: World, tmp_path: Path
) -> None:
    async with nameserver(cluster, tmp_path) as serving, writing(cluster) as (table, write):
        assert await write() == MAX_SHARDS
        await until(lambda: serving.zone.loaded, PATIENCE)
        assert wrong(serving.zone, range(NAMES)) == []
        table.put(Key(NAMESPACE, "ts-db-7"), record(7, MOVED))
        assert await write() == 1
        await until(lambda: answers(serving.zone, 7) == (1, MOVED), PATIENCE)
        assert wrong(serving.zone, range(NAMES)) == [7]
        async with nameserver(cluster, tmp_path) as started:
            await until(lambda: started.zone.loaded, PATIENCE)
            assert wrong(started.zone, range(0, NAMES, 10)) == []
