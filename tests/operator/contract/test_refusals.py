"""What a server refuses is told to the user of any kind, of the World's generation, and made good later."""

import pytest
from clustersim.faults import Failure

from tests.operator.contract.kinds import Kind, each_joining, each_parent
from tests.operator.contract.scene import Scene

pytestmark = pytest.mark.full


@pytest.mark.simulated
@each_parent
async def test_a_write_that_the_api_server_refuses_is_told_until_it_is_allowed(scene: Scene, kind: Kind) -> None:
    plural = [resource.plural for resource in kind.children if resource != kind.early][-1]
    scene.world.sim.faults.fail(Failure(403, times=10**6, verb="create", plural=plural))
    await scene.apply(kind.manifest)
    await scene.told(plural, kind.failed)
    scene.world.sim.faults.clear()
    await scene.whole()
    assert scene.keys_made == kind.devices


@each_joining
async def test_an_auth_key_that_is_refused_is_told_until_it_is_allowed(scene: Scene, kind: Kind) -> None:
    scene.world.control.client_tags = {"tag:other"}
    await scene.apply(kind.manifest)
    await scene.told("tag:k8s", kind.failed)
    scene.world.control.client_tags = None
    await scene.whole()


@each_joining
async def test_a_device_that_may_not_be_deleted_keeps_its_object(scene: Scene, kind: Kind) -> None:
    await scene.make()
    scene.world.control.fail(403, count=10**6, path="/api/v2/device/")
    await scene.delete(kind.manifest)
    await scene.told("by hand", kind.failed)
    scene.world.control.heal()
    await scene.world.becomes(scene.left, [])
