"""`make images` pushes the images and the chart, in these tests to a registry on this machine.

The images are for this machine's architecture. These tests need no bed.
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from tsnameserver import __version__

from tests.charts.rendered import container, with_values_of
from tests.e2e import go_operator, product, releasing
from tests.e2e.releasing import CHART, IMAGES, NAMES, WHERE, Workshop
from tests.e2e.testbed import oci, rootfs
from tests.e2e.testbed.commands import Word, run
from tests.e2e.testbed.errors import BedError
from tests.e2e.testbed.parts import program
from tests.e2e.testbed.paths import Paths

Object = dict[str, Any]

pytestmark = pytest.mark.full(share=2)

PLATFORM = f"linux/{oci.architecture()}"
SPDX, SLSA = "https://spdx.dev/Document", "https://slsa.dev/provenance/v1"


@dataclass(frozen=True, slots=True)
class Released:
    """The pushed artifacts, with the programs to read them."""

    registry: str
    base: str
    digests: dict[str, str]
    crane: Path
    helm: Path

    def manifest(self, reference: str) -> Object:
        """Return a manifest of the registry."""
        found: Object = json.loads(run([self.crane, "manifest", f"{self.registry}/{reference}"]))
        return found

    def blob(self, name: str, digest: str) -> Object:
        """Return a JSON document of the registry."""
        found: Object = json.loads(run([self.crane, "blob", f"{self.registry}/{name}@{digest}"]))
        return found

    def image(self, name: str) -> Object:
        """Return the descriptor of the only image in the index *name*."""
        [found] = self.manifest(f"{name}:{__version__}")["manifests"]
        return dict(found)

    def said(self, name: str, digest: str) -> dict[str, Object]:
        """Return the attestations of an artifact by predicate type. Check that each is about *digest*."""
        referrers = self.manifest(f"{name}:{digest.replace(':', '-')}")["manifests"]
        layers = [self.manifest(f"{name}@{each['digest']}")["layers"][0] for each in referrers]
        statements = [self.blob(name, each["digest"]) for each in layers]
        assert {each["subject"][0]["digest"]["sha256"] for each in statements} == {digest.removeprefix("sha256:")}
        return {each["predicateType"]: each["predicate"] for each in statements}


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An empty registry on this machine."""
    with releasing.served(Paths.from_environment(), tmp_path_factory.mktemp("registry")) as address:
        yield address


