"""The Services that the operator reconciles when an object of their ProxyGroup changes."""

import json
from base64 import b64encode
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
from tsoperator.api.names import ANNOTATION_EGRESS_LEFT_OUT, EGRESS_SERVICES
from tsoperator.api.objects import CONFIGMAP, POD, PROXYGROUP, SECRET, SERVICE, Key, Object, Resource, key_of
from tsoperator.group.clusterip import Target, cluster_ip_service, place_labels
from tsoperator.group.ports import FIRST_PORT
from tsoperator.proxy.entries import Entry, render_entries
from tsoperator.reconcilers.service.changes import GroupChanges
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.ownership import Owner
from tsoperator.sources import sources

from tests.operator.group.places import NAMES, PORTS
from tests.operator.reconcilers.service.played import PlayedGroup, grouped
from tests.support.cluster import running, until
from tests.support.manifests import egress
from tests.support.objects import HOLD, LET_GO
from tests.support.operator import NAMESPACE, World

DB, WEB, MOVED = (Key("default", name) for name in ("db", "web", "moved"))
ALL = {DB, WEB, MOVED}
TARGET = Target("db.tail1234.ts.net", "")
ENTRY = Entry(TARGET.fqdn, "", frozenset())
GROUP, CONFIG, POD_KEY = Key("", "egress"), Key(NAMESPACE, "egress-egress-config"), Key(NAMESPACE, "egress-0")
NOTED = {"metadata": {"annotations": {"a": "b"}}}


@dataclass
class Watched:
    """A group, and the mappers for the changes of its objects. *shown* has each object as it was before the change."""

    world: World
    cache: Cache
    changes: GroupChanges
    group: PlayedGroup
    shown: dict[tuple[Resource, Key], Object] = field(default_factory=dict)

    async def concerned(self, resource: Resource, name: str) -> set[Key]:
        """Wait until the cache has a change of an object, and return the Services that the operator reconciles then."""
        key = Key(NAMESPACE if resource.namespaced else "", name)

        async def caught_up() -> bool:
            live = await self.world.find(resource, name, key.namespace)
            return version(live) == version(self.cache.get(resource, key))

        await self.world.eventually(caught_up)
        before, now = self.shown.pop((resource, key), None), self.cache.get(resource, key)
        self.shown |= {(resource, key): now} if now else {}
        if resource == SERVICE:
            return {service for obj in (before, now) if obj for service in self.changes.sharing(obj)}
        mappers = {
            SECRET: self.changes.of_secret,
            POD: self.changes.of_pod,
            PROXYGROUP: self.changes.of_group,
            CONFIGMAP: self.changes.of_configmap,
        }
        return {*mappers[resource](before, now)}


def version(obj: Object | None) -> str:
    return obj["metadata"]["resourceVersion"] if obj else ""


@pytest.fixture
async def watched(cluster: World) -> AsyncIterator[Watched]:
    """A group with one replica and two Services, and with a place of a third Service that has moved away."""
    group = PlayedGroup(cluster, replicas=1)
    await group.start()
    for key in ALL:
        labels = place_labels(Owner("svc", key), "egress")
        await cluster.apply(cluster_ip_service(Key(NAMESPACE, f"ts-{key.name}"), labels, TARGET, PORTS, NAMES))
        await cluster.apply(egress(key.name) if key == MOVED else grouped(key.name))
    cache = Cache(sources(NAMESPACE))
    async with running(cache.follow(cluster.api)):
        await cache.synced()
        assert len(cache.all(SERVICE)) > len(ALL)
        yield Watched(cluster, cache, GroupChanges(cache), group)


async def test_a_change_of_a_group_causes_a_reconcile_of_its_services_only_if_they_depend_on_the_changed_field(
    watched: Watched,
) -> None:
    assert await watched.concerned(PROXYGROUP, "egress") == ALL
    await watched.world.api.patch(PROXYGROUP, GROUP, NOTED)
    assert await watched.concerned(PROXYGROUP, "egress") == set()
    await watched.group.available(False)
    assert await watched.concerned(PROXYGROUP, "egress") == ALL
    await watched.world.api.patch(PROXYGROUP, GROUP, HOLD)
    assert await watched.concerned(PROXYGROUP, "egress") == set()
    for change in (watched.world.api.delete(PROXYGROUP, GROUP), watched.world.api.patch(PROXYGROUP, GROUP, LET_GO)):
        await change
        assert await watched.concerned(PROXYGROUP, "egress") == ALL


