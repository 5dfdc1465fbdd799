"""Renders charts with Helm, and reads the objects."""

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
    """Return a function that renders our chart, or another one, with the given `--set` flags and files of values.

    That function leaves out the CRDs, which are most of the work, unless its argument *crds* is true. It leaves out the
    chart's test unless its argument *tests* is true.
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
        return [obj for obj in yaml.load_all(text, yaml.CSafeLoader) if obj]  # the pure Python loader takes seconds

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
    """Yield the scalars in *value*: those of all maps and lists within it."""
    if isinstance(value, dict | list):
        for child in value.values() if isinstance(value, dict) else value:
            yield from leaves(child)
    else:
        yield value


def with_values_of(other: Path, folder: Path, ours: Path = CHART) -> Path:
    """Copy the chart *ours* into *folder*, with the values in *other* instead of its own, and return the copy.

    Helm's `--reuse-values` combines the values of the old chart and our templates in the same way.
    """
    chart = folder / "chart"
    shutil.copytree(ours, chart)
    shutil.copy(other, chart / "values.yaml")
    return chart
