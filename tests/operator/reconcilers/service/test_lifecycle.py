"""What Services do to each other, and what becomes of them with classes, namespaces and definitions."""

from collections.abc import Sequence

import pytest
from tsoperator.api.objects import (
    CONNECTOR,
    CRD,
    DNSCONFIG,
    PROXYCLASS,
    SECRET,
    SERVICE,
    STATEFULSET,
    Key,
    Object,
    Resource,
    key_of,
    labels,
    uid,
)
from tsoperator.api.rules import child_name
from tsoperator.kube.errors import NotFound

from tests.operator.reconcilers.service.every_kind import METERED, SERVICES, device_ids, running_proxies
from tests.support.manifests import backend, connector, dnsconfig, egress, ingress, load_balancer
from tests.support.operator import NAMESPACE, Proxy, World, running_operator

CHILDREN = (SERVICE, STATEFULSET, SECRET)
pytestmark = [pytest.mark.full, pytest.mark.timeout(240)]  # six proxies each, and a real API server takes longer
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)


async def left(world: World, services: Sequence[Object] = SERVICES) -> list[str]:
    """Return what is still there of *services* and their proxies."""
    there = [str(key_of(service)) for service in services if not await world.gone(service)]
    children = [name for service in services for name in await world.leftovers(service)]
    measured = (await world.api.list(SERVICE, NAMESPACE, "tailscale.com/metrics-target")).items
    return [*there, *children, *(key_of(obj).name for obj in measured), *await world.device_names()]


async def test_services_go_while_their_class_goes(cluster: World) -> None:
    await cluster.apply(METERED, *SERVICES)
    async with running_operator(cluster, proxy_class="prod"):
        await running_proxies(cluster)
        await cluster.delete(METERED, *SERVICES)
        await cluster.becomes(lambda: left(cluster), [])


async def test_a_deleted_namespace_takes_the_proxies_of_its_services_with_it(world: World) -> None:
    await world.api.create(NAMESPACES, {"metadata": {"name": "shop"}})
    there = [{**service, "metadata": {**service["metadata"], "namespace": "shop"}} for service in SERVICES]
    await world.apply(*there)
    await running_proxies(world, there)
    await world.api.delete(NAMESPACES, Key("", "shop"))
    await world.becomes(lambda: left(world, there), [])


async def test_services_that_are_restored_from_a_backup_keep_their_devices(cluster: World) -> None:
    await cluster.apply(*SERVICES)
    async with running_operator(cluster):
        before = device_ids(await running_proxies(cluster))
    for service in SERVICES:
        await cluster.change(service, {"metadata": {"finalizers": None}})
    await cluster.delete(*SERVICES)
    await cluster.apply(*SERVICES)
    async with running_operator(cluster):
        await cluster.eventually(lambda: belong(cluster))
        assert device_ids(await running_proxies(cluster)) == before
        assert len(cluster.control.keys) == len(SERVICES)


async def belong(world: World) -> bool:
    """Tell whether the StatefulSets are those of the Services that there are now."""
    uids = [uid(await world.look(service)) for service in SERVICES]
    found = [statefulset for service in SERVICES for statefulset in await world.children(STATEFULSET, service)]
    return [statefulset["spec"]["selector"]["matchLabels"]["app"] for statefulset in found] == uids


ANOTHERS = {"tailscale.com/parent-resource": "svc-1"}


@pytest.mark.parametrize("kind", CHILDREN, ids=str)
async def test_a_child_that_is_labelled_as_another_services_stays_its_parents(world: World, kind: Resource) -> None:
    await world.apply(*SERVICES[:2])
    before = await running_proxies(world, SERVICES[:2])
    (child,) = await world.children(kind, SERVICES[0])  # the older of both counts
    await world.change(child, {"metadata": {"labels": ANOTHERS}})
    await world.becomes(lambda: labels_of(world, child), labels(child))
    assert pods(await running_proxies(world, SERVICES[:2])) == pods(before)
    assert not await world.writes_when_left_alone()


@pytest.mark.parametrize("kind", CHILDREN, ids=str)
async def test_a_service_that_goes_does_not_take_along_what_is_only_labelled_as_its(
    cluster: World, kind: Resource
) -> None:
    await cluster.apply(*SERVICES[:2])
    async with running_operator(cluster):
        before = await running_proxies(cluster, SERVICES[:2])
    (child,) = await cluster.children(kind, SERVICES[0])
    await cluster.change(child, {"metadata": {"labels": ANOTHERS}})
    await cluster.delete(SERVICES[1])
    async with running_operator(cluster):
        await cluster.eventually(lambda: cluster.gone(SERVICES[1]))
        after = await running_proxies(cluster, SERVICES[:1])
    assert pods(after) == {"svc-0": pods(before)["svc-0"]}
    assert device_ids(after) == {"svc-0": device_ids(before)["svc-0"]}


async def labels_of(world: World, obj: Object) -> Object:
    """Return the labels that *obj* has now."""
    return dict(labels(await world.look(obj)))


def pods(proxies: dict[str, Proxy]) -> dict[str, tuple[str, str]]:
    """Return the name and the Pod of each proxy."""
    return {name: (proxy.name, proxy.pod_uid) for name, proxy in proxies.items()}


async def test_a_secret_that_the_proxy_made_anew_is_the_operators(cluster: World) -> None:
    await cluster.apply(egress())
    name = child_name("db", uid(await cluster.look(egress())))
    metadata = {"namespace": NAMESPACE, "name": f"{name}-0"}
    await cluster.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"pod_uid": "eA=="}})
    async with running_operator(cluster):
        assert (await running_proxies(cluster, [egress()]))["db"].name == name


