"""An object that is bad keeps what runs and says why, in any World; one that was always bad has nothing."""

import pytest
from clustersim.merge import merge_patch
from tsoperator.api.objects import Object

from tests.operator.contract.kinds import KINDS, Bad, Kind
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
async def test_an_object_that_was_always_bad_has_nothing_until_it_is_mended(scene: Scene, kind: Kind, bad: Bad) -> None:
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
    """Return the children that an object must be right to get."""
    return [obj for resource in scene.kind.children if resource != scene.kind.early for obj in scene.children(resource)]


@each_bad
async def test_an_object_that_becomes_bad_keeps_what_runs(scene: Scene, kind: Kind, bad: Bad) -> None:
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
