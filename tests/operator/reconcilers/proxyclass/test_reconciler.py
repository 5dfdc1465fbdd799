"""ProxyClasses on a cluster with a running operator: the tests check the state of the cluster."""

from collections import Counter

import pytest
from clustersim.faults import Failure
from tsoperator.api.objects import Object

from tests.support.manifests import proxy_class
from tests.support.operator import World, running_operator

READY = "ProxyClassReady"
MONITORED: Object = {"metrics": {"enable": True, "serviceMonitor": {"enable": True}}}
PORTS: Object = {"staticEndpoints": {"nodePort": {"ports": [{"port": 30010, "endPort": 30020}]}}}


async def becomes(world: World, name: str, reason: str) -> None:
    await world.becomes(lambda: world.reason(proxy_class(name), READY), reason)


async def test_a_class_with_service_monitors_is_valid_only_while_their_crd_exists(
    world: World, monitoring: Object
) -> None:
    await world.apply(proxy_class(**MONITORED), proxy_class("other"))
    await becomes(world, "prod", "ProxyClassInvalid")
    await world.apply(monitoring)
    await becomes(world, "prod", "ProxyClassValid")
    await world.delete(monitoring)
    await becomes(world, "prod", "ProxyClassInvalid")
    assert await world.reason(proxy_class("other"), READY) == "ProxyClassValid"


@pytest.mark.simulated
async def test_a_class_with_service_monitors_becomes_invalid_as_soon_as_their_crd_is_being_deleted(
    world: World, monitoring: Object
) -> None:
    await world.apply(monitoring, proxy_class(**MONITORED))
    await becomes(world, "prod", "ProxyClassValid")
    await world.change(monitoring, {"metadata": {"finalizers": ["example.org/hold"]}})
    await world.delete(monitoring)
    await becomes(world, "prod", "ProxyClassInvalid")
    await world.change(monitoring, {"metadata": {"finalizers": None}})


async def test_of_several_new_classes_with_the_same_node_ports_only_one_is_ready_until_that_class_is_deleted(
    cluster: World,
) -> None:
    names = [f"class-{number}" for number in range(4)]

    async def reasons() -> Counter[str]:
        return Counter([await cluster.reason(proxy_class(name), READY) for name in names])

    await cluster.apply(*(proxy_class(name, **PORTS) for name in names))
    async with running_operator(cluster):
        await cluster.becomes(reasons, {"ProxyClassValid": 1, "ProxyClassInvalid": 3})
        assert not await cluster.writes_when_left_alone()
        (first,) = [name for name in names if await cluster.reason(proxy_class(name), READY) == "ProxyClassValid"]
        names.remove(first)
        await cluster.delete(proxy_class(first))
        await cluster.becomes(reasons, {"ProxyClassValid": 1, "ProxyClassInvalid": 2})


@pytest.mark.simulated
async def test_a_class_becomes_ready_although_the_first_request_for_the_range_of_node_ports_fails(
    cluster: World,
) -> None:
    await cluster.apply(proxy_class(**PORTS))
    for status in (500, 503):
        cluster.sim.faults.fail(Failure(status, verb="create", plural="services"))
    async with running_operator(cluster):
        await becomes(cluster, "prod", "ProxyClassValid")
        assert cluster.sim.faults.to_json()["fail"] == []