PARENTS = [*SERVICES[::3], ingress(), connector()]


async def test_without_a_control_server_for_good_all_goes_once_the_secrets_are_deleted(cluster: World) -> None:
    await cluster.apply(backend(), *PARENTS)
    async with running_operator(cluster):
        await cluster.becomes(lambda: secrets_with_device(cluster), len(PARENTS))
        await cluster.settled()
        cluster.control.refuse(count=1_000_000)
        await cluster.delete(*PARENTS)
        for service in SERVICES[::3]:
            await cluster.eventually(lambda service=service: hint(cluster, service))  # type: ignore[misc]  # bound
        for parent in PARENTS:
            await cluster.eventually(lambda parent=parent: without_pods(cluster, parent))  # type: ignore[misc]  # bound
            await cluster.delete(*await cluster.children(SECRET, parent))
        for parent in PARENTS:
            await cluster.eventually(lambda parent=parent: cluster.gone(parent))  # type: ignore[misc]  # bound
            assert await cluster.leftovers(parent) == []


async def secrets_with_device(world: World) -> int:
    """Return how many Secrets have a device."""
    found = [secret for parent in PARENTS for secret in await world.children(SECRET, parent)]
    return sum("device_id" in secret["data"] for secret in found)


async def without_pods(world: World, parent: Object) -> bool:
    """Tell whether the Pods of *parent* are gone."""
    return await world.children(STATEFULSET, parent) == []


async def hint(world: World, service: Object) -> bool:
    """Tell whether the condition of *service* names the Secret to delete."""
    condition, secrets = await world.condition(service), await world.children(SECRET, service)
    return condition is not None and f"delete Secret {key_of(secrets[0])} by hand" in condition.message


async def measured(world: World) -> list[str]:
    """Return the jobs under which Prometheus finds proxies."""
    found = (await world.api.list(SERVICE, NAMESPACE, "tailscale.com/metrics-target")).items
    return sorted(labels(obj)["ts_prom_job"] for obj in found)


async def test_a_changed_default_class_reaches_proxies_of_every_kind(cluster: World) -> None:
    await cluster.apply(METERED, *SERVICES)
    async with running_operator(cluster, proxy_class="prod"):
        await running_proxies(cluster)
        await cluster.change(METERED, {"spec": {"statefulSet": {"labels": {"team": "db"}}, "metrics": None}})

        async def reached() -> list[bool]:
            found = [(await cluster.children(STATEFULSET, service))[0] for service in SERVICES]
            return [labels(obj).get("team") == "db" for obj in found]

        await cluster.becomes(reached, [True] * len(SERVICES))
        await cluster.becomes(lambda: measured(cluster), [])
        await running_proxies(cluster)


async def definition_of(world: World, resource: Resource) -> Object:
    """Return the definition of one of our kinds, to be applied again."""
    found = await world.api.get(CRD, Key("", str(resource)))
    return {name: found[name] for name in ("apiVersion", "kind", "spec")} | {"metadata": {"name": str(resource)}}


@pytest.mark.simulated
async def test_without_the_definition_of_classes_proxies_run_on_and_can_go(world: World) -> None:
    services = [egress("db", proxy_class="prod"), load_balancer("lb", proxy_class="prod")]
    await world.apply(METERED, *services)
    before = await running_proxies(world, services)
    crd = await definition_of(world, PROXYCLASS)
    await world.delete(crd)
    await world.eventually(lambda: world.gone(crd))
    await world.becomes(lambda: reasons(world, services), ["ProxyFailed", "ProxyFailed"])
    await world.delete(services[0])
    await world.eventually(lambda: world.gone(services[0]))
    await world.apply(crd)
    await world.becomes(lambda: reasons(world, services[1:]), ["ProxyFailed"])
    await world.eventually(lambda: applied(world, METERED))
    assert pods(await running_proxies(world, services[1:])) == {"lb": pods(before)["lb"]}


async def reasons(world: World, services: Sequence[Object]) -> list[str]:
    """Return the reasons of the conditions of *services*."""
    return [await world.reason(service) for service in services]


async def applied(world: World, obj: Object) -> bool:
    """Create *obj*; tell whether its kind is served yet."""
    try:
        await world.apply(obj)
    except NotFound:
        return False
    return True


@pytest.mark.simulated
async def test_our_definitions_take_their_objects_along_and_these_their_proxies(world: World) -> None:
    await world.apply(dnsconfig(), connector(), METERED, egress(proxy_class="prod"))
    before = await running_proxies(world, [egress()])
    await world.eventually(lambda: world.proxy(connector()))
    definitions = [await definition_of(world, resource) for resource in (CONNECTOR, DNSCONFIG, PROXYCLASS)]
    await world.delete(*definitions)
    for crd in definitions:
        await world.eventually(lambda crd=crd: world.gone(crd))  # type: ignore[misc]  # bound
    assert await world.leftovers(connector()) == []
    assert await world.find(SERVICE, "nameserver") is None
    await world.apply(*definitions)
    for obj in (connector(), METERED):
        await world.eventually(lambda obj=obj: applied(world, obj))  # type: ignore[misc]  # bound
    await world.eventually(lambda: world.proxy(connector()))
    assert pods(await running_proxies(world, [egress()])) == pods(before)
