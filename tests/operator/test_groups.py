"""Whatever happens to ProxyGroups and their Services, it ends as the user wishes, and leaves nothing behind."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.operator.groupsteps import REST, Stage, Step, Wish, end, everything, grant, soon_empty, steps, wishes, wrong
from tests.support import patient
from tests.support.operator import new_world


async def play(taken: list[Step], wish: Wish) -> None:
    """Take the steps, see that the wish comes true, delete all, and see that nothing is left."""
    async with new_world() as world:
        stage = Stage(world)
        async with stage.operator:
            await stage.start()
            await world.settled()
            before = everything(world)
            for step in taken:
                await stage.take(step)
            await stage.start()
            await grant(world, wish)
            await soon_empty(lambda: wrong(stage, wish))
            await asyncio.sleep(REST)
            assert not await world.writes_when_left_alone()
            await stage.stop()
            assert not await world.writes_during(world.restart())
            await stage.start()
            await end(world)
            await soon_empty(lambda: left(stage, before))


async def left(stage: Stage, before: set[str]) -> list[str]:
    """Return what was not there *before*, and the devices."""
    devices = {id_: each.name for id_, each in stage.world.control.devices.items() if id_ not in stage.lost}
    return [*(everything(stage.world) - before), *devices.values()]


@settings(max_examples=3)
@given(st.lists(steps(), min_size=8, max_size=8), wishes())
def test_few_steps_end_as_the_user_wishes_and_leave_nothing(taken: list[Step], wish: Wish) -> None:
    patient.run(play(taken, wish))


@pytest.mark.thorough
@pytest.mark.timeout(3600)
@settings(max_examples=200 if settings.get_current_profile_name() == "soak" else 10)
@given(st.lists(steps(), min_size=30, max_size=30), wishes())
def test_many_steps_end_as_the_user_wishes_and_leave_nothing(taken: list[Step], wish: Wish) -> None:
    patient.run(play(taken, wish))
