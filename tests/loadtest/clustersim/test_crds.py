"""Custom kinds come and go with their definitions."""

from collections.abc import AsyncIterator

import aiohttp
import pytest
from clustersim.furniture import definition
from clustersim.objects import CRD, SERVICEMONITOR
from clustersim.sim import ClusterSim, cluster_sim

from tests.support.cluster import until

MONITORS = "/apis/monitoring.coreos.com/v1/servicemonitors"
NAME = "servicemonitors.monitoring.coreos.com"


@pytest.fixture
async def sim() -> AsyncIterator[ClusterSim]:
    async with cluster_sim() as running:
        yield running


def is_served(sim: ClusterSim) -> bool:
    return SERVICEMONITOR in sim.kinds.all()


async def status(sim: ClusterSim) -> int:
    async with aiohttp.ClientSession(sim.api_url) as session, session.get(MONITORS) as response:
        return response.status


async def test_a_kind_is_served_once_its_definition_is_there(sim: ClusterSim) -> None:
    assert await status(sim) == 404
    sim.store.create(CRD, definition(SERVICEMONITOR))
    await until(lambda: is_served(sim))
    assert await status(sim) == 200


async def test_a_kind_goes_with_its_definition_and_takes_its_objects_along(sim: ClusterSim) -> None:
    sim.store.create(CRD, definition(SERVICEMONITOR))
    await until(lambda: is_served(sim))
    sim.store.create(SERVICEMONITOR, {"metadata": {"namespace": "tailscale", "name": "a"}})
    sim.store.delete(CRD, "", NAME)
    await until(lambda: not is_served(sim))
    assert (await status(sim), sim.store.list(SERVICEMONITOR)) == (404, [])


async def test_a_definition_waits_for_the_finalizers_of_its_objects(sim: ClusterSim) -> None:
    sim.store.create(CRD, definition(SERVICEMONITOR))
    await until(lambda: is_served(sim))
    for name, finalizers in (("a", ["example.org/hold"]), ("b", [])):
        metadata = {"namespace": "tailscale", "name": name, "finalizers": finalizers}
        sim.store.create(SERVICEMONITOR, {"metadata": metadata})
    sim.store.delete(CRD, "", NAME)
    await until(lambda: len(sim.store.list(SERVICEMONITOR)) == 1)
    assert (await status(sim), sim.store.find(CRD, "", NAME) is None) == (200, False)
    sim.store.merge(SERVICEMONITOR, "tailscale", "a", {"metadata": {"finalizers": None}})
    await until(lambda: sim.store.find(CRD, "", NAME) is None)
    await until(lambda: not is_served(sim))


async def test_a_definition_without_its_finalizer_waits_for_nothing(sim: ClusterSim) -> None:
    bare = definition(SERVICEMONITOR)
    del bare["metadata"]["finalizers"]
    sim.store.create(CRD, bare)
    await until(lambda: is_served(sim))
    sim.store.create(SERVICEMONITOR, {"metadata": {"namespace": "tailscale", "name": "a"}})
    sim.store.delete(CRD, "", NAME)
    await until(lambda: not is_served(sim))
    assert not sim.store.list(SERVICEMONITOR)


async def test_a_kind_is_served_while_a_finalizer_holds_an_object(sim: ClusterSim) -> None:
    sim.store.create(CRD, definition(SERVICEMONITOR))
    await until(lambda: is_served(sim))
    held = {"namespace": "tailscale", "name": "a", "finalizers": ["example.org/hold"]}
    sim.store.create(SERVICEMONITOR, {"metadata": held})
    sim.store.delete(CRD, "", NAME)
    await until(lambda: "deletionTimestamp" in sim.store.list(SERVICEMONITOR)[0]["metadata"])
    assert await status(sim) == 200
    sim.store.merge(SERVICEMONITOR, "tailscale", "a", {"metadata": {"finalizers": None}})
    await until(lambda: not is_served(sim))


async def test_a_kind_that_is_served_stays_the_same(sim: ClusterSim) -> None:
    before = sim.kinds.all()
    sim.store.merge(CRD, "", "dnsconfigs.tailscale.com", {"metadata": {"labels": {"a": "b"}}})
    sim.store.create(CRD, definition(SERVICEMONITOR))
    await until(lambda: is_served(sim))
    assert sim.kinds.all() == [*before, SERVICEMONITOR]