@pytest.fixture(scope="module")
def workshop(registry: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    """A workshop with the base image of the bed."""
    paths = Paths.from_environment()
    base = {PLATFORM: rootfs.layout(paths)}
    with releasing.workshop(paths, registry, tmp_path_factory.mktemp("release"), base) as found:
        yield found


@pytest.fixture(scope="module")
def released(registry: str, workshop: Workshop) -> Released:
    """The artifacts that `make images` pushes."""
    found = json.loads(workshop.push(f"{registry}/tailnet", PLATFORM).read_text())
    assert found["registry"] == f"{registry}/tailnet"
    crane, helm = (program(workshop.paths, name) for name in ("crane", "helm"))
    return Released(found["registry"], workshop.base, found["digests"], crane, helm)


def test_the_version_tag_of_each_released_artifact_points_to_the_digest_that_the_release_reports(
    released: Released,
) -> None:
    assert released.digests.keys() == {*NAMES}
    for name, digest in released.digests.items():
        assert run([released.crane, "digest", f"{released.registry}/{name}:{__version__}"]).strip() == digest


@pytest.mark.parametrize("name", IMAGES)
def test_a_released_image_is_for_this_machines_architecture_and_is_labelled_with_the_version(
    released: Released, name: str
) -> None:
    image = released.image(name)
    assert image["platform"] == {"os": "linux", "architecture": oci.architecture()}
    config = released.blob(name, released.manifest(f"{name}@{image['digest']}")["config"]["digest"])
    assert config["architecture"] == oci.architecture()
    assert config["config"]["Labels"]["org.opencontainers.image.version"] == __version__
    assert config["config"]["Entrypoint"] == ["python3", "-m", name]
    made = datetime.fromisoformat(config["created"].replace("Z", "+00:00")).timestamp()
    assert made == int(run(["git", "log", "-1", "--format=%ct"], cwd=product.TREE))


@pytest.mark.parametrize(
    ("name", "package"), [("tsoperator", "pkg:pypi/kubernetes@"), ("tsnameserver", "pkg:pypi/pydantic@")]
)
def test_a_released_image_has_an_sbom_that_lists_its_packages(released: Released, name: str, package: str) -> None:
    document = released.said(name, released.image(name)["digest"])[SPDX]
    urls = [each["externalRefs"][0]["referenceLocator"] for each in document["packages"][1:]]
    assert [sum(url.startswith(each) for url in urls) for each in (package, "pkg:deb/debian/libc6@")] == [1, 1]


@pytest.mark.parametrize("name", NAMES)
def test_the_provenance_of_a_released_image_names_the_commit_and_the_base_image(released: Released, name: str) -> None:
    definition = released.said(name, released.digests[name])[SLSA]["buildDefinition"]
    sources, *bases = definition["resolvedDependencies"]
    commit = run(["git", "rev-parse", "HEAD"], cwd=product.TREE).strip()
    assert sources["digest"] == {"gitCommit": commit}
    base = run([released.crane, "digest", released.base]).strip().removeprefix("sha256:")
    assert [each["digest"]["sha256"] for each in bases] == ([] if name == CHART else [base])


def test_the_released_chart_lists_the_images_that_it_runs(released: Released) -> None:
    name = CHART
    document = released.said(name, released.digests[name])[SPDX]
    versions = {each["name"]: each["versionInfo"] for each in document["packages"][1:]}
    assert versions == {image: released.digests[image] for image in IMAGES}


@pytest.fixture(scope="module")
def pulled(released: Released, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The released chart, pulled from the registry with the commands that users run."""
    folder = tmp_path_factory.mktemp("pulled")
    words: list[Word] = ["pull", f"oci://{released.registry}/{CHART}", "--version", __version__, "--plain-http"]
    run([released.helm, *words, "--untar", "--destination", folder])
    return folder / "tailscale-operator"


@pytest.mark.parametrize(
    "reused",
    [False, True],
    ids=["with its values", "with those of the Go chart"],
)
def test_the_released_chart_runs_the_published_images(
    released: Released, pulled: Path, tmp_path: Path, reused: bool
) -> None:
    theirs = go_operator.deployed_from() / "chart" / "values.yaml"
    chart = with_values_of(theirs, tmp_path, pulled) if reused else pulled
    rendered = run([released.helm, "template", "operator", chart, "--set", "installCRDs=false", "--skip-tests"])
    operator = container([obj for obj in yaml.safe_load_all(rendered) if obj])
    variables = {each["name"]: each.get("value") for each in operator["env"]}
    found = (operator["image"], variables["OPERATOR_NAMESERVER_IMAGE"])
    assert found == tuple(f"{released.registry}/{name}:{__version__}" for name in IMAGES)


def test_an_archive_of_images_has_the_images_under_the_names_that_the_chart_gives_them(workshop: Workshop) -> None:
    archive = workshop.folder / "images.tar"
    workshop.build("--archive", archive)
    paths = Paths.from_environment()
    chart = run([program(paths, "helm"), "template", "operator", product.CHART, "--set", "installCRDs=false"])
    operator = container([obj for obj in yaml.safe_load_all(chart) if obj])
    assert "imagePullPolicy" not in operator
    for name in IMAGES:
        assert f"{name}:{__version__}" in {operator["image"], *(each.get("value") for each in operator["env"])}
        image = workshop.run("buildah", "pull", "--quiet", f"docker-archive:{archive}:{name}:{__version__}").strip()
        config = json.loads(workshop.run("buildah", "inspect", "--type=image", image))["OCIv1"]["config"]
        assert config["Entrypoint"] == ["python3", "-m", name]


def test_an_archive_of_images_for_two_platforms_is_refused(workshop: Workshop) -> None:
    with pytest.raises(BedError, match="an archive is for one platform, not for linux/amd64,linux/arm64"):
        workshop.build("--archive", "/none.tar", "--platforms", "linux/amd64,linux/arm64")


def test_a_git_tag_that_is_not_the_version_is_refused_before_the_images_are_built(released: Released) -> None:
    programs = ("--crane", released.crane, "--helm", released.helm)
    words: list[Word] = [sys.executable, "-m", "release", "--registry", "127.0.0.1:1/a", "--tag", "v9.9.9", *programs]
    with pytest.raises(BedError, match=f"the tag is v9.9.9, but the sources are of version {__version__}"):
        run(words, cwd=product.TREE, env=WHERE)
