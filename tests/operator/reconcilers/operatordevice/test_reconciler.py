"""The registration of the operator's own device on a cluster with a running operator."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from clustersim import objects as kinds
from clustersim.faults import LOST, Failure
from clustersim.sim import SimOptions
from tsoperator.api.objects import SECRET, STATEFULSET, Key, Object, Resource, uid

from tests.support.manifests import backend, ingress, load_balancer, proxy_group
from tests.support.objects import texts, whole_secret
from tests.support.operator import NAMESPACE, World, meant, new_world, running_operator

pytestmark = pytest.mark.simulated

NAME = "operator"
POD_NAME = "operator-new"
GROUP = proxy_group("pg", type="ingress")
CLAIM = ingress(proxy_group="pg")
OLD: dict[str, str | Object] = {"_current-profile": "profile-1a2b", "profile-1a2b": {"Config": {"NodeID": "nOLD"}}}


@asynccontextmanager
async def operator(world: World, **settings: Any) -> AsyncIterator[None]:
    async with running_operator(world, operator_secret=NAME, pod_name=POD_NAME, **settings):
        yield


def operators_pod(world: World, name: str, **labels: str) -> Object:
    """Create a Pod of an operator. The Pod gets no node, so that no kubelet runs it."""
    metadata = {"namespace": NAMESPACE, "name": name, "labels": {"app": NAME, **labels}}
    spec = {"containers": [{"name": "operator", "image": "example/operator"}], "schedulerName": "none"}
    return world.store.create(kinds.POD, {"metadata": metadata, "spec": spec})


async def node_id(world: World) -> str:
    """Return the ID of the operator's own device from the operator's Secret; empty if the Secret has none."""
    secret = await world.find(SECRET, NAME)
    state = texts(secret) if secret else {}
    config: Object = json.loads(state.get(state.get("_current-profile", ""), "{}")).get("Config") or {}
    return str(config.get("NodeID", ""))


async def helpers(world: World) -> list[str]:
    """Return the names of the objects that register a device, as far as they exist now."""
    names = ((STATEFULSET, f"{NAME}-device"), (SECRET, f"{NAME}-config"))
    return [name for kind, name in names if await world.find(kind, name)]


async def registered(world: World) -> str:
    """Wait until a device is registered and the operator has cleaned up, and return the ID of the device."""

    async def done() -> str:
        return "" if await helpers(world) else await node_id(world)

    found = await world.eventually(done)
    await world.settled()
    return found


@pytest.mark.parametrize("claim", [CLAIM, load_balancer(proxy_group="pg")], ids=["an Ingress", "a Service"])
async def test_the_first_object_that_needs_the_operators_id_causes_the_registration_of_a_device_that_stays(
    cluster: World, claim: Object
) -> None:
    async with operator(cluster, operator_hostname="gate", operator_tags=("tag:gate",)):
        await cluster.apply(backend(), GROUP, claim)
        device = cluster.control.devices[await registered(cluster)]
        assert (device.hostname, device.tags) == ("gate", ("tag:gate",))
        assert not await cluster.writes_when_left_alone()
        await cluster.delete(claim, GROUP)
        await cluster.settled()
        assert await node_id(cluster) == device.node_id
        assert device.node_id in cluster.control.devices


@pytest.mark.parametrize(
    "objects",
    [[GROUP], [CLAIM], [proxy_group("pg"), CLAIM], [GROUP, ingress()]],
    ids=["no object", "no group", "an egress group", "an object without the group"],
)
async def test_the_operator_registers_no_device_as_long_as_no_object_needs_its_id(
    cluster: World, objects: list[Object]
) -> None:
    async with operator(cluster):
        await cluster.apply(backend(), *objects)
        await cluster.settled()
        assert await helpers(cluster) == []
        assert await cluster.find(SECRET, NAME) is None


async def test_no_device_is_registered_in_a_tailnet_without_tailscale_services() -> None:
    async with new_world(SimOptions(headscale=True)) as world, operator(world):
        await world.apply(backend(), GROUP, CLAIM)
        await world.settled()
        assert not await node_id(world)
        assert not await world.writes_when_left_alone()


async def test_a_device_is_registered_as_soon_as_the_tailnet_shows_its_tailscale_services(
    cluster: World, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.control.fail(503, count=1000, path="/vip-services")
    async with operator(cluster):
        await cluster.apply(backend(), GROUP, CLAIM)
        await cluster.eventually(lambda: said(caplog, "Tailscale Services can't be listed"))
        await cluster.settled()
        assert not await node_id(cluster)
        cluster.control.heal()
        assert await registered(cluster)


async def test_the_device_of_the_go_operator_stays_the_operators_device(cluster: World) -> None:
    await cluster.apply(whole_secret(NAME, OLD))
    async with operator(cluster):
        await cluster.apply(backend(), GROUP, CLAIM)
        await cluster.settled()
        assert (await node_id(cluster), await helpers(cluster)) == ("nOLD", [])
        assert not await cluster.writes_when_left_alone()


async def test_no_device_is_registered_while_a_go_operator_runs(
    cluster: World, caplog: pytest.LogCaptureFixture
) -> None:
    operators_pod(cluster, POD_NAME, **{"tailscale.com/operator": "tsoperator"})
    async with operator(cluster):
        await cluster.settled()
        operators_pod(cluster, "operator-go")
        await cluster.apply(backend(), GROUP, CLAIM)
        await cluster.eventually(lambda: said(caplog, "another operator may still run (operator-go)"))
        assert await helpers(cluster) == []
        cluster.store.delete(kinds.POD, NAMESPACE, "operator-go", propagation="", grace=0)
        assert await registered(cluster)


async def said(caplog: pytest.LogCaptureFixture, words: str) -> bool:
    return words in caplog.text


async def test_a_device_whose_auth_key_has_expired_gets_another_key(cluster: World) -> None:
    cluster.control.silent.add("tailscale-operator")
    async with operator(cluster):
        await cluster.apply(backend(), GROUP, CLAIM)
        await cluster.eventually(lambda: cluster.find(STATEFULSET, f"{NAME}-device"))
        await cluster.settled()
        for key in [*cluster.control.keys]:
            cluster.control.delete_key(key)
        cluster.control.silent.clear()
        assert await registered(cluster)


async def test_refused_tags_of_the_operators_device_are_reported_until_the_policy_allows_the_tags(
    cluster: World, caplog: pytest.LogCaptureFixture
) -> None:
    permitted = cluster.control.policy_tags
    cluster.control.policy_tags = set()
    async with operator(cluster):
        await cluster.apply(backend(), GROUP, CLAIM)
        await cluster.eventually(lambda: said(caplog, "the operator's own device can't be registered"))
        assert '"tagOwners": {"tag:k8s-operator": []' in caplog.text
        assert await cluster.find(SECRET, NAME) is None
        cluster.control.policy_tags = permitted
        assert await registered(cluster)


@pytest.mark.parametrize("resource", [STATEFULSET, SECRET], ids=["a StatefulSet", "a Secret"])
async def test_a_foreign_object_whose_name_the_registration_needs_stays_and_the_log_names_the_object(
    cluster: World, resource: Resource, caplog: pytest.LogCaptureFixture
) -> None:
    name = f"{NAME}-device" if resource == STATEFULSET else f"{NAME}-config"
    theirs = foreign(resource, name)
    await cluster.apply(theirs)
    before = meant(await cluster.look(theirs))
    async with operator(cluster):
        await cluster.apply(backend(), GROUP, CLAIM)
        await cluster.eventually(lambda: said(caplog, f"{name} is in the way: it belongs to somebody else"))
        assert meant(await cluster.look(theirs)) == before
        await cluster.delete(theirs)
        assert await registered(cluster)


def foreign(resource: Resource, name: str) -> Object:
    if resource == SECRET:
        return whole_secret(name, {"password": "x"})
    metadata = {"namespace": NAMESPACE, "name": name}
    labels = {"app": "theirs"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "example/a"}]}}
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "serviceName": name, "template": template}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": spec}


@pytest.mark.parametrize("status", [500, LOST])
@pytest.mark.parametrize("write", ["create secrets", "create statefulsets", "delete statefulsets", "delete secrets"])
async def test_the_operators_device_is_registered_only_once_even_if_a_write_fails(
    cluster: World, write: str, status: int
) -> None:
    verb, plural = write.split()
    async with operator(cluster):
        await cluster.settled()
        cluster.sim.faults.fail(Failure(status, 1, verb, plural))
        await cluster.apply(backend(), GROUP, CLAIM)
        assert await registered(cluster)
        assert cluster.sim.faults.to_json()["fail"] == []
        assert [each.tags for each in cluster.control.devices.values()].count(("tag:k8s-operator",)) == 1


@pytest.mark.parametrize("resource", [STATEFULSET, SECRET], ids=["a StatefulSet", "a Secret"])
async def test_an_object_that_registers_the_device_comes_back_if_somebody_deletes_the_object(
    cluster: World, resource: Resource
) -> None:
    name = f"{NAME}-device" if resource == STATEFULSET else f"{NAME}-config"
    cluster.control.silent.add("tailscale-operator")
    async with operator(cluster):
        await cluster.apply(backend(), GROUP, CLAIM)
        obj = await cluster.eventually(lambda: cluster.find(resource, name))
        await cluster.settled()
        await cluster.delete(obj)
        await cluster.eventually(lambda: cluster.replaced(obj))


async def test_another_device_is_registered_if_the_secret_of_the_operators_device_is_lost(cluster: World) -> None:
    async with operator(cluster):
        await cluster.apply(backend(), GROUP, CLAIM)
        first = await registered(cluster)
        await cluster.api.delete(SECRET, Key(NAMESPACE, NAME))
        await cluster.eventually(lambda: node_id(cluster))
        assert await registered(cluster) != first


async def test_an_operator_that_starts_again_continues_the_registration_of_its_device(cluster: World) -> None:
    await cluster.apply(backend(), GROUP, CLAIM)
    cluster.control.silent.add("tailscale-operator")
    async with operator(cluster):
        before = await cluster.eventually(lambda: cluster.find(STATEFULSET, f"{NAME}-device"))
        await cluster.settled()
    async with operator(cluster):
        await cluster.settled()
        assert uid(await cluster.look(before)) == uid(before)
        cluster.control.silent.clear()
        assert await registered(cluster)
