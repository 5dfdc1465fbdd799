"""The static manifests and the documented kustomization, compared with the output of the chart."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.charts import permissions
from tests.docs.pages import DOCS, VALUES_OF_CHART, blocks
from tests.e2e.product import CHART, NAMESPACE
from tests.e2e.testbed.bed import Bed
from tests.e2e.testbed.build import build_program
from tests.e2e.testbed.commands import run
from tests.e2e.testbed.paths import Paths
from tests.e2e.testbed.progress import Progress

Object = dict[str, Any]
Kustomize = Callable[[Path], str]

MANIFESTS = CHART.parent / "manifests"
INSTALL = DOCS / "install.md"


@pytest.fixture(scope="module")
def kustomize() -> Kustomize:
    """Return a function that builds a kustomization folder with kubectl, and returns the YAML."""
    kubectl = build_program("kubectl", Paths.from_environment(), Progress())
    return lambda folder: run([kubectl, "kustomize", folder])


@pytest.fixture
def overlay(tmp_path: Path) -> Path:
    """The documented kustomization folder, beside a copy of the static manifests."""
    shutil.copytree(MANIFESTS, tmp_path / "charts" / "manifests")
    folder = tmp_path / "tailnet"
    folder.mkdir()
    (shown,) = (block for block in blocks(INSTALL) if block.startswith("# kustomization.yaml\n"))
    (folder / "kustomization.yaml").write_text(shown)
    (folder / "client_id").write_text("example-id")
    (folder / "client_secret").write_text("example-secret")
    return folder


def objects(text: str) -> dict[tuple[str, str], Object]:
    found = (obj for obj in yaml.load_all(text, yaml.CSafeLoader) if obj)
    return {(obj["kind"], obj["metadata"]["name"]): obj for obj in found}


def test_the_kustomize_base_is_the_static_manifests_with_their_namespace(kustomize: Kustomize) -> None:
    given = objects("\n---\n".join((MANIFESTS / name).read_text() for name in ("namespace.yaml", "operator.yaml")))
    for obj in given.values():
        if not obj["metadata"].get("annotations", True):
            del obj["metadata"]["annotations"]  # kustomize leaves out empty maps
    assert objects(kustomize(MANIFESTS)) == given


def test_the_page_on_permissions_is_generated_from_the_static_manifests() -> None:
    assert permissions.PAGE.read_text() == permissions.page(), "run `make manifests`"


def test_the_documented_overlay_changes_images_and_adds_the_credentials(kustomize: Kustomize, overlay: Path) -> None:
    base, made = objects(kustomize(MANIFESTS)), objects(kustomize(overlay))
    assert made.pop(("Secret", "operator-oauth"))["data"].keys() == {"client_id", "client_secret"}
    assert made.keys() == base.keys()
    assert [key for key, obj in made.items() if obj != base[key]] == [("Deployment", "operator")]


def test_a_kustomize_overlay_can_move_all_objects_to_another_namespace(kustomize: Kustomize, overlay: Path) -> None:
    file = overlay / "kustomization.yaml"
    file.write_text(file.read_text().replace("namespace: tailscale\nresources", "namespace: net\nresources"))
    made = objects(kustomize(overlay))
    assert ("Namespace", "net") in made
    subjects = [subject for obj in made.values() for subject in obj.get("subjects", ())]
    named = [
        metadata["namespace"] for metadata in (obj["metadata"] for obj in made.values()) if "namespace" in metadata
    ]
    assert {*named, *(subject["namespace"] for subject in subjects)} == {"net"}


@pytest.mark.parametrize("how", ["--server-side=false", "--server-side"])
def test_the_static_manifests_can_be_applied(spaced_bed: Bed, how: str) -> None:
    applied = spaced_bed.kubectl("apply", "--dry-run=server", how, "-f", MANIFESTS / "operator.yaml")
    assert applied.count("(server dry run)") == len(objects((MANIFESTS / "operator.yaml").read_text()))


def test_the_documented_overlay_makes_the_deployment_that_the_documented_values_make(
    spaced_bed: Bed, kustomize: Kustomize, helm: Path, overlay: Path
) -> None:
    values = next(block for block in blocks(INSTALL) if block.startswith(VALUES_OF_CHART))
    rendered = run([helm, "template", "operator", CHART, "--namespace", NAMESPACE, "--values", "-"], stdin=values)
    assert completed(spaced_bed, kustomize(overlay)) == completed(spaced_bed, rendered)


def completed(bed: Bed, text: str) -> Object:
    """Return the spec of the Deployment in *text* as an API server completes it, with its variables sorted."""
    deployment = objects(text)["Deployment", "operator"]
    answer = bed.kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", stdin=yaml.safe_dump(deployment))
    spec: Object = json.loads(answer)["spec"]
    (container,) = spec["template"]["spec"]["containers"]
    container["env"].sort(key=lambda variable: variable["name"])
    return spec
