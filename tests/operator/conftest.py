"""The worlds of the loop tests: a cluster, with the operator or without.

With ``--real-api KUBECONFIG`` the cluster is that API server, and only tests that can run there are selected.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
from clustersim.furniture import definition
from clustersim.objects import SERVICEMONITOR
from tsoperator.api.objects import CRD, Object
from tsoperator.kube.errors import NotFound

from tests.support.operator import World, new_world, running_operator
from tests.support.real import prepare, real_world


def pytest_configure(config: pytest.Config) -> None:
    """Let connections with TLS outlive a test's event loop: they close a moment after they are told to."""
    if config.getoption("real_api"):
        config.addinivalue_line("filterwarnings", "ignore:Exception ignored in:pytest.PytestUnraisableExceptionWarning")
        config.addinivalue_line("filterwarnings", "ignore:unclosed:ResourceWarning")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what doesn't run on a real API server."""
    if not config.getoption("real_api"):
        return
    chosen = [item for item in items if _is_loop_test(item) and not item.get_closest_marker("simulated")]
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = chosen


def _is_loop_test(item: pytest.Item) -> bool:
    return isinstance(item, pytest.Function) and "cluster" in item.fixturenames


@pytest.fixture(scope="session")
def real_api(pytestconfig: pytest.Config, worker_id: str) -> Path | None:
    """The kubeconfig of this worker's API server, if the tests are to run on a real one."""
    kubeconfigs: list[Path] = pytestconfig.getoption("real_api")
    if not kubeconfigs:
        return None
    number = int(worker_id.removeprefix("gw")) if worker_id != "master" else 0
    asyncio.run(prepare(kubeconfigs[number]))
    return kubeconfigs[number]


@pytest.fixture
async def cluster(real_api: Path | None) -> AsyncIterator[World]:
    """A cluster on which no operator runs yet."""
    async with real_world(real_api) if real_api else new_world() as world:
        yield world


@pytest.fixture
async def world(cluster: World) -> AsyncIterator[World]:
    """A cluster with the operator."""
    async with running_operator(cluster):
        yield cluster


@pytest.fixture
async def monitoring(cluster: World) -> AsyncIterator[Object]:
    """The definition of ServiceMonitors, for the test to apply; it is taken away again."""
    crd = {"apiVersion": CRD.api_version, "kind": CRD.kind, **definition(SERVICEMONITOR)}
    yield crd
    with suppress(NotFound):
        await cluster.delete(crd)
    await cluster.eventually(lambda: cluster.gone(crd))
