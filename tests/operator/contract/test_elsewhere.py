"""Objects in another namespace that look like the children of an object of any kind change nothing in the World."""

from collections.abc import Awaitable, Mapping
from itertools import product

import pytest
from clustersim.objects import NAMESPACE
from clustersim.traffic import Request
from tsoperator.api.names import LABEL_PARENT_NAME, LABEL_PARENT_NAMESPACE
from tsoperator.api.objects import EVENT, SERVICE, Object, annotations, key_of, labels

from tests.operator.contract.kinds import Kind, each_parent
from tests.operator.contract.scene import Scene
from tests.support.manifests import DOMAIN, egress
from tests.support.operator import World, running_operator

pytestmark = pytest.mark.simulated

COPIES = "copies-"
"""How the names of the namespaces of copies begin."""
BYSTANDER = egress("bystander", f"bystander.{DOMAIN}")


@each_parent
async def test_copies_of_its_children_in_another_namespace_change_nothing(cluster: World, kind: Kind) -> None:
    async with running_operator(cluster):
        await cluster.apply(BYSTANDER)
        await cluster.joined(BYSTANDER)
        scene = Scene(cluster, kind)
        await scene.prepare()
        before, records = await scene.make(), await cluster.records()
        copies = await forge(scene)
        assert not await writes_during(cluster, cluster.settled())
        assert (scene.portrait(), await cluster.records()) == (before, records)
    assert not await writes_during(cluster, cluster.restart())
    async with running_operator(cluster):
        await scene.delete(scene.obj)
        await cluster.becomes(lambda: left_here(scene), [])
        assert await scene.make() == before
    assert [await cluster.look(each) for each in copies] == copies


async def forge(scene: Scene) -> list[Object]:
    """Create copies of the children, each in several namespaces, and return them as they are stored.

    Some have the marks of the children. Others have the labels or the annotations of the bystander's child, or the
    labels of a Service whose entry at a ProxyGroup would have the same name.
    """
    (other,) = await scene.world.children(SERVICE, BYSTANDER)
    head, _, tail = scene.kind.name.partition("-")
    namesake = {LABEL_PARENT_NAMESPACE: f"default-{head}", LABEL_PARENT_NAME: tail}
    children = [child for resource in scene.kind.children for child in scene.children(resource)]
    copies = []
    for number, marks in enumerate(product(({}, labels(other), namesake), ({}, annotations(other)))):
        namespace = f"{COPIES}{number}"
        scene.world.sim.store.create(NAMESPACE, {"metadata": {"name": namespace}})
        copies += [copy_of(child, namespace, *marks) for child in children]
    await scene.apply(*copies)
    return [await scene.world.look(each) for each in copies]


def copy_of(
    child: Object, namespace: str, more_labels: Mapping[str, str], more_annotations: Mapping[str, str]
) -> Object:
    """Return a copy of *child* for another *namespace*; it runs no Pods."""
    metadata = {
        "namespace": namespace,
        "name": key_of(child).name,
        "labels": {**labels(child), **more_labels},
        "annotations": {**annotations(child), **more_annotations},
    }
    copy = {name: value for name, value in child.items() if name not in ("metadata", "status")}
    spec = {name: value for name, value in child.get("spec", {}).items() if name not in ("clusterIP", "clusterIPs")}
    spec |= {"replicas": 0} if "replicas" in spec else {}
    return {**copy, "metadata": metadata} | ({"spec": spec} if spec else {})


async def writes_during(world: World, acting: Awaitable[None]) -> list[Request]:
    """Return what is written meanwhile besides Events, which tell the user of the copies of unknown annotations."""
    return [each for each in await world.writes_during(acting) if each[2] != EVENT.plural]


async def left_here(scene: Scene) -> list[str]:
    """Return what is left of the object, but for what is in the namespaces of the copies."""
    return [each for each in await scene.left() if f" {COPIES}" not in each]
