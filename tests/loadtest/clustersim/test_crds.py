"""Tests of CRDs: the simulated API server serves a custom kind while its CRD exists."""

from typing import Any

import aiohttp
import pytest
from clustersim.furniture import definition
from clustersim.objects import CRD, SERVICEMONITOR
from clustersim.sim import ClusterSim

from tests.support.cluster import until

MONITORS = "/apis/monitoring.coreos.com/v1/servicemonitors"
NAME = "servicemonitors.monitoring.coreos.com"


def is_served(sim: ClusterSim) -> bool:
    return SERVICEMONITOR in sim.kinds.all()


async def status(sim: ClusterSim) -> int:
    async with aiohttp.ClientSession(sim.api_url) as session, session.get(MONITORS) as response:
        return response.status


async def define(sim: ClusterSim, **metadata: Any) -> None:
    """Create the CRD of ServiceMonitors, with the further *metadata*, and wait until the API server serves the kind."""
    crd = definition(SERVICEMONITOR)
    sim.store.create(CRD, {**crd, "metadata": {**crd["metadata"], **metadata}})
    await until(lambda: is_served(sim))


def create(sim: ClusterSim, name: str, *finalizers: str) -> None:
    metadata = {"namespace": "tailscale", "name": name, "finalizers": [*finalizers]}
    sim.store.create(SERVICEMONITOR, {"metadata": metadata})


@pytest.mark.parametrize("metadata", [{}, {"finalizers": []}])
async def test_the_api_server_serves_a_custom_kind_while_its_crd_exists(
    sim: ClusterSim, metadata: dict[str, list[str]]
) -> None:
    assert await status(sim) == 404
    await define(sim, **metadata)
    assert await status(sim) == 200
    create(sim, "a")
    sim.store.delete(CRD, "", NAME)
    await until(lambda: not is_served(sim))
    assert (await status(sim), sim.store.list(SERVICEMONITOR)) == (404, [])


async def test_the_deletion_of_a_crd_waits_for_the_finalizers_of_its_objects(sim: ClusterSim) -> None:
    await define(sim)
    create(sim, "a", "example.org/hold")
    create(sim, "b")
    sim.store.delete(CRD, "", NAME)
    await until(lambda: len(sim.store.list(SERVICEMONITOR)) == 1)
    assert (await status(sim), sim.store.find(CRD, "", NAME) is None) == (200, False)
    assert "deletionTimestamp" in sim.store.list(SERVICEMONITOR)[0]["metadata"]
    sim.store.merge(SERVICEMONITOR, "tailscale", "a", {"metadata": {"finalizers": None}})
    await until(lambda: sim.store.find(CRD, "", NAME) is None)
    await until(lambda: not is_served(sim))
