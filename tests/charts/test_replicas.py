"""The number of replicas of the operator, which depends on the Deployment that is in the cluster already."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.product import CHART, NAMESPACE, RELEASE
from tests.e2e.testbed.bed import Bed
from tests.e2e.testbed.commands import Word

Object = dict[str, Any]

NAME = r"operatorConfig.podLabels.app\.kubernetes\.io/name"


def rendered(bed: Bed, chart: Path, *words: Word) -> dict[str, Object]:
    """Return the objects that Helm renders, by kind. The templates can query the API server of *bed*."""
    text = bed.helm("template", RELEASE, chart, "--namespace", NAMESPACE, "--dry-run=server", "--skip-tests", *words)
    return {obj["kind"]: obj for obj in yaml.load_all(text, yaml.CSafeLoader) if obj}


@pytest.mark.parametrize(("is_go", "name", "replicas"), [(True, "tailscale-operator", 1), (False, "mine", 2)])
def test_an_upgrade_keeps_one_replica_only_if_the_deployment_in_the_cluster_is_the_go_operators(
    spaced_bed: Bed, go_chart: Path, is_go: bool, name: str, replicas: int
) -> None:
    there = rendered(spaced_bed, go_chart if is_go else CHART, "--set", f"{NAME}={name}")["Deployment"]
    there["spec"]["replicas"] = 1
    spaced_bed.kubectl("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump(there))
    try:
        found = rendered(spaced_bed, CHART)
    finally:
        spaced_bed.kubectl("--namespace", NAMESPACE, "delete", "deployment", there["metadata"]["name"])
    assert found["Deployment"]["spec"]["replicas"] == replicas
    assert ("PodDisruptionBudget" in found) is (replicas > 1)
