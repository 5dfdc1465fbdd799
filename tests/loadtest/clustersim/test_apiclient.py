from collections.abc import AsyncIterator
from contextlib import aclosing

import aiohttp
import pytest
from clustersim.apiclient import ApiClient, resource_of
from clustersim.objects import CONFIGMAP, NODE, STATEFULSET
from clustersim.sim import cluster_sim

LABELS = {"app": "web"}


@pytest.fixture
async def api() -> AsyncIterator[ApiClient]:
    async with cluster_sim() as sim, ApiClient(sim.api_url) as client:
        yield client


async def create(api: ApiClient, name: str, **labels: str) -> None:
    await api.create(CONFIGMAP, {"metadata": {"name": name, "namespace": "default", "labels": labels}})


async def test_what_was_created_is_found_by_name_and_label(api: ApiClient) -> None:
    await create(api, "a", **LABELS)
    await create(api, "b")
    assert (await api.get(CONFIGMAP, "default", "b"))["metadata"]["name"] == "b"
    assert [obj["metadata"]["name"] for obj in await api.list(CONFIGMAP, "default", LABELS)] == ["a"]


async def test_what_was_deleted_is_gone(api: ApiClient) -> None:
    await create(api, "a")
    await api.delete(CONFIGMAP, "default", "a")
    with pytest.raises(aiohttp.ClientResponseError, match="404"):
        await api.get(CONFIGMAP, "default", "a")


async def test_a_watch_sees_what_is_there_and_what_comes(api: ApiClient) -> None:
    await create(api, "a", **LABELS)
    async with aclosing(api.watch(CONFIGMAP, "default", LABELS)) as objects:
        first = await anext(objects)
        await create(api, "other")
        await create(api, "b", **LABELS)
        second = await anext(objects)
    assert [obj["metadata"]["name"] for obj in (first, second)] == ["a", "b"]


async def test_a_cluster_scoped_kind_has_no_namespace(api: ApiClient) -> None:
    assert [node["metadata"]["name"] for node in await api.list(NODE, "", {})] == ["node1"]


def test_a_kind_is_told_by_its_group() -> None:
    assert resource_of({"apiVersion": "apps/v1", "kind": "StatefulSet"}) == STATEFULSET
    with pytest.raises(LookupError):
        resource_of({"apiVersion": "v1", "kind": "StatefulSet"})
