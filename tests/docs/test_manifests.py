"""What the pages and examples say to apply is valid, and does what it is for."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import yaml
from tsoperator.api.names import PROXY_CLASS, PROXY_GROUP
from tsoperator.api.objects import Object, annotations, key_of
from tsoperator.api.v1alpha1.connector import Connector
from tsoperator.api.v1alpha1.dnsconfig import DNSConfig
from tsoperator.api.v1alpha1.invalid import Invalid
from tsoperator.api.v1alpha1.proxyclass import ProxyClass
from tsoperator.api.v1alpha1.proxygroup import ProxyGroup
from tsoperator.api.v1alpha1.tailnet import Tailnet
from tsoperator.api.v1alpha1.wire import CustomResource

from tests.docs.pages import DOCS, EXAMPLES, PAGES, ROOT, VALUES_OF_CHART, blocks, manifests, name_of, values
from tests.support.lanes import cases
from tests.support.operator import World, running_operator

OURS: Mapping[str, type[CustomResource]] = {
    model.__name__: model for model in (Connector, DNSConfig, ProxyClass, ProxyGroup, Tailnet)
}
CONDITIONS = {"DNSConfig": "NameserverReady"}
"""The conditions that say that an object works, but for those that have its kind in their names."""
CLUSTERS = {"v1", "networking.k8s.io/v1", "tailscale.com/v1alpha1"}
"""The APIs that the operator has to do with: pages show manifests for other tools, too."""


def applied(path: Path) -> list[Object]:
    """Return the objects that a page or an example says to apply, with the namespace that kubectl would give them."""
    found = [obj for obj in manifests(path) if obj["apiVersion"] in CLUSTERS]
    for obj in found:
        if obj["kind"] not in OURS:
            obj["metadata"].setdefault("namespace", "default")
    return found


SOURCES = [path for path in (*PAGES, *EXAMPLES) if applied(path)]
every_source = pytest.mark.parametrize("path", SOURCES, ids=name_of)
FIRST = (
    "docs/egress.md",
    "docs/connector.md",
    "docs/examples/ingress.yaml",
    "docs/examples/egress-group.yaml",
    "docs/examples/tailnet.yaml",
)


def asks(obj: Object) -> bool:
    """Tell whether *obj* asks the operator for something."""
    spec = obj.get("spec", {})
    classes = (spec.get("loadBalancerClass"), spec.get("ingressClassName"))
    given = any(name.startswith("tailscale.com/") and name != PROXY_CLASS for name in annotations(obj))
    return given or obj["kind"] in OURS or "tailscale" in classes


def condition_of(obj: Object) -> str:
    """Return the condition that says that *obj* works."""
    if obj["kind"] == "Service":
        return "TailscaleEgressSvcReady" if PROXY_GROUP in annotations(obj) else "TailscaleProxyReady"
    return CONDITIONS.get(obj["kind"], f"{obj['kind']}Ready")


def in_world(obj: Object, world: World) -> Object:
    """Return *obj* as it is in *world*, whose control server has the other tailnets, too."""
    if obj["kind"] == "Tailnet":
        return {**obj, "spec": {**obj["spec"], "loginUrl": world.control_url}}
    if "client_secret" in obj.get("stringData", {}):
        given = {"client_id": world.control.client_id, "client_secret": world.control.client_secret}
        return {**obj, "stringData": given}
    return obj


async def unserved(world: World, objects: Sequence[Object]) -> list[str]:
    """Return which of *objects* don't show yet that they work, and what they say."""
    found = []
    for obj in objects:
        if obj["kind"] == "Ingress":
            entries = ((await world.look(obj)).get("status") or {}).get("loadBalancer", {}).get("ingress")
            said = "" if entries else str(await world.events(obj))
        else:
            condition = await world.condition(obj, condition_of(obj))
            said = "" if condition and condition.status == "True" else str(condition)
        found += [f"{obj['kind']} {obj['metadata']['name']}: {said}"] if said else []
    return found


async def staying(world: World, objects: Sequence[Object]) -> list[str]:
    """Return which of *objects* are still there."""
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
