"""What the pages and examples say to apply is valid, and does what it is for."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml
from tsoperator.api.objects import Object, key_of
from tsoperator.api.v1alpha1.invalid import Invalid

from tests.docs.applying import CLUSTERS, OURS, applied, asks, in_world, unserved
from tests.docs.pages import DOCS, EXAMPLES, PAGES, ROOT, VALUES_OF_CHART, blocks, name_of, values
from tests.support.lanes import cases
from tests.support.operator import World, running_operator

SOURCES = [path for path in (*PAGES, *EXAMPLES) if applied(path)]
every_source = pytest.mark.parametrize("path", SOURCES, ids=name_of)
FIRST = (
    "docs/egress.md",
    "docs/connector.md",
    "docs/examples/ingress.yaml",
    "docs/examples/egress-group.yaml",
    "docs/examples/tailnet.yaml",
)


async def staying(world: World, objects: Sequence[Object]) -> list[str]:
    return [str(key_of(obj)) for obj in objects if not await world.gone(obj)]


@every_source
def test_every_object_of_ours_fits_its_model(path: Path) -> None:
    ours = [(OURS[obj["kind"]], obj) for obj in applied(path) if obj["kind"] in OURS]
    parsed = [model.parse({**obj, "metadata": {"uid": "u", **obj["metadata"]}}) for model, obj in ours]
    assert [each.message for each in parsed if isinstance(each, Invalid)] == []


@pytest.mark.parametrize("path", cases({name_of(path): path for path in SOURCES}, *FIRST))
async def test_objects_that_are_applied_come_to_work_and_go_again(cluster: World, path: Path) -> None:
    objects = [in_world(obj, cluster) for obj in applied(path)]
    asking = [obj for obj in objects if asks(obj)]
    async with running_operator(cluster):
        await cluster.apply(*objects)
        await cluster.becomes(lambda: unserved(cluster, asking), [])
        await cluster.settled()  # proxies have logged in
        await cluster.delete(*reversed(objects))
        await cluster.becomes(lambda: staying(cluster, objects), [])
        assert await cluster.device_names() == []


OTHERS = {"argoproj.io/v1alpha1", "kustomize.toolkit.fluxcd.io/v1", "helm.toolkit.fluxcd.io/v2"}
"""The APIs of other tools, which pages show how to set up by fragments of their objects: there is no test of them."""
FRAGMENTS = {"resource.customizations.ignoreDifferences.all", "kustomize.toolkit.fluxcd.io/ssa"}
"""What of theirs is shown without its kind."""


def is_tested(block: str) -> bool:
    """Tell whether YAML is applied here, or rendered or built by tests/e2e."""
    if block.startswith((VALUES_OF_CHART, "# kustomization.yaml\n")):
        return True
    return all(obj.get("apiVersion") in CLUSTERS for obj in yaml.safe_load_all(block))


def is_of_another_tool(block: str) -> bool:
    """Tell whether YAML is for a tool that no test has."""
    (obj,) = yaml.safe_load_all(block)
    return obj.get("apiVersion") in OTHERS or any(name in block for name in FRAGMENTS)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_yaml_is_shown_that_no_test_uses_but_for_other_tools(page: Path) -> None:
    untested = [block for block in blocks(page) if not is_tested(block)]
    assert [block for block in untested if not is_of_another_tool(block)] == []
    assert not untested or name_of(page) == "docs/gitops.md"


def test_every_file_of_yaml_is_an_example() -> None:
    found = {*DOCS.rglob("*.yaml"), *(ROOT / "coredns").rglob("*.yaml")}
    assert {path for path in found if name_of(path) not in values()} == {*EXAMPLES}
