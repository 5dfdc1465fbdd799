"""The operator forgets an object of any kind when the object is gone from the World."""

import pytest
from clustersim.faults import Failure
from tsoperator.api.objects import POD, key_of, uid

from tests.operator.contract.kind import KindExample
from tests.operator.contract.kinds import each_kind
from tests.operator.contract.memory import remembered
from tests.operator.contract.scene import Scene
from tests.support.manifests import annotated
from tests.support.operator import World, running_operator

pytestmark = pytest.mark.simulated

KEPT = ("events._seen", "_departed", "_device_lists._known", "gatherer._windows", "Services._unchecked")
"""The parts of the operator's memory that are allowed to have the object still, because their size is limited.

They are Events that were written, names of devices that are gone, the last list of devices, the last burst of changes,
and the Tailscale Services that were written in the last five seconds.
"""
LISTED = ("Devices._ids", "Devices._by_id", ".devices._ids", ".devices._by_id")
"""The parts of the memory that the next list of devices corrects if somebody else has deleted a device."""


@each_kind
@pytest.mark.parametrize("is_held", [True, False], ids=["in order", "without our finalizer"])
async def test_the_operator_forgets_an_object_that_is_gone(cluster: World, kind: KindExample, is_held: bool) -> None:
    scene = Scene(cluster, kind)
    async with running_operator(cluster) as operator:
        await scene.prepare()
        await scene.make()
        words = (kind.name, uid(await cluster.look(scene.obj)))
        assert any(".objects" in path for path in remembered(operator, *words))
        await trouble(scene)
        await (scene.end() if is_held else vanish(scene))
        kept = KEPT if is_held else (*KEPT, *LISTED)

        async def paths() -> list[str]:
            return [path for path in remembered(operator, *words) if not any(each in path for each in kept)]

        await cluster.becomes(paths, [], timeout=10)  # the operator repeats the writes that fail in `trouble`


async def vanish(scene: Scene) -> None:
    """Delete the object without its finalizer, and delete its children and devices, as the operator would."""
    await scene.world.settled()
    await scene.change(scene.obj, {"metadata": {"finalizers": None}})
    await scene.delete(scene.obj)
    for resource in (*scene.kind.children, POD):
        for child in scene.children(resource):
            if scene.kind.name in key_of(child).name:
                await scene.change(child, {"metadata": {"finalizers": None}})
                await scene.delete(child)
    for device in scene.devices:
        scene.world.control.delete_device(device)
    await scene.world.becomes(scene.left, [])


async def trouble(scene: Scene) -> None:
    """Cause faults of the object, and refusals by the servers, because an operator remembers both."""
    for bad in scene.kind.bad.values():
        await scene.change(scene.obj, bad.patch)
        await scene.told(bad.words, bad.reason)
        await scene.take_back(bad.patch)
    await scene.edit_all()
    if scene.kind.devices:
        scene.world.control.fail(403, count=10, path="/tags")
        tags = {"spec": {"tags": ["tag:other"]}} if scene.kind.resource.is_custom else annotated(tags="tag:other")
        await scene.change(scene.obj, tags)
        await scene.world.eventually(lambda: scene.says("could not be given"))
        scene.world.control.heal()
        scene.world.control.fail(403, path="/api/v2/device/")
        return
    for write in scene.kind.ending:
        verb, plural = write.split()
        scene.world.sim.faults.fail(Failure(500, verb=verb, plural=plural))
