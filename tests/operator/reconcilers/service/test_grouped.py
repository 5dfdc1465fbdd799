"""Egress Services that a ProxyGroup serves, on a cluster: the reconciler runs, and the test plays the groups."""

from collections.abc import AsyncIterator

import pytest
from tsoperator.api.names import FINALIZER
from tsoperator.api.objects import Object, key_of

from tests.operator.reconcilers.service.played import PlayedGroup, running_services
from tests.support.cluster import running
from tests.support.manifests import egress
from tests.support.operator import NAMESPACE, World

VALID, CONFIGURED, READY = (f"TailscaleEgressSvc{name}" for name in ("Valid", "Configured", "Ready"))
DOMAIN = f"{NAMESPACE}.svc.cluster.local"


def grouped(name: str = "db", group: str = "egress", *ports: int) -> Object:
    """Return an egress Service that names *group*."""
    service = egress(name, proxy_group=group)
    service["spec"]["ports"] = [{"name": f"port-{port}", "port": port} for port in ports or (5432,)]
    return service


@pytest.fixture
async def group(cluster: World) -> AsyncIterator[PlayedGroup]:
    """A group of two, beside the reconciler."""
    async with running_services(cluster):
        made = PlayedGroup(cluster)
        await made.start()
        yield made


async def external_name(world: World, service: Object) -> str:
    """Return the name of the place that *service* points at."""
    name: str = (await world.look(service))["spec"].get("externalName", "")
    return name.removesuffix(f".{DOMAIN}")


async def test_a_service_is_served_once_the_proxies_report_its_entry(group: PlayedGroup) -> None:
    world = group.world
    await world.apply(grouped())
    place = await world.eventually(group.place)
    await world.becomes(lambda: external_name(world, grouped()), key_of(place).name)
    await world.becomes(lambda: world.reason(grouped(), READY), "NotReadyToRouteTraffic")
    assert (await world.look(grouped()))["metadata"]["finalizers"] == [FINALIZER]
    assert (await world.reason(grouped(), CONFIGURED)).startswith("ConfigurationFailed:ProxyGroup:egress:Config:")
    await group.configure()
    await group.report(0)
    await world.becomes(lambda: world.reason(grouped(), READY), "PartiallyReadyToRouteTraffic")
    assert await group.endpoints() == {"ipv4": (await group.addresses(0))[:1]}
    await group.report(1)
    await world.becomes(lambda: world.reason(grouped(), READY), "ReadyToRouteTraffic")
    assert (await world.reason(grouped(), CONFIGURED)).startswith("ConfiguredFor:ProxyGroup:egress:Config:")
    assert await world.reason(grouped(), VALID) == "EgressSvcValid"
    assert not await world.writes_when_left_alone()


async def test_a_service_goes_once_its_entry_is_out(group: PlayedGroup) -> None:
    world = group.world
    await world.apply(grouped())
    await world.eventually(group.place)
    await group.configure()
    await world.becomes(lambda: world.reason(grouped(), READY), "NotReadyToRouteTraffic")
    await world.delete(grouped())
    await world.becomes(group.endpoints, {})
    assert not await world.gone(grouped())
    await group.configure()
    await world.eventually(lambda: world.gone(grouped()))
    assert await group.place() is None


async def test_a_service_that_moves_is_served_all_the_time(group: PlayedGroup) -> None:
    world, other = group.world, PlayedGroup(group.world, "other")
    await other.start()
    async with running(group.play(), other.play()):
        await world.apply(grouped())
        await world.becomes(lambda: world.reason(grouped(), READY), "ReadyToRouteTraffic")
        first = await external_name(world, grouped())
        await world.annotate(grouped(), {"tailscale.com/proxy-group": "other"})
        await world.eventually(lambda: moved(world, first))
        await world.becomes(group.place, None)
        second = await external_name(world, grouped())
        await world.annotate(grouped(), {"tailscale.com/proxy-group": None})
        await world.eventually(lambda: moved(world, second))
        await world.becomes(other.place, None)
        assert await world.reason(grouped()) == "ProxyCreated"
        await world.annotate(grouped(), {"tailscale.com/proxy-group": "egress"})
        await world.becomes(world.device_names, [])
        await world.delete(grouped())
        await world.eventually(lambda: world.gone(grouped()))
        assert await world.leftovers(grouped()) == []


async def moved(world: World, old: str) -> bool:
    """Tell whether the Service points elsewhere than at the *old* place."""
    return await external_name(world, grouped()) not in ("", old)
