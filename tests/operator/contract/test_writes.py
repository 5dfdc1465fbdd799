"""If writes of the operator fail, the World is the same in the end, and the operator has made nothing twice."""

from collections.abc import Awaitable, Callable

import pytest
from clustersim.faults import LOST, Failure
from tsoperator.kube.client import USER_AGENT

from tests.operator.contract.kind import KindExample
from tests.operator.contract.kinds import each_kind
from tests.operator.contract.scene import Scene
from tests.support.lanes import cases
from tests.support.operator import World

pytestmark = pytest.mark.simulated

FAULTS = {"refused": 403, "conflict": 409, "answer lost": LOST, "failed": 500}


def fail(world: World, status: int, writes: frozenset[str]) -> None:
    """Let each of *writes* fail once with the HTTP *status*."""
    for verb, plural in sorted(write.split() for write in writes):
        world.sim.faults.fail(Failure(status, verb=verb, plural=plural))


@each_kind
@pytest.mark.parametrize("status", cases(FAULTS, "refused", "conflict", "answer lost"))
async def test_the_result_is_the_same_if_each_write_of_the_operator_fails_once(
    scene: Scene, kind: KindExample, status: int, afresh: Callable[[], Awaitable[str]]
) -> None:
    world = scene.world
    fail(world, status, kind.making)
    await scene.make()
    await scene.edit_all()
    await scene.becomes(await afresh())
    assert (world.sim.faults.to_json()["fail"], scene.keys_made) == ([], kind.devices)
    fail(world, status, kind.ending)
    await scene.end()
    assert world.sim.faults.to_json()["fail"] == []


@pytest.mark.thorough
@each_kind
@pytest.mark.parametrize("status", [409, LOST, 500])
async def test_the_result_is_the_same_if_six_writes_of_the_operator_in_a_row_fail(
    scene: Scene, kind: KindExample, status: int, afresh: Callable[[], Awaitable[str]]
) -> None:
    scene.world.sim.faults.fail(Failure(status, times=6))
    await scene.make()
    await scene.edit_all()
    await scene.becomes(await afresh())
    assert scene.keys_made == kind.devices
    scene.world.sim.faults.fail(Failure(status, times=6))
    await scene.end()


@each_kind
async def test_the_result_is_the_same_if_answers_of_the_control_server_get_lost(
    scene: Scene, kind: KindExample
) -> None:
    scene.world.control.lose_answers(count=2)
    before = await scene.make()
    scene.world.control.lose_answers(count=2)
    await scene.end()
    assert await scene.make() == before


def writes(world: World) -> set[str]:
    """Return the kinds of writes that the operator has made so far, except Events, and reset the counts."""
    found = {(verb, plural) for agent, verb, plural in world.sim.writes if agent == USER_AGENT and plural != "events"}
    world.sim.writes.clear()
    return {" ".join(write) for write in found}


@each_kind
async def test_the_operator_makes_exactly_the_writes_that_the_example_of_a_kind_lists(
    scene: Scene, kind: KindExample
) -> None:
    scene.world.sim.writes.clear()
    await scene.make()
    await scene.edit_all()
    assert writes(scene.world) == kind.making
    await scene.end()
    assert writes(scene.world) == kind.ending
