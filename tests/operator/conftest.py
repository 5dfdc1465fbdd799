"""Fixtures with a cluster, simulated or real, for the tests that run the whole operator on it."""

import os
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
from clustersim.furniture import definition
from clustersim.objects import SERVICEMONITOR
from tsoperator.api.objects import CRD, Object
from tsoperator.kube.errors import NotFound

from tests.support.operator import World, running_operator

os.environ["SSL_CERT_FILE"] = os.devnull  # so that no client reads the machine's certificates, for 20 ms


@pytest.fixture
async def world(cluster: World) -> AsyncIterator[World]:
    """A cluster on which the operator runs."""
    async with running_operator(cluster):
        yield cluster


@pytest.fixture
async def monitoring(cluster: World) -> AsyncIterator[Object]:
    """The CRD of ServiceMonitors, for the test to apply; it is deleted after the test."""
    crd = {"apiVersion": CRD.api_version, "kind": CRD.kind, **definition(SERVICEMONITOR)}
    yield crd
    with suppress(NotFound):
        await cluster.delete(crd)
    await cluster.eventually(lambda: cluster.gone(crd))
