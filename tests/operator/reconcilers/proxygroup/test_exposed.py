"""Ingress groups on a cluster with the operator, and the changes that cause a reconcile of such groups."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import pytest_asyncio
from clustersim.objects import POD as SIM_POD
from clustersim.tailnetservices import TailscaleService
from tsoperator.api.names import HA_INGRESS_FINALIZER
from tsoperator.api.objects import CONFIGMAP, ENDPOINTSLICE, POD, SECRET, Key, Object
from tsoperator.api.owners import ANNOTATION_OWNERS
from tsoperator.reconcilers.proxygroup.exposed import ExposedChanges
from tsoperator.runtime.cache import Cache
from tsoperator.sources import sources
from tsoperator.tailnet.tailnet import service_object

from tests.support.cluster import put, running
from tests.support.groups import ready_group
from tests.support.manifests import DOMAIN, backend, ingress, load_balancer, proxy_group
from tests.support.objects import endpoint, obj, settings, texts, whole_secret
from tests.support.operator import NAMESPACE, World, running_operator

ING = proxy_group("ing", type="ingress")
API = load_balancer("api", proxy_group="ing")
WEB = ingress("web", proxy_group="ing", http_endpoint="enabled")
WEB["metadata"]["finalizers"] = [HA_INGRESS_FINALIZER]
OWNERS = {ANNOTATION_OWNERS: '{"ownerRefs":[{"operatorID":"nOP"}]}'}
IDENTITY = whole_secret("operator", {"_current-profile": "profile-a", "profile-a": {"Config": {"NodeID": "nOP"}}})


def slice_of(service: str, *, ready: bool = True) -> Object:
    content = {"addressType": "IPv4", "endpoints": [endpoint("10.9.0.1", ready=ready)], "ports": []}
    return obj(ENDPOINTSLICE, Key("default", f"{service}-x"), content, labels={"kubernetes.io/service-name": service})


def own(world: World, label: str, *ports: str) -> None:
    world.control.services.put(TailscaleService(f"svc:{label}", ports, ("tag:k8s",), OWNERS))


@pytest_asyncio.fixture
async def hosting(cluster: World) -> AsyncIterator[World]:
    """A cluster on which the operator has an identity."""
    await put(cluster.api, IDENTITY)
    async with running_operator(cluster, operator_secret="operator"):
        yield cluster


async def labels(world: World) -> list[list[str]]:
    """Return the Tailscale Services that the config of each proxy tells the proxy to advertise."""
    found = []
    for ordinal in range(2):
        config = await world.find(SECRET, f"ing-{ordinal}-config")
        found.append(json.loads(texts(config)["cap-106.hujson"]).get("AdvertiseServices", []) if config else [])
    return found


async def content(world: World) -> dict[str, Any]:
    """Return the documents in the ConfigMap of the ingress group, by name."""
    configmap = await world.find(CONFIGMAP, "ing-ingress-config")
    data = texts({"data": (configmap or {}).get("binaryData")})
    return {name: json.loads(text) for name, text in data.items()}


POD_0 = obj(POD, Key(NAMESPACE, "ing-0"))
NOTHING: dict[str, Any] = {"ingress-config.json": {}, "serve-config.json": {}}


@pytest.mark.simulated
async def test_the_proxies_of_a_group_advertise_a_service_only_while_it_has_a_ready_endpoint(hosting: World) -> None:
    await hosting.apply(ING)
    await ready_group(hosting, ING)
    assert await content(hosting) == NOTHING
    own(hosting, "default-api", "do-not-validate")
    await hosting.apply(API)
    service = await hosting.look(API)
    await hosting.eventually(lambda: _has(hosting, "svc:default-api"))
    assert await labels(hosting) == [[], []]
    await put(hosting.api, slice_of("api"))
    await hosting.becomes(lambda: labels(hosting), [["svc:default-api"]] * 2)
    await hosting.becomes(lambda: _backends(hosting, "svc:default-api"), (service["spec"]["clusterIP"],))
    assert not await hosting.writes_when_left_alone()
    await hosting.change(slice_of("api"), {"endpoints": slice_of("api", ready=False)["endpoints"]})
    await hosting.becomes(lambda: labels(hosting), [[], []])
    await hosting.delete(API)
    await hosting.becomes(lambda: content(hosting), NOTHING)


async def _has(world: World, name: str) -> bool:
    return any(name in document or name in document.get("Services", {}) for document in (await content(world)).values())


async def _backends(world: World, name: str) -> tuple[str, ...]:
    return world.control.services.backends(name)


@pytest.mark.simulated
async def test_the_documents_of_a_group_change_with_the_backend_and_the_annotations_of_an_ingress(
    hosting: World,
) -> None:
    own(hosting, "web", "tcp:443", "tcp:80")
    await hosting.apply(ING, backend("web"), WEB)
    address = (await hosting.look(backend("web")))["spec"]["clusterIP"]
    await hosting.becomes(lambda: _backends(hosting, "svc:web"), (f"http://{address}:80/",))
    assert await labels(hosting) == [["svc:web"]] * 2
    assert [*(await content(hosting))["serve-config.json"]["Services"]["svc:web"]["Web"]] == [
        f"web.{DOMAIN}:443",
        f"web.{DOMAIN}:80",
    ]
    await hosting.annotate(WEB, {"tailscale.com/tags": "wrong", "tailscale.com/http-endpoint": None})
    await hosting.settled()
    assert await labels(hosting) == [["svc:web"]] * 2
    await hosting.annotate(WEB, {"tailscale.com/proxy-group": None})
    await hosting.becomes(lambda: content(hosting), NOTHING)
    await hosting.becomes(lambda: labels(hosting), [[], []])


@pytest.mark.simulated
async def test_the_config_of_a_pod_that_ends_loses_its_services_before_the_next_pod_starts(hosting: World) -> None:
    await hosting.apply(ING, API)
    own(hosting, "default-api", "do-not-validate")
    await put(hosting.api, slice_of("api"))
    await hosting.becomes(lambda: labels(hosting), [["svc:default-api"]] * 2)
    await hosting.settled()
    hosting.sim.kubelet.second = 60.0  # so that the Pod ends only when the test lets it end
    await hosting.delete(await hosting.look(POD_0))
    await hosting.becomes(lambda: labels(hosting), [[], ["svc:default-api"]])
    hosting.sim.store.delete(SIM_POD, NAMESPACE, "ing-0", grace=0)
    await hosting.becomes(lambda: labels(hosting), [["svc:default-api"]] * 2)


@pytest.mark.simulated
async def test_a_new_operator_keeps_the_documents_of_a_group_until_it_has_read_the_tailscale_services(
    cluster: World,
) -> None:
    await put(cluster.api, IDENTITY)
    own(cluster, "default-api", "do-not-validate")
    await put(cluster.api, slice_of("api"))
    async with running_operator(cluster, operator_secret="operator"):
        await cluster.apply(ING, API)
        await cluster.becomes(lambda: labels(cluster), [["svc:default-api"]] * 2)
        await cluster.settled()
    cluster.control.latency = 600
    before = await content(cluster)
    async with running_operator(cluster, operator_secret="operator"):
        await cluster.apply(proxy_group("other", type="ingress"))
        await cluster.eventually(lambda: cluster.find(CONFIGMAP, "other-ingress-config"))
        assert (await labels(cluster), await content(cluster)) == ([["svc:default-api"]] * 2, before)


@pytest.mark.simulated
async def test_a_group_that_is_deleted_and_created_again_serves_the_objects_that_still_name_the_group(
    hosting: World,
) -> None:
    await hosting.apply(ING, API)
    own(hosting, "default-api", "do-not-validate")
    await put(hosting.api, slice_of("api"))
    await hosting.becomes(lambda: labels(hosting), [["svc:default-api"]] * 2)
    await hosting.delete(ING)
    await hosting.eventually(lambda: hosting.gone(ING))
    assert await hosting.device_names() == []
    assert "svc:default-api" in hosting.control.services.present
    await hosting.apply(ING)
    await hosting.becomes(lambda: labels(hosting), [["svc:default-api"]] * 2)


@asynccontextmanager
async def changes_of(world: World, *there: Object) -> AsyncIterator[ExposedChanges]:
    """Yield the mappers for a cluster that runs no operator and has the objects *there*."""
    await put(world.api, *there)
    cache = Cache(sources(NAMESPACE))
    async with running(cache.follow(world.api)):
        await cache.synced()
        yield ExposedChanges(cache, settings())


KEYS = {Key("", "ing")}


async def test_a_change_of_an_object_causes_a_reconcile_only_of_groups_that_expose_the_object(cluster: World) -> None:
    await cluster.apply(ING, proxy_group("egress"), proxy_group("lab", type="ingress"), backend("web"), backend("idle"))
    await cluster.apply(API, {**WEB, "metadata": {**WEB["metadata"], "finalizers": []}})
    async with changes_of(cluster) as changes:
        for service, keys in (("api", KEYS), ("web", KEYS), ("idle", set())):
            ready, unready = slice_of(service), slice_of(service, ready=False)
            assert (
                changes.of_slice(unready, ready)
                == changes.of_slice(ready, None)
                == changes.of_slice(None, ready)
                == keys
            )
            assert changes.of_slice(ready, ready) == changes.of_slice(unready, None) == set()
            live = await cluster.look(backend(service))
            moved = {**live, "spec": {**live["spec"], "clusterIP": "10.0.0.250"}}
            assert changes.of_backend(live, moved) == (KEYS if service == "web" else set())
            assert changes.of_backend(live, {**live, "status": {"x": 1}}) == set()
        for label, keys in (("web", KEYS), ("default-api", KEYS), ("x", set())):
            assert changes.of_tailscale_service(service_object("", label)) == keys
            marks = {"tailscale.com/secret-type": "certs"}
            assert changes.of_certificate(obj(SECRET, Key(NAMESPACE, f"{label}.{DOMAIN}"), labels=marks)) == keys
        assert changes.all() == {*KEYS, Key("", "lab")}


async def test_a_change_of_an_object_causes_a_reconcile_of_each_group_with_a_claim_on_its_label(
    cluster: World,
) -> None:
    rival = load_balancer("rival", proxy_group="lab", hostname="web")
    await cluster.apply(
        ING, proxy_group("lab", type="ingress"), backend("web"), rival, ingress("web", proxy_group="ing")
    )
    async with changes_of(cluster) as changes:
        old = await cluster.look(WEB)
        status = {**old, "status": {"loadBalancer": {"ingress": [{"hostname": "x"}]}}}
        held = {**old, "metadata": {**old["metadata"], "finalizers": [HA_INGRESS_FINALIZER]}}
        plain = {**old, "metadata": {**old["metadata"], "annotations": {}}}
        both = {*KEYS, Key("", "lab")}
        assert (changes.of_claimant(old, status), changes.of_claimant(old, held)) == (set(), both)
        assert changes.of_claimant(old, plain) == changes.of_claimant(old, None) == both
        assert changes.of_claimant(None, plain) == set()


async def test_a_status_change_of_a_group_reconciles_that_group_and_a_deletion_reconciles_all_ingress_groups(
    cluster: World,
) -> None:
    await cluster.apply(ING, proxy_group("lab", type="ingress"), proxy_group("egress"))
    async with changes_of(cluster) as changes:
        old = await cluster.look(ING)
        assert changes.of_group(old, {**old, "status": {}}) == KEYS
        assert changes.of_group(old, None) == {*KEYS, Key("", "lab")}
