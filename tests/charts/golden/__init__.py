"""The golden files: what the chart renders from some values, as far as it differs from the static manifests."""

from pathlib import Path

import yaml

from tests.e2e.product import CHART
from tests.e2e.testbed.commands import run

MANIFESTS = CHART.parent / "manifests" / "operator.yaml"
VALUES = sorted((Path(__file__).parent / "values").glob("*.yaml"))

_HEAD = "# Written by `make manifests`: what the chart renders otherwise than charts/manifests/operator.yaml."


def written(values: Path) -> Path:
    return Path(__file__).parent / values.name


def rendered(helm: Path, values: Path) -> str:
    """Return what the chart renders from the file *values*, without the manifests that equal a static manifest.

    The text begins with the names of the static manifests that the chart leaves out.
    """
    text = run([helm, "template", "operator", CHART, "--namespace", "tailscale", "--values", values], timeout=60)
    usual, found = _manifests(MANIFESTS.read_text()), _manifests(text)
    others = [each for each in found if each not in usual]
    missing = sorted({_name(each) for each in usual if each not in found} - {_name(each) for each in others})
    return "\n".join([_HEAD, *(f"# Not there: {name}" for name in missing), *(f"---\n{each}" for each in others), ""])


def _manifests(text: str) -> list[str]:
    return [each.strip("\n") for each in text.removeprefix("---\n").split("\n---\n")]


def _name(manifest: str) -> str:
    obj = yaml.load(manifest, yaml.CSafeLoader)
    return f"{obj['kind']} {obj['metadata']['name']}"
