"""The operator overlooks no change of an object of any kind, whenever its watches end."""

import pytest

from tests.operator.contract.kind import KindExample
from tests.operator.contract.kinds import each_kind
from tests.operator.contract.scene import Scene
from tests.support.cluster import until

pytestmark = pytest.mark.simulated

each_end = pytest.mark.parametrize("end", ["expire_history", pytest.param("drop_watches", marks=pytest.mark.thorough)])


@each_kind
@each_end
async def test_the_operator_overlooks_no_change_if_its_watches_end_after_each_change(
    scene: Scene, kind: KindExample, end: str
) -> None:
    end_watches = getattr(scene.world.sim.faults, end)
    await scene.apply(kind.manifest)
    end_watches()
    await scene.whole()
    for edit in kind.edits.values():
        await scene.change(kind.manifest, edit.patch)
        end_watches()
        await scene.becomes_visible(edit)
    await scene.whole()
    await scene.delete(kind.manifest)
    end_watches()
    await scene.world.becomes(scene.left, [])


@each_kind
async def test_the_operator_finds_changes_that_it_missed_while_the_api_server_was_unreachable(
    scene: Scene, kind: KindExample
) -> None:
    before = await scene.make()
    await away(scene)
    children = [child for resource in kind.children for child in scene.children(resource)]
    await scene.delete(*children)
    back(scene)
    await scene.restored(*children)
    await scene.becomes(before)
    await away(scene)
    await scene.delete(kind.manifest)
    back(scene)
    await scene.world.becomes(scene.left, [])


async def away(scene: Scene) -> None:
    """Make the API server unreachable, and wait until ten requests of the operator have failed."""
    scene.world.sim.faults.leave()
    before = scene.world.sim.requests.total()
    await until(lambda: scene.world.sim.requests.total() >= before + 10, 30)


def back(scene: Scene) -> None:
    """Make the API server reachable again, without the history of changes that the operator's watches would need."""
    scene.world.sim.faults.expire_history()
    scene.world.sim.faults.clear()
