"""The ground on which plans are carried out and reported."""

from collections.abc import AsyncIterator

import pytest
from clustersim import objects as kinds
from clustersim.sim import ClusterSim
from tsoperator.api.objects import CONFIGMAP, DNSCONFIG, SECRET
from tsoperator.desired.plan import Errand
from tsoperator.kube.client import KubeClient
from tsoperator.kube.watch import Selection
from tsoperator.runtime.apply import Applier
from tsoperator.runtime.cache import Cache, Source
from tsoperator.runtime.events import EventRecorder
from tsoperator.tailnet.refusals import refusal_of

from tests.operator.runtime.ground import OTHERS, Ground
from tests.support.cluster import running


@pytest.fixture
async def ground(sim: ClusterSim, client: KubeClient) -> AsyncIterator[Ground]:
    cache = Cache(
        [Source(Selection(DNSCONFIG)), *(Source(Selection(kind, "tailscale")) for kind in (CONFIGMAP, SECRET))]
    )
    ground: Ground

    async def run_errand(step: Errand) -> None:
        await ground.run_errand(step)

    applier = Applier(client, cache, EventRecorder(client), run_errand, refusal_of, now=lambda: ground.time)
    ground = Ground(sim, cache, applier)
    sim.store.create(kinds.DNSCONFIG, {"metadata": {"name": "parent", "finalizers": [OTHERS]}, "spec": {}})
    sim.store.create(kinds.SECRET, {"metadata": {"namespace": "tailscale", "name": "state"}, "data": {"state": "eA=="}})
    async with running(cache.follow(client)):
        await cache.synced()
        yield ground