async def test_a_changed_place_causes_a_reconcile_of_services_that_use_one_of_its_old_or_new_proxy_ports(
    watched: Watched,
) -> None:
    assert await watched.concerned(SERVICE, "ts-db") == ALL
    ports = [{"port": 5432, "targetPort": FIRST_PORT, "protocol": "TCP"}]
    await watched.world.api.patch(SERVICE, Key(NAMESPACE, "ts-db"), {"spec": {"ports": ports}})
    assert await watched.concerned(SERVICE, "ts-db") == {WEB, MOVED}


async def test_a_pod_that_is_created_or_deleted_causes_a_reconcile_of_the_services_of_its_group(
    watched: Watched,
) -> None:
    assert await watched.concerned(POD, "egress-0") == ALL
    await watched.world.api.patch(POD, POD_KEY, NOTED)
    assert await watched.concerned(POD, "egress-0") == set()
    await watched.world.api.delete(POD, POD_KEY)
    assert await watched.concerned(POD, "egress-0") == ALL


async def report(watched: Watched, ip: str, *names: str) -> set[Key]:
    """Let the proxy report the entries *names*, and return the Services that the operator reconciles then."""
    entry = {"tailnetTarget": {"fqdn": TARGET.fqdn}, "ports": []}
    text = json.dumps({"podIPv4": ip, "services": dict.fromkeys(names, entry)})
    data = {"data": {EGRESS_SERVICES: b64encode(text.encode()).decode()}}
    await watched.world.api.patch(SECRET, Key(NAMESPACE, "egress-0"), data)
    return await watched.concerned(SECRET, "egress-0")


async def test_a_changed_report_of_a_proxy_causes_a_reconcile_only_of_services_whose_entries_differ(
    watched: Watched,
) -> None:
    assert await report(watched, "10.0.0.1") == set()
    assert await report(watched, "10.0.0.1", "default-db", "default-stranger") == {DB}
    assert await report(watched, "10.0.0.1", "default-db", "default-moved") == {MOVED}
    assert await report(watched, "10.0.0.2", "default-db", "default-moved") == {DB, MOVED}
    await watched.world.api.delete(SECRET, Key(NAMESPACE, "egress-0"))
    assert await watched.concerned(SECRET, "egress-0") == {DB, MOVED}


async def configure(watched: Watched, left_out: str | None, *names: str) -> set[Key]:
    """Write the entries *names* into the ConfigMap, and return the Services that are reconciled because of that.

    *left_out* is the value of the annotation about entries for which there is no room; None removes it.
    """
    text = render_entries(dict.fromkeys(names, ENTRY))
    notes = {"annotations": {ANNOTATION_EGRESS_LEFT_OUT: left_out}}
    await watched.world.api.patch(CONFIGMAP, CONFIG, {"metadata": notes, "binaryData": {EGRESS_SERVICES: text}})
    return await watched.concerned(CONFIGMAP, CONFIG.name)


async def test_a_changed_entry_reconciles_its_service_and_all_services_are_reconciled_if_room_runs_out_or_returns(
    watched: Watched,
) -> None:
    assert await configure(watched, None, "default-db") == {DB}
    assert await configure(watched, None, "default-db", "default-web") == {WEB}
    assert await configure(watched, "1", "default-db") == ALL
    assert await configure(watched, "2", "default-db") == set()
    assert await configure(watched, None) == ALL


async def test_a_deleted_or_recreated_configmap_causes_a_reconcile_of_the_services_of_its_entries(
    watched: Watched,
) -> None:
    assert await configure(watched, None, "default-db") == {DB}
    live = await watched.world.api.get(CONFIGMAP, CONFIG)
    await watched.world.api.delete(CONFIGMAP, CONFIG)
    assert await watched.concerned(CONFIGMAP, CONFIG.name) == {DB}
    await watched.world.apply({**live, "metadata": {**live["metadata"], "resourceVersion": None, "uid": None}})
    assert await watched.concerned(CONFIGMAP, CONFIG.name) == {DB}


async def test_a_removed_entry_causes_a_reconcile_of_its_service_even_if_the_service_no_longer_names_the_group(
    watched: Watched,
) -> None:
    service = egress("left-alone", "")
    await watched.world.apply(service)
    await until(lambda: watched.cache.get(SERVICE, key_of(service)))
    assert await configure(watched, None, "default-left-alone", "default-gone") == set()
    assert await configure(watched, None) == {key_of(service)}
