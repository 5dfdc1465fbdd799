"""Whatever goes wrong around the operator while users work: when all is quiet, the world is as they wish it to be.

No device, Secret or Service is left over and none is missing, each name leads to what serves it, and each condition
says what is.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.operator.faultsteps import NODES, Play, grant, proxies, steps, wishes, wrong
from tests.operator.groupsteps import Step, everything, soon_empty
from tests.support import patient
from tests.support.manifests import backend
from tests.support.operator import new_world
from tests.support.othertailnet import NAME, other_tailnet

PAUSE = 5.0
"""Seconds between looks; a request that hangs is given up after a minute, and made again half a minute later."""


async def play(taken: list[Step], wish: frozenset[str]) -> None:
    """Take the steps, end all faults, see that the wish comes true, delete all, and see that nothing is left."""
    async with new_world() as world, other_tailnet(world) as other:
        world.sim.kubelet.add_node(NODES[1])
        stage = Play(world, other=other)
        await world.apply(other.secret(), other.tailnet(), backend())
        world.peer()
        world.peer(control=other.control)
        async with stage.operator:
            await stage.start()
            await world.settled()
            before = everything(world)
            for step in taken:
                await stage.take(step)
            await grant(stage, wish)
            await soon_empty(lambda: wrong(stage, wish), PAUSE)
            await stage.comes_to_rest()
            await grant(stage, frozenset())
            await soon_empty(lambda: left(stage, before), PAUSE)


async def left(stage: Play, before: set[str]) -> list[str]:
    """Return what is there that was not there *before*, and the other way round."""
    devices = [*proxies(stage.world.control), *proxies(stage.control(NAME))]
    return [*(everything(stage.world) ^ before), *devices, *await wrong(stage, frozenset())]


@pytest.mark.timeout(600)
@settings(max_examples=3)
@given(st.lists(steps(), min_size=8, max_size=8), wishes())
def test_after_a_few_faults_the_world_is_as_the_user_wishes(taken: list[Step], wish: frozenset[str]) -> None:
    patient.run(play(taken, wish))


@pytest.mark.thorough
@pytest.mark.timeout(3600)
@settings(max_examples=200 if settings.get_current_profile_name() == "soak" else 10)
@given(st.lists(steps(), min_size=30, max_size=30), wishes())
def test_after_many_faults_the_world_is_as_the_user_wishes(taken: list[Step], wish: frozenset[str]) -> None:
    patient.run(play(taken, wish))
