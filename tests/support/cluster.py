"""Fixtures for a running simulated cluster and its client, a configurable web server, and a function that waits."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from clustersim.sim import ClusterSim, cluster_sim
from kubernetes.aio.client import Configuration
from tsoperator.api.objects import Object, key_of, resource_of
from tsoperator.kube.client import KubeClient

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_GIVEN_BY_SERVER = ("uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp")


@pytest.fixture
async def sim() -> AsyncIterator[ClusterSim]:
    """A running simulated cluster, with the objects that kubeadm and the operator's chart create."""
    async with cluster_sim() as running:
        yield running


@pytest.fixture
async def client(sim: ClusterSim) -> AsyncIterator[KubeClient]:
    """A client of the simulated cluster."""
    async with kube_client(sim.api_url) as opened:
        yield opened


def kube_client(url: str, request_timeout: float = 30.0) -> KubeClient:
    """Return a client of the API server at *url*, whose requests take at most *request_timeout* seconds."""
    return KubeClient(configuration(url), request_timeout=request_timeout)


def configuration(url: str, token: str = "") -> Configuration:
    """Return a configuration for clients of the API server at *url*, with a bearer *token* if one is given."""
    made = Configuration(host=url)
    if token:
        made.api_key = {"BearerToken": f"Bearer {token}"}
    return made


async def put(client: KubeClient, *objects: Object) -> None:
    """Create *objects* with their statuses, and delete those that have a deletion time."""
    for obj in objects:
        resource, metadata = resource_of(obj), obj["metadata"]
        given = {name: value for name, value in metadata.items() if name not in _GIVEN_BY_SERVER}
        await client.create(resource, {**obj, "metadata": given})
        if "status" in obj:
            await client.patch(resource, key_of(obj), {"status": obj["status"]}, "status")
        if "deletionTimestamp" in metadata:
            await client.delete(resource, key_of(obj))


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[str]:
    """Run a web server that answers every request with *handler* during the block. Yield its URL."""
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(application, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def running(*programs: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run *programs* during the block, and cancel them at its end."""
    async with asyncio.TaskGroup() as tasks:
        started = [tasks.create_task(program) for program in programs]
        yield
        for task in started:
            task.cancel()


async def until(holds: Callable[[], Any], seconds: float = 10.0) -> None:
    """Wait until *holds* returns something true. Raises TimeoutError after *seconds*."""
    async with asyncio.timeout(seconds):
        while not holds():  # noqa: ASYNC110 (another process or another task makes it true)
            await asyncio.sleep(0.005)
