"""The worlds of the loop tests: a cluster, with the operator or without."""

from collections.abc import AsyncIterator

import pytest
from clustersim.sim import ClusterSim
from tsoperator.kube.client import KubeClient

from tests.support.operator import World, running_operator


@pytest.fixture
async def cluster(sim: ClusterSim, client: KubeClient) -> World:
    """A cluster on which no operator runs yet."""
    return World(sim, client)


@pytest.fixture
async def world(cluster: World) -> AsyncIterator[World]:
    """A cluster with the operator."""
    async with running_operator(cluster.sim):
        yield cluster
