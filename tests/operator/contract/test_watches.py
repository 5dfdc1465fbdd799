"""The watches of a World may end at any time: nothing is overlooked, for any kind."""

import pytest

from tests.operator.contract.kinds import Kind, each_kind
from tests.operator.contract.scene import Scene
from tests.support.cluster import until

pytestmark = pytest.mark.simulated

each_end = pytest.mark.parametrize("end", ["expire_history", pytest.param("drop_watches", marks=pytest.mark.thorough)])


@each_kind
@each_end
async def test_watches_may_end_after_each_change(scene: Scene, kind: Kind, end: str) -> None:
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
async def test_changes_while_the_api_server_is_away_are_found_later(scene: Scene, kind: Kind) -> None:
    before = await scene.make()
    await away(scene)
    for resource in kind.children:
        await scene.delete(*scene.children(resource))
    back(scene)
    await scene.becomes(before)
    await away(scene)
    await scene.delete(kind.manifest)
    back(scene)
    await scene.world.becomes(scene.left, [])


async def away(scene: Scene) -> None:
    """Shut the API server, and wait until the operator has missed it."""
    scene.world.sim.faults.leave()
    before = scene.world.sim.requests.total()
    await until(lambda: scene.world.sim.requests.total() >= before + 10, 30)


def back(scene: Scene) -> None:
    """Let the API server answer again, from the present: it has forgotten what happened meanwhile."""
    scene.world.sim.faults.expire_history()
    scene.world.sim.faults.clear()
