"""What Helm renders of a chart, read."""

import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.product import CHART
from tests.e2e.testbed.commands import run

Object = dict[str, Any]
Render = Callable[..., list[Object]]

CREDENTIALS = ("oauth.clientId=client", "oauth.clientSecret=secret")


def renderer(helm: Path) -> Render:
    """Return what a chart renders: of ours with `--set`, or another with the same; its CRDs (most of the work) and its
    test only if asked for.
    """

    @cache
    def rendered(
        *sets: str,
        chart: Path = CHART,
        files: tuple[Path, ...] = (),
        release: str = "operator",
        crds: bool = False,
        tests: bool = False,
    ) -> list[Object]:
        words = [] if tests else ["--skip-tests"]
        words += [] if crds else ["--set", "installCRDs=false"]
        words += [word for given in sets for word in ("--set", given)]
        words += [str(word) for file in files for word in ("--values", file)]
        text = run([helm, "template", release, chart, "--namespace", "tailscale", *words], timeout=60)
        return [obj for obj in yaml.load_all(text, yaml.CSafeLoader) if obj]  # in Python it takes seconds

    return rendered


def the(kind: str, objects: list[Object]) -> Object:
    (found,) = (obj for obj in objects if obj["kind"] == kind)
    return found


def container(objects: list[Object]) -> Object:
    only: Object
    (only,) = the("Deployment", objects)["spec"]["template"]["spec"]["containers"]
    return only


def named(objects: list[Object], *kinds: str) -> set[tuple[str, str]]:
    return {(obj["kind"], obj["metadata"]["name"]) for obj in objects if obj["kind"] in kinds}


def leaves(value: Any) -> Iterator[Any]:
    """Yield everything in *value* that is neither a map nor a list."""
    if isinstance(value, dict | list):
        for child in value.values() if isinstance(value, dict) else value:
            yield from leaves(child)
    else:
        yield value


def with_values_of(other: Path, folder: Path, ours: Path = CHART) -> Path:
    """Return our chart, in *folder*, as `helm upgrade --reuse-values` has it: with the values in *other* alone."""
    chart = folder / "chart"
    shutil.copytree(ours, chart)
    shutil.copy(other, chart / "values.yaml")
    return chart
