"""Several egress Services that lead to one device: one of them has the device's name, and the others report that."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
from tsoperator.api.names import (
    ANNOTATION_CLUSTER_DNS,
    ANNOTATION_LAST_CLUSTER_IP,
    ANNOTATION_MAGIC_DNSNAME,
    ANNOTATION_TAILNET_FQDN,
    PROXY_GROUP,
)
from tsoperator.api.objects import SERVICE, Object, is_deleting, key_of
from tsoperator.reconcilers.service.ask import BY_DESTINATION, by_destination
from tsoperator.reconcilers.service.names import NamesView
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.ownership import Owner
from tsoperator.sources import sources

from tests.operator.reconcilers.service.played import (
    CONFIGURED,
    READY,
    VALID,
    PlayedGroup,
    make_namespaces,
    running_services,
)
from tests.operator.reconcilers.service.specs import EGRESS, GROUP
from tests.support.cluster import running, until
from tests.support.manifests import DOMAIN, FQDN, backend, dnsconfig, egress, exposed, group_egress, load_balancer
from tests.support.objects import HOLD, egress_service, settings
from tests.support.operator import NAMESPACE, World

OTHER = f"other.{DOMAIN}"
SOON = 1.0
"""Seconds within which a name leads to another Service."""


def of_group(name: str, *numbers: int, namespace: str = "default") -> Object:
    """Return an egress Service to the device, with these ports at the group."""
    made = group_egress(name, "egress", FQDN, *numbers)
    made["metadata"]["namespace"] = namespace
    return made


def ports(*numbers: int) -> Object:
    """Return the patch that gives a Service these ports."""
    return {"spec": {"ports": of_group("", *numbers)["spec"]["ports"]}}


@dataclass
class Scene:
    """A cluster with a DNSConfig, on which the reconcilers of Services and records run."""

    world: World

    async def served(self, *services: Object) -> None:
        """Apply *services* of the group, one after the other, and wait until each is served."""
        for service in services:
            await self.world.apply(service)
            await self.world.becomes(lambda service=service: self.world.reason(service, READY), "ReadyToRouteTraffic")  # type: ignore[misc]  # a value is bound
        await self.world.settled()

    async def address(self, service: Object) -> str:
        """Return the cluster IP of the place of *service*."""
        name = (await self.world.look(service))["spec"]["externalName"].partition(".")[0]
        found = await self.world.find(SERVICE, name)
        assert found
        address: str = found["spec"]["clusterIP"]
        return address

    async def leads_to(self, *services: Object, name: str = FQDN) -> None:
        """Wait until *name* leads to *services* and to nothing else."""
        wanted = sorted([await self.address(each) for each in services])

        async def addresses() -> list[str]:
            return sorted((await self.world.records()).get(name, []))

        await self.world.becomes(addresses, wanted, SOON)

    async def says(self, service: Object, words: str, kind: str = VALID) -> None:
        """Wait until a Warning Event and a condition of *service* have *words*, and the condition is True."""

        async def told() -> bool:
            condition = await self.world.condition(service, kind)
            event = (await self.world.events(service)).get("ClusterNameTaken", "")
            return (
                condition is not None and condition.status == "True" and words in condition.message and words in event
            )

        await self.world.eventually(told)

    async def says_nothing(self, service: Object) -> None:
        """Wait until the condition of *service* says nothing about a name: its message is only its reason."""

        async def message() -> str:
            condition = await self.world.condition(service, VALID)
            return condition.message if condition else ""

        await self.world.becomes(message, "EgressSvcValid", SOON)


@pytest.fixture
async def scene(cluster: World) -> AsyncIterator[Scene]:
    made, group = Scene(cluster), PlayedGroup(cluster)
    await make_namespaces(cluster, "team")
    await cluster.apply(dnsconfig())
    async with running_services(cluster):
        await group.start()
        async with running(group.play()):
            yield made


OLDER, YOUNGER = of_group("db", 5432), of_group("cache", 6379, namespace="team")


async def test_a_service_with_other_ports_names_the_holder_of_its_name_and_gets_the_name_when_the_holder_is_deleted(
    scene: Scene,
) -> None:
    await scene.served(OLDER, YOUNGER)
    await scene.leads_to(OLDER)
    await scene.says(YOUNGER, "get to Service default/db, which had the name first")
    assert not await scene.world.writes_when_left_alone()
    await scene.world.delete(OLDER)
    await scene.leads_to(YOUNGER)
    await scene.says_nothing(YOUNGER)


async def test_services_share_a_name_only_while_they_have_the_same_ports(
    scene: Scene,
) -> None:
    same = of_group("too", 5432, namespace="team")
    await scene.served(OLDER, same, YOUNGER)
    await scene.leads_to(OLDER, same)
    await scene.world.change(same, ports(5432, 5433))
    await scene.leads_to(OLDER)
    await scene.says(same, "which had the name first and forwards other ports")
    await scene.world.change(same, ports(5432))
    await scene.leads_to(OLDER, same)
    await scene.world.change(OLDER, ports(6379))
    await scene.leads_to(OLDER, YOUNGER)
    await scene.says(same, "get to Service default/db")


@pytest.mark.parametrize(
    "patch",
    [
        {"metadata": {"annotations": {ANNOTATION_TAILNET_FQDN: OTHER}}},
        {"metadata": {"annotations": {ANNOTATION_CLUSTER_DNS: "false"}}},
        {"metadata": {"annotations": {ANNOTATION_TAILNET_FQDN: "db.example.org"}}},
        {"spec": {"ports": None}},
    ],
    ids=["elsewhere", "not-wanted", "invalid", "invalid-ports"],
)
async def test_a_name_that_its_service_gives_up_leads_to_the_next_service(scene: Scene, patch: Object) -> None:
    await scene.served(OLDER, YOUNGER)
    await scene.world.change(OLDER, patch)
    await scene.leads_to(YOUNGER)
    await scene.says_nothing(YOUNGER)


async def test_an_older_service_that_asks_for_a_name_later_does_not_take_the_name_from_its_holder(scene: Scene) -> None:
    await scene.world.apply(egress("db", OTHER))
    await scene.served(YOUNGER)
    await scene.world.change(OLDER, OLDER)
    await scene.says(OLDER, "get to Service team/cache")
    await scene.leads_to(YOUNGER)


async def test_a_service_at_a_group_and_a_service_with_its_own_proxy_do_not_share_a_name(scene: Scene) -> None:
    own = egress("own")
    await scene.served(OLDER)
    await scene.world.apply(own)
    await scene.says(own, "get to Service default/db", "TailscaleProxyReady")
    await scene.leads_to(OLDER)
    await scene.world.annotate(OLDER, {PROXY_GROUP: None})
    proxies = [await scene.world.joined(each) for each in (OLDER, own)]
    wanted = sorted(address for each in proxies for address in each.addresses)

    async def addresses() -> list[str]:
        return sorted((await scene.world.records()).get(FQDN, []))

    await scene.world.becomes(addresses, wanted)


async def test_a_service_at_a_group_does_not_get_the_name_of_an_exposed_services_device(scene: Scene) -> None:
    exposed = load_balancer("lb", 80, 443)
    await scene.served(OLDER)
    await scene.world.apply(exposed)
    device = (await scene.world.joined(exposed)).state["device_fqdn"].removesuffix(".")
    await scene.world.annotate(OLDER, {ANNOTATION_TAILNET_FQDN: device})
    await scene.says(OLDER, "get to Service default/lb, whose own device has that name")
    assert (await scene.world.records())[device] == [(await scene.world.look(exposed))["spec"]["clusterIP"]]
    await scene.world.delete(exposed)
    await scene.leads_to(OLDER, name=device)


async def test_a_service_names_the_holder_of_its_name_only_while_there_is_a_dnsconfig(scene: Scene) -> None:
    await scene.world.delete(dnsconfig())
    await scene.served(OLDER, YOUNGER)
    await scene.says_nothing(YOUNGER)
    await scene.world.apply(dnsconfig())
    await scene.says(YOUNGER, "get to Service default/db")


OLD, YOUNG = "2016-01-01T00:00:00Z", "2036-01-01T00:00:00Z"
REFUSED = {"conditions": [{"type": CONFIGURED, "status": "False", "reason": "", "message": ""}]}


def new_cache() -> Cache:
    """Return a cache with the index that a `NamesView` needs."""
    cache = Cache(sources(NAMESPACE))
    cache.index(SERVICE, {BY_DESTINATION: by_destination})
    return cache


def asking(created: str) -> Object:
    """Return a Service that asks for its device's name, has no place, and so doesn't have the name yet."""
    spec = {"ports": [{"port": 5432}]}
    return egress_service(EGRESS | GROUP, namespace="team", spec=spec, creationTimestamp=created)


@pytest.mark.parametrize(
    ("created", "other", "holds"),
    [
        (YOUNG, egress(), True),
        (OLD, egress(), False),
        (YOUNG, egress(cluster_dns="false"), False),
        (YOUNG, load_balancer("db", tailnet_fqdn=FQDN), False),
        (YOUNG, egress(ts_tailnet_target_ip="100.64.0.9"), False),
        (YOUNG, of_group("db", 5432), False),
        (YOUNG, of_group("db", 5432, 80), True),
        (YOUNG, egress() | {"status": REFUSED}, False),
    ],
    ids=["older", "younger", "not-wanted", "exposed", "by-address", "same-ports", "other-ports", "without-a-place"],
)
async def test_the_oldest_of_several_new_services_has_the_name_if_the_service_can_use_the_name(
    cluster: World, created: str, other: Object, holds: bool
) -> None:
    cache = new_cache()
    await cluster.apply(other)
    if status := other.get("status"):
        await cluster.api.replace_status(SERVICE, {**await cluster.look(other), "status": status})
    async with running(cache.follow(cluster.api)):
        await cache.synced()
        found = NamesView(cache, settings()).holder(asking(created))
    assert (found.owner.key if found else None) == (key_of(other) if holds else None)


def in_front(parent: Object, namespace: str = NAMESPACE) -> Object:
    """Return a Service with the labels and the MagicDNS name of the Service in front of *parent*'s proxy."""
    noted = {ANNOTATION_MAGIC_DNSNAME: FQDN} | ({} if parent == egress() else {ANNOTATION_LAST_CLUSTER_IP: "10.96.0.7"})
    labels = Owner("svc", key_of(parent)).labels
    return {**backend(), "metadata": {"namespace": namespace, "name": "ts-db", "labels": labels, "annotations": noted}}


