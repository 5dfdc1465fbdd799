"""Copies of an object's children in other namespaces change nothing, whatever the kind of the object."""

from collections.abc import Awaitable, Mapping
from itertools import product

import pytest
from clustersim.objects import NAMESPACE
from clustersim.traffic import Request
from tsoperator.api.names import LABEL_PARENT_NAME, LABEL_PARENT_NAMESPACE
from tsoperator.api.objects import EVENT, SERVICE, Object, annotations, key_of, labels

from tests.operator.contract.kind import KindExample
from tests.operator.contract.kinds import each_labelling
from tests.operator.contract.scene import Scene
from tests.support.manifests import DOMAIN, egress
from tests.support.operator import World, running_operator

pytestmark = pytest.mark.simulated

COPIES = "copies-"
"""The beginning of the names of the namespaces that have the copies."""
BYSTANDER = egress("bystander", f"bystander.{DOMAIN}")


@each_labelling
async def test_copies_of_an_objects_children_in_another_namespace_change_nothing(
    cluster: World, kind: KindExample
) -> None:
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
    """Create copies of each child in several namespaces, and return the copies as they are stored.

    Some copies have the labels and annotations of the child. Others also have the labels or the annotations of a child
    of `BYSTANDER`, or labels that name an invented parent. Its namespace and name, joined by a hyphen, are the same
    text as those of the object, so a ProxyGroup's entry for it would have the name of the object's entry.
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
    """Return a copy of *child* for another *namespace*. A copied StatefulSet or Deployment has no replicas."""
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
    """Return the writes while *acting* runs, except those of Events.

    Events are left out because some of them report to users that the annotations of a copy are unknown.
    """
    return [each for each in await world.writes_during(acting) if each[2] != EVENT.plural]


async def left_here(scene: Scene) -> list[str]:
    """Return the leftovers of the object outside of the namespaces of the copies."""
    return [each for each in await scene.left() if f" {COPIES}" not in each]
