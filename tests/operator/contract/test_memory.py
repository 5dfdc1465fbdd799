"""What an operator remembers about an object of any kind is gone when the object is gone from the World."""

import pytest
from clustersim.faults import Failure

from tests.operator.contract.kinds import Kind, each_kind
from tests.operator.contract.memory import remembered
from tests.operator.contract.scene import Scene
from tests.support.operator import World, running_operator

pytestmark = pytest.mark.simulated

KEPT = ("events._seen", "_departed", "_device_lists._known")
"""What is bounded: Events that were written, names of devices that are gone, and the last list of devices."""


@each_kind
async def test_an_object_that_is_gone_is_forgotten(cluster: World, kind: Kind) -> None:
    scene = Scene(cluster, kind)
    async with running_operator(cluster) as operator:
        await scene.prepare()
        await scene.make()
        live = scene.live()
        assert live is not None
        words = (kind.name, live["metadata"]["uid"])
        assert any(".objects" in path for path in remembered(operator, *words))
        await trouble(scene)
        await scene.end()
        await cluster.settled()
        assert [path for path in remembered(operator, *words) if not any(kept in path for kept in KEPT)] == []


async def trouble(scene: Scene) -> None:
    """Let happen to the object what an operator remembers."""
    for bad in scene.kind.bad.values():
        await scene.change(scene.obj, bad.patch)
        await scene.told(bad.words, bad.reason)
        await scene.take_back(bad.patch)
    await scene.edit_all()
    scene.world.control.fail(503, count=2, path="/api/v2/device/")
    for write in scene.kind.ending:
        verb, plural = write.split()
        scene.world.sim.faults.fail(Failure(500, verb=verb, plural=plural))
