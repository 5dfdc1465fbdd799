"""Fixtures for the tests of the chart and of the CRDs."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.charts.rendered import Render, renderer
from tests.e2e import go_operator
from tests.e2e.product import CHART, NAMESPACE
from tests.e2e.testbed.bed import Bed, brought_up
from tests.e2e.testbed.build import build_program
from tests.e2e.testbed.paths import Paths
from tests.e2e.testbed.progress import Progress

NOTES = """\
notes: |
{{ include "tailscale-operator/templates/NOTES.txt" . | indent 2 }}
"""

TIMEOUT = 120.0  # seconds that a test may take; its fixtures may have to build Helm and an API server


def pytest_itemcollected(item: pytest.Item) -> None:
    """Apply the time limit of each test to the test function only, without its fixtures."""
    item.add_marker(pytest.mark.timeout(TIMEOUT, func_only=True))


@pytest.fixture(scope="session")
def api_bed() -> Iterator[Bed]:
    """A running bed that has only an API server."""
    found = Bed(Paths.from_environment(), api_only=True)
    with brought_up(found):
        yield found


@pytest.fixture(scope="session")
def spaced_bed(api_bed: Bed) -> Bed:
    """A bed that has only an API server, with the operator's namespace in it."""
    api_bed.kubectl("apply", "--server-side", "-f", CHART.parent / "manifests" / "namespace.yaml")
    api_bed.plane.wait_for_namespace(NAMESPACE)
    return api_bed


@pytest.fixture(scope="session")
def helm() -> Path:
    """The path of the program `helm`, which is built first if necessary."""
    return build_program("helm", Paths.from_environment(), Progress())


@pytest.fixture(scope="session")
def go_crds() -> list[dict[str, Any]]:
    """The CRDs of the Go operator, from its Go module."""
    return [yaml.load(file.read_text(), yaml.CSafeLoader) for file in (go_operator.deployed_from() / "crds").iterdir()]


@pytest.fixture(scope="session")
def go_chart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The chart of the Go operator, as it is released."""
    return go_operator.released_chart(tmp_path_factory.mktemp("charts"))


@pytest.fixture(scope="session")
def render(helm: Path) -> Render:
    return renderer(helm)


@pytest.fixture(scope="module")
def noted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The path of a copy of our chart with one more template, which renders the notes as a manifest."""
    chart = tmp_path_factory.mktemp("noted") / "chart"
    shutil.copytree(CHART, chart)
    (chart / "templates" / "notes.yaml").write_text(NOTES)
    return chart