@pytest.mark.parametrize(
    ("parent", "leaving"),
    [(egress(), in_front(egress())), (exposed("db"), in_front(exposed("db"))), (exposed("db"), exposed("db"))],
    ids=["holder", "device", "object-of-device"],
)
async def test_a_name_is_free_as_soon_as_its_holder_is_being_deleted(
    cluster: World, parent: Object, leaving: Object
) -> None:
    cache = new_cache()
    await cluster.apply(parent, in_front(parent))
    await cluster.change(leaving, HOLD)
    async with running(cache.follow(cluster.api)):
        await cache.synced()
        view = NamesView(cache, settings())
        found = view.holder(asking(OLD))
        assert found
        assert found.owner.key == key_of(parent)
        await cluster.delete(leaving)
        await until(lambda: is_deleting(cache.get(SERVICE, key_of(leaving)) or leaving))
        assert view.holder(asking(OLD)) is None


@pytest.mark.parametrize(
    ("theirs", "namespace"),
    [(exposed("shop"), "default"), (exposed("shop", cluster_dns="false"), NAMESPACE)],
    ids=["copy-in-another-namespace", "not-wanted"],
)
async def test_a_service_gets_the_name_of_a_device_that_has_no_name_in_the_clusters_dns(
    cluster: World, theirs: Object, namespace: str
) -> None:
    cache = new_cache()
    await cluster.apply(theirs, in_front(theirs, namespace))
    async with running(cache.follow(cluster.api)):
        await cache.synced()
        assert NamesView(cache, settings()).holder(asking(OLD)) is None
