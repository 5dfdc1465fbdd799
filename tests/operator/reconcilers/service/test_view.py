"""The reconciler's view of a Service's places at ProxyGroups in the cache, and the allocation of ports."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
from tsoperator.api.names import FINALIZER
from tsoperator.api.objects import CONFIGMAP, ENDPOINTSLICE, PROXYGROUP, SERVICE, Key, Object, is_deleting, key_of
from tsoperator.group.clusterip import Target, cluster_ip_service, place_labels
from tsoperator.group.places import Place, Places
from tsoperator.group.ports import FIRST_PORT, PORT_COUNT, Wanted
from tsoperator.proxy.proxy import Children
from tsoperator.reconcilers.service.ask import parse
from tsoperator.reconcilers.service.view import PlacesView, Timers
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.ownership import Owner
from tsoperator.sources import sources

from tests.operator.reconcilers.service.played import PlayedGroup, grouped, make_namespaces
from tests.support.cluster import running, until
from tests.support.manifests import egress
from tests.support.objects import HOLD, endpoint, endpoint_slice, settings, slim_secret, stored
from tests.support.operator import NAMESPACE, World
from tests.support.shown import Shown
from tests.support.virtual_time import Clock

SQL = Wanted("TCP", 5432)


@dataclass
class Seen:
    """A view of the places in a cluster, and the cache from which it reads."""

    world: World
    cache: Cache
    view: PlacesView
    clock: Clock

    async def places(self, service: Object, **changes: object) -> Places:
        """Wait until the cache is up to date, and return the places of *service* with *changes* in its metadata."""
        live = await self.world.look(service)
        await self.world.eventually(self._caught_up)
        seen = {**live, "metadata": {**live["metadata"], **changes}}
        return self.view.of(parse(seen, settings()))

    async def gone(self, service: Object) -> None:
        """Delete *service*, and wait until the cache shows that."""
        await self.world.delete(service)
        await self.world.eventually(self._caught_up)

    async def _caught_up(self) -> bool:
        live, held = (await self.world.api.list(SERVICE)).items, self.cache.all(SERVICE)
        versions = [{each["metadata"]["resourceVersion"] for each in found} for found in (live, held)]
        return versions[0] == versions[1]


@pytest.fixture
async def seen(cluster: World) -> AsyncIterator[Seen]:
    """A view of a cluster on which no reconciler runs."""
    cache = Cache(sources(NAMESPACE))
    async with running(cache.follow(cluster.api)):
        await cache.synced()
        clock = Clock()
        yield Seen(cluster, cache, PlacesView(cache, settings(newcomer_wait=8.0), clock), clock)


def placed(key: Key, ports: dict[Wanted, int], group: str = "egress") -> Object:
    """Return the place of the Service *key* at *group*."""
    name, labels = Key(NAMESPACE, f"ts-{key.name}-in-{key.namespace}"), place_labels(Owner("svc", key), group)
    names = {each: f"{each.protocol.lower()}-{each.port}" for each in ports}
    return cluster_ip_service(name, labels, Target("db.tail1234.ts.net", ""), ports, names)


FREE = FIRST_PORT + 7
OTHERS = [port for port in range(FIRST_PORT, FIRST_PORT + PORT_COUNT) if port not in (FREE, FREE + 1)]
ALL_BUT_TWO = placed(Key("default", "big"), {Wanted("UDP", port): port for port in OTHERS})
ALL_BUT_TWO_ELSEWHERE = placed(Key("default", "huge"), {Wanted("UDP", port): port for port in OTHERS}, "other")
OLD, YOUNG = "2016-01-01T00:00:00Z", "2036-01-01T00:00:00Z"


async def test_services_for_which_ports_are_allocated_at_the_same_time_get_different_ports(seen: Seen) -> None:
    services, elsewhere = [grouped(name) for name in ("a", "b", "c")], grouped("d", "other")
    await seen.world.apply(ALL_BUT_TWO, ALL_BUT_TWO_ELSEWHERE, *services, elsewhere)
    ports = [(await seen.places(service)).ports for service in services]
    assert {port for each in ports if each for port in each.values()} == {FREE, FREE + 1}
    assert (ports[2], seen.view.starved("egress"), seen.view.starved("other")) == (None, [Key("default", "c")], [])
    assert (await seen.places(elsewhere)).ports
    await seen.gone(services[0])
    assert (await seen.places(services[2])).ports == ports[0]
    assert seen.view.starved("egress") == []


async def test_ports_of_places_that_the_cache_does_not_show_yet_are_reserved_for_a_minute(seen: Seen) -> None:
    web, db = grouped("web"), grouped("db")
    unseen = stored(placed(key_of(web), {SQL: FREE, Wanted("UDP", 1): FREE + 1}))
    await seen.world.apply(ALL_BUT_TWO, web, db)
    seen.view.take_live([unseen, await seen.world.look(ALL_BUT_TWO)])
    seen.clock.now += 59.9
    assert (await seen.places(db)).ports is None
    assert (await seen.places(web)).ports
    await seen.gone(web)
    seen.clock.now += 0.1
    assert (await seen.places(db)).ports


async def test_the_ports_of_a_place_are_free_as_soon_as_the_place_is_deleted(seen: Seen) -> None:
    place, db = placed(Key("default", "web"), {SQL: FREE, Wanted("UDP", 1): FREE + 1}), grouped("db")
    await seen.world.apply(ALL_BUT_TWO, db, place)
    seen.view.take_live([await seen.world.look(place)])
    assert (await seen.places(db)).ports is None
    await seen.world.delete(place)
    assert (await seen.places(db)).ports


async def test_an_invalid_service_does_not_keep_proxy_ports_that_other_services_could_use(seen: Seen) -> None:
    invalid, sound = grouped("a", "egress", 1, 2), grouped("b", "egress", 1, 2)
    await seen.world.apply(ALL_BUT_TWO, invalid, sound)
    bad = {**invalid["metadata"]["annotations"], "tailscale.com/tailnet-ip": "100.64.0.9"}
    assert (await seen.places(invalid)).ports
    assert (await seen.places(invalid, annotations=bad)).ports is None
    assert (await seen.places(sound)).ports
    assert (await seen.places(invalid)).ports is None
    assert seen.view.starved("egress") == [key_of(invalid)]
    await seen.places(invalid, annotations=bad)
    assert seen.view.starved("egress") == []


async def test_a_service_keeps_its_allocated_ports_and_can_reuse_the_ports_that_it_gives_up(seen: Seen) -> None:
    mine = placed(Key("default", "db"), {SQL: FREE, Wanted("TCP", 80): FREE + 1})
    await seen.world.apply(ALL_BUT_TWO, mine, grouped("db", "egress", 5432, 81))
    assert (await seen.places(grouped())).ports == {SQL: FREE, Wanted("TCP", 81): FREE + 1}


async def test_of_several_services_with_the_same_proxy_port_all_but_the_oldest_get_another_port(seen: Seen) -> None:
    http = Wanted("TCP", 80)
    web, db = grouped("web", "egress", 80, 5432), grouped("db", "egress", 80, 5432)
    older = placed(key_of(web), {SQL: FREE, Wanted("UDP", 80): FREE + 5})
    await seen.world.apply(older, web)
    await asyncio.sleep(1)
    younger = placed(key_of(db), {http: FREE, SQL: FREE + 1, Wanted("UDP", 80): FREE + 5})
    await seen.world.apply(younger, db)
    await asyncio.sleep(1)
    await seen.world.apply(placed(Key("default", "newest"), {http: FREE}))
    first, second = [await seen.places(each) for each in (web, db)]
    assert first.ports
    assert second.ports
    assert (first.contested, first.ports[SQL]) == ({}, FREE)
    assert (second.contested, second.ports[SQL]) == ({http: key_of(web)}, FREE + 1)
    assert {*second.ports.values()} & {*first.ports.values(), FREE, FREE + 5} == set()
    await seen.world.change(older, {"metadata": {"finalizers": ["example.org/a"]}})
    await seen.world.delete(older)
    assert (await seen.places(db)).contested == {}


async def test_a_pod_is_a_newcomer_for_a_while_after_the_operator_first_saw_the_pod(seen: Seen) -> None:
    group = PlayedGroup(seen.world)
    await group.start()
    await seen.world.apply(grouped())

    async def left() -> list[float]:
        return sorted((await seen.places(grouped())).groups["egress"].new.values())

    await seen.world.becomes(left, [8.0, 8.0])
    seen.clock.now += 7.0
    await group.replace_pod(1)
    await seen.world.becomes(left, [1.0, 8.0])
    seen.clock.now += 1.0
    assert await left() == [7.0]


async def test_the_older_of_two_services_has_their_common_entry_unless_only_the_younger_has_a_place(seen: Seen) -> None:
    older, younger = grouped("a-b"), grouped("b")
    younger["metadata"]["namespace"] = "default-a"
    await make_namespaces(seen.world, "default-a")
    await seen.world.apply(older, younger)
    assert (await seen.places(younger, creationTimestamp=YOUNG)).rival == key_of(older)
    assert (await seen.places(older, creationTimestamp=OLD)).rival is None
    await seen.world.apply(placed(key_of(younger), {SQL: FREE}))
    assert (await seen.places(older, creationTimestamp=OLD)).rival == key_of(younger)
    assert (await seen.places(younger, creationTimestamp=YOUNG)).rival is None
    await seen.world.apply(placed(key_of(older), {SQL: FREE + 1}))
    assert (await seen.places(younger)).rival is None


async def test_a_copy_of_a_place_in_another_namespace_has_no_entry_and_no_port(seen: Seen) -> None:
    namesake = placed(Key("default-a", "b"), {Wanted("UDP", port): port for port in (*OTHERS, FREE, FREE + 1)})
    namesake["metadata"]["namespace"] = "default-a"
    await make_namespaces(seen.world, "default-a")
    await seen.world.apply(namesake, grouped("a-b"))
    found = await seen.places(grouped("a-b"))
    assert (found.rival, {*(found.ports or ())}) == (None, {SQL})
    await asyncio.sleep(1)
    await seen.world.apply(placed(Key("default", "a-b"), {SQL: FREE}))
    found = await seen.places(grouped("a-b"))
    assert (found.ports, found.contested) == ({SQL: FREE}, {})


@pytest.mark.parametrize(("type_", "with_entry"), [("egress", ["egress"]), ("ingress", [])])
async def test_a_service_that_gives_up_egress_waits_for_groups_that_have_yet_to_remove_its_entry(
    seen: Seen, type_: str, with_entry: list[str]
) -> None:
    group, leaving = PlayedGroup(seen.world, replicas=0), egress(target="")
    await group.start(type_)
    await seen.world.apply(leaving, placed(Key("default", "db"), {SQL: FREE}))
    await group.configure()
    await until(lambda: (seen.cache.get(CONFIGMAP, Key(NAMESPACE, "egress-egress-config")) or {}).get("egressEntries"))
    assert (await seen.places(leaving, finalizers=[FINALIZER])).with_entry == with_entry
    assert (await seen.places(leaving)).with_entry == ()
    await seen.world.api.patch(PROXYGROUP, Key("", "egress"), HOLD)
    await seen.world.api.delete(PROXYGROUP, Key("", "egress"))
    await until(lambda: is_deleting(seen.cache.get(PROXYGROUP, Key("", "egress")) or HOLD))
    assert (await seen.places(leaving, finalizers=[FINALIZER])).with_entry == []


OWNER = Owner("svc", Key("default", "db"))
JOINED: dict[str, str | Object] = {"device_id": "n1", "device_fqdn": "default-db.tail1234.ts.net."}


@pytest.mark.parametrize(
    ("device", "addresses", "place"),
    [
        (JOINED, ["10.0.0.1"], Place("ts-db", serves=True, is_headless=True)),
        (JOINED, ["2001:db8::1"], Place("ts-db", serves=True, is_headless=True)),
        ({"device_id": "n1"}, ["10.0.0.1"], Place("ts-db", serves=False, is_headless=True)),
        (JOINED, [], Place("ts-db", serves=False, is_headless=True)),
        (None, [], None),
    ],
)
async def test_the_own_proxy_of_a_service_counts_as_serving_when_it_has_joined_and_is_ready(
    seen: Seen, device: dict[str, str | Object] | None, addresses: list[str], place: Place | None
) -> None:
    family = "IPv6" if any(":" in ip for ip in addresses) else "IPv4"
    made = endpoint_slice("ts-db", *(endpoint(ip) for ip in addresses))
    labels = {**made["metadata"]["labels"], **OWNER.labels}
    metadata = {"namespace": NAMESPACE, "name": "ts-db-x", "labels": labels}
    await seen.world.apply({**made, "metadata": metadata, "addressType": family, "ports": []})
    await until(lambda: seen.cache.all(ENDPOINTSLICE))
    secrets = [] if device is None else [slim_secret("ts-db-0", device, OWNER.labels)]
    assert seen.view.own_place(Children(secrets=secrets), "ts-db") == place


def test_the_age_of_a_fact_grows_while_the_fact_is_true_and_starts_at_zero_when_it_becomes_true_again() -> None:
    db, web = (stored(egress(name)) for name in ("db", "web"))
    timers = Timers(Shown(db, web))
    assert timers.ages(db, {"a"}, 10.0) == {"a": 0.0}
    assert timers.ages(db, {"a", "b"}, 12.0) == {"a": 2.0, "b": 0.0}
    assert timers.ages(web, {"a"}, 13.0) == {"a": 0.0}
    assert timers.ages(db, {"b"}, 15.0) == {"b": 3.0}
    assert timers.ages(db, {"a", "b"}, 16.0) == {"a": 0.0, "b": 4.0}
    assert timers.ages(db, (), 17.0) == {}
    assert timers.ages(db, {"b"}, 18.0) == {"b": 0.0}
