"""A simulated API server without controllers, a simulated control server, and clients that speak JSON to them."""

import asyncio
import io
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
from clustersim.apiserver import ApiServer
from clustersim.control import Control
from clustersim.faults import Faults
from clustersim.kinds import Kinds
from clustersim.objects import RESOURCES, Object
from clustersim.rbac import Rights
from clustersim.store import Store
from clustersim.traffic import Traffic

MERGE = "application/merge-patch+json"
METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
SERVICES = "/api/v1/namespaces/default/services"
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"

Call = Callable[..., Awaitable[tuple[int, Any]]]


@dataclass(frozen=True)
class Api:
    """A running API server with its store, and an HTTP session with it."""

    session: aiohttp.ClientSession
    store: Store
    faults: Faults
    rights: Rights

    async def call(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """Return the status and the JSON of the answer. Keywords such as ``Content_Type=`` become headers."""
        named = {"Content-Type": "application/json"} | {name.replace("_", "-"): text for name, text in headers.items()}
        data = None if body is None else io.BytesIO(json.dumps(body).encode())
        async with self.session.request(method, path, data=data, headers=named) as response:
            return response.status, await response.json()

    @asynccontextmanager
    async def watch(self, path: str, **headers: str) -> AsyncIterator[AsyncIterator[Object]]:
        """Watch the objects at *path*, and yield the events."""
        joint = "&" if "?" in path else "?"
        async with self.session.get(f"{path}{joint}watch=true", headers=headers) as response:
            assert response.status == 200
            yield _events(response)


async def _events(response: aiohttp.ClientResponse) -> AsyncIterator[Object]:
    async for line in response.content:
        yield json.loads(line)


@asynccontextmanager
async def serving(bookmark_interval: float = 30.0) -> AsyncIterator[Api]:
    """Run a simulated API server with the namespaces and kinds of a new cluster, and yield it.

    A watch that asks for bookmarks gets one after each *bookmark_interval* seconds without an event.
    """
    store = Store()
    faults = Faults(store)
    rights = Rights()
    server = ApiServer(store, Kinds(RESOURCES), faults, Traffic(), rights)
    server.bookmark_interval = bookmark_interval
    timeout = aiohttp.ClientTimeout(total=10)
    async with (
        server.serve("127.0.0.1", 0) as url,
        aiohttp.ClientSession(url, timeout=timeout, headers={"User-Agent": "test"}) as session,
    ):
        yield Api(session, store, faults, rights)


@asynccontextmanager
async def calling(control: Control) -> AsyncIterator[Call]:
    """Serve *control* over HTTP, and yield a client that has logged in.

    The client returns the status of an answer, and its JSON or its text.
    """
    async with control.serve() as url, aiohttp.ClientSession(url) as session, asyncio.timeout(30):

        async def call(method: str, path: str, **options: Any) -> tuple[int, Any]:
            async with session.request(method, path, **options) as response:
                is_json = "json" in response.content_type
                return response.status, await response.json(content_type=None) if is_json else await response.text()

        basic = {"Authorization": aiohttp.encode_basic_auth(control.client_id, control.client_secret)}
        form = {"grant_type": "client_credentials"}
        _, token = await call("POST", "/api/v2/oauth/token", headers=basic, data=form)
        session.headers["Authorization"] = f"Bearer {token['access_token']}"
        yield call


def service(name: str = "web", **spec: Any) -> Object:
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"ports": [{"port": 80}], **spec}}


def configmap(name: str = "settings", **metadata: Any) -> Object:
    return {"metadata": {"name": name, "namespace": "default", **metadata}, "data": {"a": "1"}}
