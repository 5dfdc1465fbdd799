"""A release: the chart names the images, provenance says how they were built, and a workflow pushes and signs them."""

import base64
import re
from pathlib import Path

import pytest
import yaml
from release import chart
from release.__main__ import version_of
from release.chart import Chart, NotReleasable
from release.images import Place, pinned
from release.statements import Build, build_from, provenance, statement

from tests.e2e.testbed import parts

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "tailscale-operator"
VALUES, ABOUT = ((CHART / name).read_text() for name in ("values.yaml", "Chart.yaml"))
WORKFLOW = (ROOT / ".github" / "workflows" / "release.yml").read_text()
MAKEFILE = (ROOT / "Makefile").read_text()


def test_the_released_chart_names_the_images_in_the_registry_and_the_address_of_the_docs() -> None:
    values, about = map(yaml.safe_load, chart.released(VALUES, ABOUT, "example.org/a", "https://example.org/docs"))
    config = values["operatorConfig"]
    assert config["image"]["repository"] == "example.org/a/tsoperator"
    assert config["nameserverImage"]["repository"] == "example.org/a/tsnameserver"
    assert values["metrics"]["prometheusRule"]["docsURL"] == "https://example.org/docs"
    assert values["proxyConfig"] == yaml.safe_load(VALUES)["proxyConfig"]
    ours = yaml.safe_load(ABOUT)
    assert about == {**ours, "annotations": {**ours["annotations"], "images": "example.org/a"}}


def test_the_icon_in_chart_yaml_is_the_file_icon_svg() -> None:
    kind, _, data = yaml.safe_load(ABOUT)["icon"].partition(",")
    assert (kind, base64.b64decode(data)) == ("data:image/svg+xml;base64", (CHART / "icon.svg").read_bytes().strip())


def test_the_chart_and_the_pages_promise_the_versions_of_kubernetes_on_which_tests_run() -> None:
    oldest, newest = (version[1:].rpartition(".")[0] for version in (parts.OLDEST_KUBERNETES, parts.KUBERNETES))
    assert yaml.safe_load(ABOUT)["kubeVersion"] == f">={oldest}.0-0"
    assert f"{oldest} and newer. The tests run on {oldest} and {newest} |" in (ROOT / "docs/limitations.md").read_text()
    assert f"| Kubernetes | {oldest} or newer |" in (ROOT / "docs/install.md").read_text()


def test_artifact_hub_lists_the_crds_of_the_chart() -> None:
    crds = [yaml.safe_load(path.read_text()) for path in sorted((CHART / "files" / "crds").glob("*.yaml"))]
    listed = yaml.safe_load(yaml.safe_load(ABOUT)["annotations"]["artifacthub.io/crds"])
    assert all(each.keys() == {"kind", "version", "name", "displayName", "description"} for each in listed)
    assert [(each["kind"], each["version"], each["name"]) for each in listed] == [
        (crd["spec"]["names"]["kind"], crd["spec"]["versions"][0]["name"], crd["metadata"]["name"]) for crd in crds
    ]


@pytest.mark.parametrize(
    ("values", "about", "words"),
    [
        (VALUES.replace(" tsoperator", " mine"), ABOUT, "has to name the images"),
        (VALUES, ABOUT.replace("images:", "pictures:"), "has to name the images"),
        (VALUES.replace("docsURL:", "docs:"), ABOUT, "has to have one docsURL"),
    ],
)
def test_a_chart_whose_values_name_images_or_docs_by_unknown_keys_is_not_released(
    values: str, about: str, words: str
) -> None:
    with pytest.raises(NotReleasable, match=words):
        chart.released(values, about, "example.org/a", "")


def test_a_chart_whose_version_differs_from_its_images_is_not_released(tmp_path: Path) -> None:
    nothing = Path("/nonexistent")
    with pytest.raises(NotReleasable, match=r"\['0.1.0', '0.1.0'\], those of the images 0.2.0"):
        chart.release(
            Chart(CHART, nothing), "0.2.0", {}, Place("example.org", nothing), build_from({}, "", True, ""), tmp_path
        )


