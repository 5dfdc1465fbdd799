"""Tailnets and their clients on a simulated control server, for tests of reconcilers of proxies."""

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager

import aiohttp
from clustersim.control import Control
from clustersim.tailnet import Device, NewKey
from pydantic import SecretStr
from tsoperator.kube.client import KubeClient
from tsoperator.runtime.apply import Applier
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.events import EventRecorder
from tsoperator.runtime.plan import Errand, FindNodePorts
from tsoperator.settings import Settings
from tsoperator.tailnet.devices import Devices, ListPace
from tsoperator.tailnet.known import KnownTailnet
from tsoperator.tailnet.preflight import Preflight, own_pod
from tsoperator.tailnet.refusals import refusal_of
from tsoperator.tailnet.tailnet import OWN, Tailnets
from tsoperator.tsclient.client import TailnetClient
from tsoperator.tsclient.oauth import Credentials
from tsoperator.tsclient.transport import Retry

from tests.support.cluster import running


def join(control: Control, hostname: str = "db", *tags: str) -> Device:
    """Let a device join the tailnet of *control*, with ``tag:k8s`` unless there are other *tags*."""
    return control.register(control.create_key(NewKey(tags or ("tag:k8s",))).key, hostname)


@asynccontextmanager
async def tailnet_client(
    control: Control, url: str, retry: Retry | None = None, observe: Callable[[], None] = lambda: None
) -> AsyncIterator[TailnetClient]:
    """Yield a client of the control server at *url*. The client calls *observe* at each answer."""
    credentials = Credentials(control.client_id, SecretStr(control.client_secret))
    async with aiohttp.ClientSession() as session:
        yield TailnetClient(session, url, lambda: credentials, retry=retry, observe=lambda *_: observe())


def tailnet_of(
    client: TailnetClient,
    kube: KubeClient,
    cache: Cache,
    settings: Settings,
    name: str = OWN,
    pace: ListPace | None = None,
) -> KnownTailnet:
    """Return the tailnet that *client* reaches."""
    preflight = Preflight(client, EventRecorder(kube), own_pod(kube, settings), name)
    return KnownTailnet(client, kube, cache, preflight, name, Devices(client, pace))


@asynccontextmanager
async def running_tailnets(
    client: TailnetClient,
    kube: KubeClient,
    cache: Cache,
    settings: Settings,
    pace: ListPace | None = None,
    exists: Callable[[str], bool] = lambda name: False,
    held: Callable[[], Iterable[str]] = lambda: (),
) -> AsyncIterator[Tailnets]:
    """Run the operator's own tailnet during the block, and yield it; `Tailnets` explains *exists* and *held*."""
    tailnets = Tailnets([tailnet_of(client, kube, cache, settings, pace=pace)], exists, 0.01, held)
    async with running(tailnets.run()):
        yield tailnets


def applier(kube: KubeClient, cache: Cache, tailnets: Tailnets) -> Applier:
    """Return an Applier that carries out errands by the clients of *tailnets*."""

    async def run_errand(step: Errand) -> None:
        assert not isinstance(step, FindNodePorts)
        await tailnets.carry_out(step)

    return Applier(kube, cache, EventRecorder(kube), run_errand, refusal_of)
