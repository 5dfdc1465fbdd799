"""A small client of the API server, by which the demo acts as a user of the cluster."""

import json
from collections.abc import AsyncGenerator, Mapping
from types import TracebackType
from typing import Any, Self

import aiohttp

from clustersim.objects import RESOURCES, Object, Resource

REQUEST_SECONDS = 10


class ApiClient:
    """Reads and writes objects over HTTP. At the end of its ``async with`` block, the client closes its connections.

    A request that the API server refuses raises aiohttp.ClientResponseError.
    """

    def __init__(self, url: str) -> None:
        self._session = aiohttp.ClientSession(
            url, timeout=aiohttp.ClientTimeout(REQUEST_SECONDS), raise_for_status=True
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self._session.close()

    async def get(self, resource: Resource, namespace: str, name: str) -> Object:
        """Return the object with this name, of the kind *resource*."""
        return await self._request("GET", f"{_path(resource, namespace)}/{name}")

    async def list(self, resource: Resource, namespace: str, labels: Mapping[str, str]) -> list[Object]:
        """Return the objects of the kind *resource* that have all *labels*."""
        found = await self._request("GET", _path(resource, namespace), params=_selector(labels))
        items: list[Object] = found["items"]
        return items

    async def create(self, resource: Resource, obj: Object) -> Object:
        """Create an object."""
        return await self._request("POST", _path(resource, obj["metadata"].get("namespace", "")), json=obj)

    async def replace(self, resource: Resource, obj: Object) -> Object:
        """Replace an object."""
        path = _path(resource, obj["metadata"].get("namespace", ""))
        return await self._request("PUT", f"{path}/{obj['metadata']['name']}", json=obj)

    async def merge(self, resource: Resource, namespace: str, name: str, patch: Object) -> Object:
        """Apply a JSON merge patch to one object."""
        headers = {"Content-Type": "application/merge-patch+json"}
        return await self._request("PATCH", f"{_path(resource, namespace)}/{name}", json=patch, headers=headers)

    async def delete(self, resource: Resource, namespace: str, name: str) -> None:
        """Delete one object."""
        await self._request("DELETE", f"{_path(resource, namespace)}/{name}")

    async def watch(
        self, resource: Resource, namespace: str, labels: Mapping[str, str]
    ) -> AsyncGenerator[Object, None]:
        """Yield the objects with these *labels*: first the present ones, then each object that is added or changes."""
        params = {**_selector(labels), "watch": "1"}
        forever = aiohttp.ClientTimeout(None)
        async with self._session.get(_path(resource, namespace), params=params, timeout=forever) as response:
            async for line in response.content:
                event = json.loads(line)
                if event["type"] in ("ADDED", "MODIFIED"):
                    yield event["object"]

    async def _request(self, method: str, path: str, **arguments: Any) -> Object:
        async with self._session.request(method, path, **arguments) as response:
            body: Object = await response.json()
            return body


def resource_of(obj: Object) -> Resource:
    """Return the Resource of *obj*; raises LookupError if the simulated cluster has no such kind."""
    for resource in RESOURCES:
        if (resource.api_version, resource.kind) == (obj["apiVersion"], obj["kind"]):
            return resource
    raise LookupError(f"the simulated cluster has no {obj['kind']} in {obj['apiVersion']}")


def _path(resource: Resource, namespace: str) -> str:
    group = f"/apis/{resource.api_version}" if resource.group else f"/api/{resource.version}"
    return f"{group}/namespaces/{namespace}/{resource.plural}" if resource.namespaced else f"{group}/{resource.plural}"


def _selector(labels: Mapping[str, str]) -> dict[str, str]:
    return {"labelSelector": ",".join(f"{key}={value}" for key, value in labels.items())}
