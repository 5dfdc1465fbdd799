"""Fixtures of all tests, and the choice of the cluster that loop tests run on.

With ``--real-api KUBECONFIG``, that cluster is a real API server, and only tests that can run there are selected.
"""

import asyncio
import gc
import re
import time
from collections.abc import AsyncIterator, Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from clustersim.rbac import Right
from hypothesis import settings

from tests.support.chartrights import USED, complaints
from tests.support.cluster import client, sim
from tests.support.operator import World, new_world
from tests.support.patient import PatientLoop
from tests.support.real import prepare, real_world
from tests.support.sample import SHARES, sampled, share_of

__all__ = ["client", "sim"]

# Hypothesis gets no deadlines, since a busy machine would miss them. `make soak` chooses the second profile.
settings.register_profile("tests", deadline=None, max_examples=25)
settings.register_profile("soak", deadline=None, max_examples=2000)
settings.load_profile("tests")

BUDGET = 3.0
"""The CPU seconds that a loop test is allowed to take on the simulated cluster, unless it is marked ``thorough``."""

# While pytest collects the tests, the garbage collector is off: it would find nothing, because modules and tests stay.
gc.disable()

_SET = re.compile(r"\{('[^']*'|\"[^\"]*\"), ")
"""The beginning of a set of strings in the form of `repr`. The ID of a test must not contain it."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add options that choose the cluster of the loop tests, and which of the tests marked `full` run."""
    words = "run the operator's loop tests on the API server of this KUBECONFIG; once for each worker of -n"
    parser.addoption("--real-api", action="append", default=[], type=Path, metavar="KUBECONFIG", help=words)
    words = f"of the tests marked `full`, run those in the share, one of {SHARES}, that this commit chooses"
    parser.addoption("--sample-of-full", metavar="COMMIT", help=words)
    words = "fail if the loop tests, which must all run, use a right of the chart less, or more, than is listed"
    parser.addoption("--all-rights", action="store_true", help=words)


def pytest_report_header(config: pytest.Config) -> str | None:
    """Say which share of the tests with the marker `full` is part of this run."""
    commit = config.getoption("sample_of_full")
    return (
        f"of the tests marked full: share {share_of(commit)} of {SHARES}, chosen by commit {commit}" if commit else None
    )


def pytest_configure(config: pytest.Config) -> None:
    """With ``--real-api``, ignore warnings about TLS connections that outlive a test's event loop.

    There are such connections because closing a TLS connection takes a moment.
    """
    if config.getoption("real_api"):
        config.addinivalue_line("filterwarnings", "ignore:Exception ignored in:pytest.PytestUnraisableExceptionWarning")
        config.addinivalue_line("filterwarnings", "ignore:unclosed:ResourceWarning")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files without loop tests if only loop tests run. This halves the time until each worker starts."""
    tests = config.getoption("real_api") and collection_path.match("test_*.py")
    return True if tests and World.__name__ not in collection_path.read_text() else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests that can't run on the chosen API server, and `full` tests that belong to other shares.

    Raises `pytest.UsageError` for a test whose ID contains a set. The order of a set can differ between the workers of
    -n. With different IDs for one test, pytest-xdist ends the run at once.
    """
    for item in items:
        if _SET.search(item.nodeid):
            raise pytest.UsageError(f"{item.nodeid}: the ID holds a set; give a tuple")
    if config.getoption("real_api"):
        chosen = [item for item in items if _is_loop_test(item) and not item.get_closest_marker("simulated")]
    else:
        chosen = [item for item in items if not item.get_closest_marker("real")]
    if commit := config.getoption("sample_of_full"):
        chosen = sampled(chosen, commit)
    config.hook.pytest_deselected(items=list(set(items) - set(chosen)))
    items[:] = chosen


def pytest_collection_finish() -> None:
    """Turn the garbage collector on, and exempt from it all objects that exist already."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """When a worker of -n ends, add the rights that its tests used to the collection in the first process."""
    USED.update(Right(*each) for each in getattr(node, "workeroutput", {}).get("rights", ()))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Report the used rights from a worker to the first process, which compares them with the chart's rights."""
    config: Any = session.config
    if hasattr(config, "workeroutput"):
        config.workeroutput["rights"] = [*map(list, USED)]
    elif config.getoption("all_rights") and not session.testsfailed and (found := [*complaints(USED)]):
        config.get_terminal_writer().line("\n" + "\n".join(found), red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Fail a loop test that takes more than `BUDGET`, so that `make test` stays quick."""
    start = time.process_time()
    result = yield
    spent = time.process_time() - start
    marked = _is_marked(item, "thorough", "scale")
    if spent > BUDGET and _is_loop_test(item) and not marked and not item.config.getoption("real_api"):
        pytest.fail(f"took {spent:.1f} s of CPU, more than {BUDGET:g}: make it smaller, or mark it `thorough`")
    return result


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Choose virtual time for tests on a simulated cluster, and for tests marked `virtual_time`.

    A simulated cluster comes from the fixture `cluster`, or the module of the test imports `new_world`. In real time,
    an operator on a busy machine can look as if it were at rest.
    """
    in_real_time = config.getoption("real_api") or _is_marked(item, "real_time", "scale")
    makes_world = isinstance(item, pytest.Function) and new_world.__name__ in vars(item.module)
    if ((_is_loop_test(item) or makes_world) and not in_real_time) or _is_marked(item, "virtual_time"):
        return {"virtual": PatientLoop}
    return {"real": asyncio.new_event_loop}


def _is_marked(item: pytest.Item, *names: str) -> bool:
    return any(item.get_closest_marker(name) for name in names)


def _is_loop_test(item: pytest.Item) -> bool:
    """Tell whether *item* runs the operator in the test's own process. (tests/e2e has another fixture `cluster`.)"""
    return isinstance(item, pytest.Function) and "cluster" in item.fixturenames and "e2e" not in item.path.parts


@pytest.fixture(scope="session")
def real_api(pytestconfig: pytest.Config, worker_id: str) -> Path | None:
    """The kubeconfig of this worker's API server, or None if the tests run on a simulated cluster."""
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
