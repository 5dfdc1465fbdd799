"""How many Pods the chart gives the operator: it asks the cluster whose Deployment is there."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e import go_operator
from tests.e2e.product import CHART, NAMESPACE, RELEASE
from tests.e2e.testbed.bed import Bed
from tests.e2e.testbed.commands import Word

Object = dict[str, Any]

NAME = r"operatorConfig.podLabels.app\.kubernetes\.io/name"


def rendered(bed: Bed, chart: Path, *words: Word) -> dict[str, Object]:
    """Return what Helm renders that asks the cluster, one of each kind."""
    text = bed.helm("template", RELEASE, chart, "--namespace", NAMESPACE, "--dry-run=server", "--skip-tests", *words)
    return {obj["kind"]: obj for obj in yaml.load_all(text, yaml.CSafeLoader) if obj}


@pytest.fixture(scope="module")
def charts(api_bed: Bed, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Both charts by whose they are, and an API server with the namespace for them."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    api_bed.kubectl("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump(namespace))
    api_bed.plane.wait_for_namespace(NAMESPACE)
    return {"ours": CHART, "go": go_operator.released_chart(tmp_path_factory.mktemp("charts"))}


@pytest.mark.parametrize(("whose", "name", "replicas"), [("go", "tailscale-operator", 1), ("ours", "mine", 2)])
def test_the_go_operators_deployment_alone_keeps_its_one_pod_whatever_its_pods_are_called(
    api_bed: Bed, charts: dict[str, Path], whose: str, name: str, replicas: int
) -> None:
    there = rendered(api_bed, charts[whose], "--set", f"{NAME}={name}")["Deployment"]
    there["spec"]["replicas"] = 1
    api_bed.kubectl("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump(there))
    try:
        found = rendered(api_bed, CHART)
    finally:
        api_bed.kubectl("--namespace", NAMESPACE, "delete", "deployment", there["metadata"]["name"])
    assert found["Deployment"]["spec"]["replicas"] == replicas
    assert ("PodDisruptionBudget" in found) is (replicas > 1)