def test_the_version_of_the_sources_equals_the_version_in_chart_yaml() -> None:
    assert version_of(ROOT) == yaml.safe_load(ABOUT)["version"]


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("docker.io/library/python:3.13-slim", "docker.io/library/python"),
        ("python", "python"),
        ("127.0.0.1:5000/base:1", "127.0.0.1:5000/base"),
        ("127.0.0.1:5000/base", "127.0.0.1:5000/base"),
        ("example.org/base:1@sha256:34", "example.org/base"),
    ],
)
def test_a_base_image_is_pinned_by_its_digest(given: str, name: str) -> None:
    assert pinned(given, "sha256:12") == f"{name}@sha256:12"


ACTIONS = {
    "GITHUB_SERVER_URL": "https://github.com",
    "GITHUB_REPOSITORY": "example/tailnet",
    "GITHUB_WORKFLOW_REF": "example/tailnet/.github/workflows/release.yml@refs/tags/v1",
    "GITHUB_RUN_ID": "7",
}
BUILD = Build("c0ffee", False, "https://example.org/a", "https://example.org/b", "", "then", "later")


def test_provenance_names_the_workflow_and_its_run_in_github_actions() -> None:
    found = build_from(ACTIONS, "c0ffee", True, "then")
    assert found == Build(
        commit="c0ffee",
        clean=True,
        source="https://github.com/example/tailnet",
        builder="https://github.com/example/tailnet/.github/workflows/release.yml@refs/tags/v1",
        invocation="https://github.com/example/tailnet/actions/runs/7/attempts/1",
        started="then",
    )
    assert found.docs == "https://github.com/example/tailnet/blob/c0ffee/docs"


def test_provenance_names_this_machine_as_the_builder_outside_github_actions() -> None:
    found = build_from({}, "c0ffee", True, "then")
    assert (found.source, found.builder, found.invocation) == ("https://localhost", "https://localhost/make-images", "")
    assert found.docs == ""


def test_provenance_names_the_commit_the_base_and_the_parameters() -> None:
    found = provenance(BUILD, {"target": "operator"}, {"example.org/python": "sha256:12"})
    definition = found["buildDefinition"]
    assert definition["externalParameters"] == {"target": "operator"}
    assert definition["internalParameters"] == {"sourcesAreThoseOfTheCommit": False}
    assert definition["resolvedDependencies"] == [
        {"uri": "git+https://example.org/a", "digest": {"gitCommit": "c0ffee"}},
        {"uri": "docker://example.org/python", "digest": {"sha256": "12"}},
    ]
    assert found["runDetails"]["builder"] == {"id": "https://example.org/b"}
    assert found["runDetails"]["metadata"] == {"startedOn": "then", "finishedOn": "later"}


def test_a_provenance_statement_is_about_one_digest() -> None:
    found = statement("example.org/a", "sha256:12", "https://example.org/said", {"b": 1})
    assert found["subject"] == [{"name": "example.org/a", "digest": {"sha256": "12"}}]
    assert (found["predicateType"], found["predicate"]) == ("https://example.org/said", {"b": 1})


def test_the_makefile_has_the_target_and_the_variables_that_the_workflow_uses() -> None:
    (target, given) = re.findall(r"run: make (\S+) (.*)", WORKFLOW)[0]
    assert re.search(rf"^{target}:", MAKEFILE, re.MULTILINE)
    for variable in re.findall(r"([A-Z]+)=", given):
        assert f"$({variable})" in MAKEFILE


def test_the_workflow_names_the_registry_in_one_place() -> None:
    workflow = yaml.safe_load(WORKFLOW)
    assert workflow["env"].keys() == {"REGISTRY"}
    assert len(re.findall("ghcr.io/", WORKFLOW)) == 1


def test_the_workflow_signs_everything_that_it_pushes() -> None:
    steps = yaml.safe_load(WORKFLOW)["jobs"]["release"]["steps"]
    signed = [each["with"]["subject-name"] for each in steps if "attest" in each.get("uses", "")]
    names = ("tsoperator", "tsnameserver", "charts/tailscale-operator")
    assert signed == [f"${{{{ env.REGISTRY }}}}/{name}" for name in names]
