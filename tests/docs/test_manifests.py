"""The objects that the pages and examples say to apply are valid, and work on a cluster."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml
from tsoperator.api.objects import Object, key_of
from tsoperator.api.v1alpha1.invalid import Invalid

from tests.docs.applying import CLUSTERS, OURS, applied, asks, backends, in_world, unserved
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
    "docs/high-availability.md",
)


NEEDS = {"docs/examples/proxygrouppolicy.yaml": DOCS / "examples" / "egress-group.yaml"}
"""The examples that work only after another example is applied."""


OPERATORS_OWN = "tailscale-operator.tail1234.ts.net"
"""The name of the operator's own device, which stays in the tailnet when all objects are deleted."""


async def staying(world: World, objects: Sequence[Object]) -> list[str]:
    return [str(key_of(obj)) for obj in objects if not await world.gone(obj)]


@every_source
def test_every_documented_object_of_our_crds_is_valid(path: Path) -> None:
    ours = [(OURS[obj["kind"]], obj) for obj in applied(path) if obj["kind"] in OURS]
    parsed = [model.parse({**obj, "metadata": {"uid": "u", **obj["metadata"]}}) for model, obj in ours]
    assert [each.message for each in parsed if isinstance(each, Invalid)] == []


def test_if_all_examples_are_applied_at_once_the_operator_configures_the_clusters_dns() -> None:
    found = [obj for path in sorted(EXAMPLES) for obj in applied(path) if obj["kind"] == "DNSConfig"]
    assert found[-1]["spec"]["clusterDNS"] == {"mode": "Managed"}


@pytest.mark.parametrize("path", cases({name_of(path): path for path in SOURCES}, *FIRST))
async def test_the_documented_objects_work_once_applied_and_leave_nothing_once_deleted(
    cluster: World, path: Path
) -> None:
    needed = applied(NEEDS[name_of(path)]) if name_of(path) in NEEDS else []
    objects = [in_world(obj, cluster) for obj in (*needed, *applied(path))]
    asking = [obj for obj in objects if asks(obj)]
    async with running_operator(cluster, operator_secret="operator"):
        await cluster.apply(*objects, *backends(objects))
        await cluster.becomes(lambda: unserved(cluster, asking), [])
        await cluster.settled()  # proxies have logged in
        await cluster.delete(*reversed(objects), *backends(objects))
        await cluster.becomes(lambda: staying(cluster, objects), [])
        assert {*await cluster.device_names()} <= {OPERATORS_OWN}
        assert not cluster.control.services.present


OTHERS = {"argoproj.io/v1alpha1", "kustomize.toolkit.fluxcd.io/v1", "helm.toolkit.fluxcd.io/v2", "cert-manager.io/v1"}
"""The APIs of other tools. Pages show fragments of their objects to configure the tools, and no test applies those."""
FRAGMENTS = {"resource.customizations.ignoreDifferences.all", "kustomize.toolkit.fluxcd.io/ssa"}
"""Words in fragments for other tools.

Pages show these fragments without a kind, so a test recognizes them by the words.
"""


def is_tested(block: str) -> bool:
    """Tell whether a test applies the YAML in *block*, or renders the chart or builds a kustomization with it."""
    if block.startswith((VALUES_OF_CHART, "# kustomization.yaml\n")):
        return True
    return all(obj.get("apiVersion") in CLUSTERS for obj in yaml.safe_load_all(block))


def is_of_another_tool(block: str) -> bool:
    """Tell whether the YAML in *block* is for a tool, such as Argo CD, that no test runs."""
    (obj,) = yaml.safe_load_all(block)
    return obj.get("apiVersion") in OTHERS or any(name in block for name in FRAGMENTS)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_all_yaml_on_a_page_of_the_docs_is_used_by_a_test_or_is_for_another_tool(page: Path) -> None:
    untested = [block for block in blocks(page) if not is_tested(block)]
    assert [block for block in untested if not is_of_another_tool(block)] == []
    assert not untested or name_of(page) in {"docs/gitops.md", "docs/own-domain.md"}


def test_every_yaml_file_of_the_docs_is_in_the_list_of_examples_or_is_a_values_file() -> None:
    found = {*DOCS.rglob("*.yaml"), *(ROOT / "coredns").rglob("*.yaml")}
    assert {path for path in found if name_of(path) not in values()} == {*EXAMPLES}
