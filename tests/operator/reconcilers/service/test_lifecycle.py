"""Services of every kind are created, deleted and tampered with, and leave neither leftovers nor stuck objects."""

from contextlib import suppress

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

from tests.operator.reconcilers.service.every_kind import METERED, SERVICES, device_ids, joined_proxies
from tests.operator.reconcilers.service.played import NAMESPACES, make_namespaces
from tests.support.manifests import backend, connector, dnsconfig, egress, ingress, load_balancer
from tests.support.objects import texts
from tests.support.operator import NAMESPACE, Proxy, World, running_operator

CHILDREN = (SERVICE, STATEFULSET, SECRET)
pytestmark = [pytest.mark.full, pytest.mark.timeout(240)]  # each test has six proxies, and a real API server is slower


async def measured(world: World) -> list[str]:
    """Return the names of the Services at which Prometheus finds proxies."""
    found = (await world.api.list(SERVICE, NAMESPACE, "tailscale.com/metrics-target")).items
    return [key_of(obj).name for obj in found]


async def test_the_deletion_of_a_namespace_removes_the_proxies_of_its_services(world: World) -> None:
    await make_namespaces(world, "shop")
    there = [{**service, "metadata": {**service["metadata"], "namespace": "shop"}} for service in SERVICES]
    await world.apply(*there)
    await joined_proxies(world, there)
    await world.api.delete(NAMESPACES, Key("", "shop"))
    for service in there:
        await world.becomes(lambda service=service: world.leftovers(service), [])  # type: ignore[misc]  # bound
        await world.eventually(lambda service=service: world.gone(service))  # type: ignore[misc]  # bound
    assert (await measured(world), await world.device_names()) == ([], [])


@pytest.mark.parametrize("kind", CHILDREN, ids=str)
async def test_a_relabelled_child_of_a_service_stays_when_the_service_that_its_new_labels_name_is_deleted(
    cluster: World, kind: Resource
) -> None:
    await cluster.apply(*SERVICES[:2])
    async with running_operator(cluster):
        before = await joined_proxies(cluster, SERVICES[:2])
    (child,) = await cluster.children(kind, SERVICES[0])
    await cluster.change(child, {"metadata": {"labels": {"tailscale.com/parent-resource": "svc-1"}}})
    await cluster.delete(SERVICES[1])
    async with running_operator(cluster):
        await cluster.eventually(lambda: cluster.gone(SERVICES[1]))
        after = await joined_proxies(cluster, SERVICES[:1])
    assert pods(after) == {"svc-0": pods(before)["svc-0"]}
    assert device_ids(after) == {"svc-0": device_ids(before)["svc-0"]}


def pods(proxies: dict[str, Proxy]) -> dict[str, tuple[str, str]]:
    """Return the name and the Pod of each proxy."""
    return {name: (proxy.name, proxy.pod_uid) for name, proxy in proxies.items()}


async def test_the_operator_takes_over_a_secret_that_a_proxy_has_created(cluster: World) -> None:
    await cluster.apply(egress())
    name = child_name("db", uid(await cluster.look(egress())))
    metadata = {"namespace": NAMESPACE, "name": f"{name}-0"}
    await cluster.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"pod_uid": "eA=="}})
    async with running_operator(cluster):
        assert (await joined_proxies(cluster, [egress()]))["db"].name == name


PARENTS = [*SERVICES, ingress(), connector()]


async def test_a_deleted_parent_whose_device_cannot_be_deleted_is_released_when_a_user_deletes_its_secrets(
    cluster: World,
) -> None:
    await cluster.apply(backend(), *PARENTS)
    async with running_operator(cluster):
        await cluster.becomes(lambda: secrets_with_device(cluster), len(PARENTS))
        await cluster.settled()
        cluster.control.refuse(count=1_000_000)
        await cluster.delete(*PARENTS)
        for service in SERVICES:
            await cluster.eventually(lambda service=service: hint(cluster, service))  # type: ignore[misc]  # bound
        for parent in PARENTS:
            await cluster.becomes(lambda parent=parent: cluster.children(STATEFULSET, parent), [])  # type: ignore[misc]  # bound
            await cluster.delete(*await cluster.children(SECRET, parent))
        for parent in PARENTS:
            await cluster.eventually(lambda parent=parent: cluster.gone(parent))  # type: ignore[misc]  # bound
            assert await cluster.leftovers(parent) == []


async def secrets_with_device(world: World) -> int:
    found = [secret for parent in PARENTS for secret in await world.children(SECRET, parent)]
    return sum("device_id" in texts(secret) for secret in found)


async def hint(world: World, service: Object) -> bool:
    """Tell whether the condition of *service* names the Secret to delete."""
    condition, secrets = await world.condition(service), await world.children(SECRET, service)
    return condition is not None and f"delete Secret {key_of(secrets[0])} by hand" in condition.message


async def test_a_change_of_the_default_class_reaches_the_proxies_of_services_of_every_kind(cluster: World) -> None:
    await cluster.apply(METERED, *SERVICES)
    async with running_operator(cluster, proxy_class="prod"):
        await joined_proxies(cluster)
        await cluster.change(METERED, {"spec": {"statefulSet": {"labels": {"team": "db"}}, "metrics": None}})

        async def reached() -> list[bool]:
            found = [(await cluster.children(STATEFULSET, service))[0] for service in SERVICES]
            return [labels(obj).get("team") == "db" for obj in found]

        await cluster.becomes(reached, [True] * len(SERVICES))
        await cluster.becomes(lambda: measured(cluster), [])
        await joined_proxies(cluster)


async def definition_of(world: World, resource: Resource) -> Object:
    """Return the definition of one of our kinds, in a form that can be applied after its deletion."""
    found = await world.api.get(CRD, Key("", str(resource)))
    return {name: found[name] for name in ("apiVersion", "kind", "spec")} | {"metadata": {"name": str(resource)}}


@pytest.mark.simulated
async def test_proxies_keep_running_and_can_be_deleted_while_the_crd_of_proxyclasses_is_missing(world: World) -> None:
    services = [egress("db", proxy_class="prod"), load_balancer("lb", proxy_class="prod")]
    await world.apply(METERED, *services)
    before = await joined_proxies(world, services)
    crd = await definition_of(world, PROXYCLASS)
    await world.delete(crd)
    await world.eventually(lambda: world.gone(crd))
    for service in services:
        await world.becomes(lambda service=service: world.reason(service), "ProxyFailed")  # type: ignore[misc]  # bound
    await world.delete(services[0])
    await world.eventually(lambda: world.gone(services[0]))
    await world.apply(crd)
    await world.becomes(lambda: world.reason(services[1]), "ProxyFailed")
    await world.eventually(lambda: applied(world, METERED))
    assert pods(await joined_proxies(world, services[1:])) == {"lb": pods(before)["lb"]}


async def applied(world: World, obj: Object) -> bool:
    """Try to create *obj*. Return true if the API server serves its kind already."""
    with suppress(NotFound):
        await world.apply(obj)
        return True
    return False


@pytest.mark.simulated
async def test_the_deletion_of_our_crds_deletes_the_objects_of_these_kinds_and_the_proxies_of_the_objects(
    world: World,
) -> None:
    await world.apply(dnsconfig(), connector(), METERED, egress(proxy_class="prod"))
    before = await joined_proxies(world, [egress()])
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
    assert pods(await joined_proxies(world, [egress()])) == pods(before)
