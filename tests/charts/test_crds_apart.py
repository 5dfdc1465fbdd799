"""The upgrade from the Go operator's chart to ours if the Go operator's CRDs don't belong to the Helm release.

The commands are those of docs/migration.md.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.charts.rendered import CREDENTIALS
from tests.docs import pages
from tests.e2e import go_operator
from tests.e2e.product import CHART
from tests.e2e.testbed.bed import Bed
from tests.e2e.testbed.errors import BedError
from tests.e2e.waiting import eventually
from tests.support.manifests import connector

Object = dict[str, Any]

RELEASE, NAMESPACE = "tailscale-operator", "apart"
WHERE = ("--namespace", NAMESPACE)
MIGRATION = pages.DOCS / "migration.md"
CRD = "connectors.tailscale.com"
OWNER = "meta.helm.sh/release-name"
KEPT = "serviceaccounts,roles,rolebindings"


def go_crds() -> Path:
    return go_operator.deployed_from() / "crds"


@pytest.fixture(scope="module")
def with_crds(api_bed: Bed) -> Iterator[Bed]:
    """An API server with the Go operator's CRDs, which are deleted after the tests."""
    yield api_bed
    api_bed.kubectl("delete", "--filename", go_crds(), "--wait=false")
    listing = ("get", "crd", "--output=name")
    eventually(lambda: "connectors.tailscale.com" not in api_bed.kubectl(*listing), "the CRDs are gone")


@pytest.fixture
def moving(with_crds: Bed, helm: Path, go_chart: Path) -> Iterator[Bed]:
    """The API server with the Go operator's CRDs, a Connector, and the Go operator's chart without its CRDs."""
    with_crds.kubectl("apply", "--server-side", "--force-conflicts", "--filename", go_crds())
    made = yaml.safe_dump(connector("kept", exitNode=True))
    apply = ("apply", "--server-side", "--filename", "-")
    eventually(lambda: with_crds.kubectl(*apply, stdin=made), "a Connector is made")
    sets = [word for each in (*CREDENTIALS, "installCRDs=false") for word in ("--set", each)]
    with_crds.helm("install", RELEASE, go_chart, *WHERE, "--create-namespace", *sets)
    yield with_crds
    with_crds.helm("uninstall", RELEASE, *WHERE)
    with_crds.kubectl(*WHERE, "delete", KEPT, "proxies", "--ignore-not-found")
    with_crds.kubectl("annotate", "crd", "--all", f"{OWNER}-", "meta.helm.sh/release-namespace-")
    with_crds.kubectl("label", "crd", "--all", "app.kubernetes.io/managed-by-")


def upgrade(bed: Bed, *words: str) -> None:
    bed.helm("upgrade", RELEASE, CHART, *WHERE, "--reuse-values", *words)


def definition(bed: Bed) -> Object:
    found: Object = json.loads(bed.kubectl("get", "crd", CRD, "--output=json"))
    return found


def is_ours(definition: Object) -> bool:
    (file,) = (CHART / "files" / "crds").glob("*_connectors.yaml")
    [ours], [there] = (each["spec"]["versions"] for each in (yaml.safe_load(file.read_text()), definition))
    described = "openAPIV3Schema"
    return bool(ours["schema"][described]["description"] == there["schema"][described]["description"])


def documented(flags: str) -> str:
    assert f"`{flags}`" in MIGRATION.read_text()
    return flags


def kept(bed: Bed) -> str:
    return bed.kubectl("get", "connectors.tailscale.com", "kept", "--output=name")


def test_helm_refuses_an_upgrade_that_would_take_crds_into_the_release_and_nothing_changes(moving: Bed) -> None:
    with pytest.raises(BedError, match="invalid ownership metadata"):
        upgrade(moving, "--set", "installCRDs=true")
    assert not is_ours(definition(moving))
    assert "k8s-operator" in moving.kubectl(*WHERE, "get", "deployment", "operator", "--output=yaml")


def test_with_installcrds_false_the_documented_commands_update_the_crds_outside_of_the_release(moving: Bed) -> None:
    upgrade(moving, *documented("--set installCRDs=false").split())
    assert not is_ours(definition(moving))
    (apply,) = (words for words in pages.commands(MIGRATION) if words[:2] == ["kubectl", "apply"])
    *words, folder = apply[1:]
    moving.kubectl(*words, pages.ROOT / folder)
    found = definition(moving)
    assert is_ours(found)
    assert OWNER not in found["metadata"].get("annotations", {})
    assert kept(moving)


def test_the_release_can_take_over_the_crds_and_a_rollback_keeps_them(moving: Bed) -> None:
    upgrade(moving, *documented("--set installCRDs=true --take-ownership").split())
    found = definition(moving)
    assert is_ours(found)
    assert found["metadata"]["annotations"][OWNER] == RELEASE
    moving.helm("rollback", RELEASE, "1", *WHERE)
    assert kept(moving)


def test_the_notes_of_the_chart_warn_of_images_that_nobody_has_published(moving: Bed) -> None:
    words = ("upgrade", RELEASE, CHART, *WHERE, "--reuse-values", "--dry-run=server")
    pushed = [f"operatorConfig.{each}.repository=mine/{each}" for each in ("image", "nameserverImage")]
    said = [
        "nobody has published tsoperator:0.1.0 or tsnameserver:0.1.0",
        "nobody has published tsnameserver:0.1.0",
        "WARNING",
    ]
    found = [moving.helm(*words, "--set", ",".join(["installCRDs=false", *pushed[:count]])) for count in range(3)]
    assert [words in text for words, text in zip(said, found, strict=True)] == [True, True, False]
