"""An invalid spec or a refused write: the operator reports it, keeps proxies running, and goes on after the repair."""

import pytest
from clustersim.faults import Failure
from clustersim.merge import merge_patch
from tsoperator.api.objects import Object

from tests.operator.contract.kind import Bad, KindExample
from tests.operator.contract.kinds import KINDS, each_joining, each_parent
from tests.operator.contract.scene import Scene

pytestmark = pytest.mark.full

each_bad = pytest.mark.parametrize(
    ("kind", "bad"),
    [
        pytest.param(kind, bad, id=f"{kind}-{name}", marks=[pytest.mark.simulated] * bad.is_simulated)
        for kind in KINDS
        for name, bad in kind.bad.items()
    ],
)


@each_bad
async def test_an_object_that_is_created_invalid_has_no_children_until_its_user_repairs_it(
    scene: Scene, kind: KindExample, bad: Bad
) -> None:
    before = children(scene)
    await scene.apply(merge_patch(kind.manifest, bad.patch))
    await scene.told(bad.words, bad.reason)
    await scene.world.settled()
    assert (children(scene), scene.node_ids) == (before, [])
    assert not await scene.world.writes_when_left_alone()
    await scene.take_back(bad.patch)
    await scene.whole()
    await scene.change(kind.manifest, bad.patch)
    await scene.end()


def children(scene: Scene) -> list[Object]:
    """Return the children that the operator makes only for a valid object."""
    return [obj for resource in scene.kind.children if resource != scene.kind.early for obj in scene.children(resource)]


@each_bad
async def test_an_object_that_becomes_invalid_keeps_its_pods_children_and_devices(
    scene: Scene, kind: KindExample, bad: Bad
) -> None:
    before = await scene.make()
    running = scene.running()
    await scene.change(kind.manifest, bad.patch)
    await scene.told(bad.words, bad.reason)
    await scene.world.settled()
    assert not await scene.world.writes_when_left_alone()
    assert scene.running() == running
    assert [why for why, message in scene.events() if bad.words in message] == [bad.event] * bool(bad.event)
    await scene.take_back(bad.patch)
    await scene.becomes(before)


@pytest.mark.simulated
@each_parent
async def test_an_object_reports_a_refused_write_until_the_api_server_allows_the_write(
    scene: Scene, kind: KindExample
) -> None:
    plural = [resource.plural for resource in kind.children if resource != kind.early][-1]
    scene.world.sim.faults.fail(Failure(403, times=10**6, verb="create", plural=plural))
    await scene.apply(kind.manifest)
    await scene.told(plural, kind.failed)
    scene.world.sim.faults.clear()
    await scene.whole()
    assert scene.keys_made == kind.devices


@each_joining
async def test_an_object_reports_a_refused_auth_key_until_the_control_server_mints_a_key(
    scene: Scene, kind: KindExample
) -> None:
    scene.world.control.client_tags = {"tag:other"}
    await scene.apply(kind.manifest)
    await scene.told("tag:k8s", kind.failed)
    scene.world.control.client_tags = None
    await scene.whole()


@each_joining
async def test_a_deleted_object_stays_while_the_control_server_refuses_to_delete_its_device(
    scene: Scene, kind: KindExample
) -> None:
    await scene.make()
    scene.world.control.fail(403, count=10**6, path="/api/v2/device/")
    await scene.delete(kind.manifest)
    await scene.told("by hand", kind.failed)
    scene.world.control.heal()
    await scene.world.becomes(scene.left, [])
