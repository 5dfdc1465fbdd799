"""Faults of every sort around the operator while users work: after the last fault, the world is as the users wish.

No device, Secret or Service is left over and none is missing, each name leads to what serves it, and each condition
is true.
"""

import asyncio
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tsoperator.kube.errors import NotFound

from tests.operator.faultsteps import NODES, PACES, USERS, Play, grant, proxies, steps, wishes, wrong
from tests.operator.groupsteps import Step, everything, soon_empty
from tests.support import patient
from tests.support.manifests import backend
from tests.support.operator import new_world
from tests.support.othertailnet import NAME, other_tailnet

PAUSE = 5.0
"""Seconds between two looks at the world. A hanging request delays the end by minutes, so the pause is long."""


async def play(taken: list[Step], wish: frozenset[str], dead: str = "") -> None:
    """Take the steps, end all faults, check that *wish* is fulfilled, delete all objects, and check that none is left.

    If *dead* names a node, the node dies before the deletion of all objects, and doesn't come back.
    """
    async with new_world() as world, other_tailnet(world) as other:
        world.sim.kubelet.add_node(NODES[1])
        stage = Play(world, other=other)
        await world.apply(other.secret(), other.tailnet(), backend())
        world.peer()
        world.peer(control=other.control)
        async with stage.operator:
            before = await stage.play(taken)
            await grant(stage, wish)
            await soon_empty(lambda: wrong(stage, wish), PAUSE)
            await stage.comes_to_rest()
            await end(stage, dead)
            await soon_empty(lambda: left(stage, before, dead), PAUSE)


async def end(stage: Play, dead: str) -> None:
    """Delete all objects. If *dead* names a node, let it die first, and wait until its Pods are being deleted."""
    if dead:
        stage.world.sim.kubelet.kill_node(dead)
        await asyncio.sleep(max(PACES))
    for obj in USERS.values():
        with suppress(NotFound):
            await stage.world.delete(obj)


async def left(stage: Play, before: set[str], dead: str) -> list[str]:
    """Return what is left: devices of proxies, and objects that are new or missing since *before*.

    If a node is *dead*, leave out Pods. If no node is dead, add all other mistakes in the world.
    """
    found = [each for each in everything(stage.world) ^ before if not (dead and each.startswith("Pod "))]
    devices = [*proxies(stage.world.control), *proxies(stage.control(NAME))]
    return [*found, *devices, *([] if dead else await wrong(stage, frozenset()))]


DEAD = st.sampled_from(["", *NODES])
"""A strategy for the name of the node that is dead while all objects are deleted; empty if no node is dead."""


@pytest.mark.timeout(600)
@settings(max_examples=3)
@given(st.lists(steps(), min_size=8, max_size=8), wishes(), DEAD)
def test_after_a_few_faults_the_world_is_as_the_user_wishes(taken: list[Step], wish: frozenset[str], dead: str) -> None:
    patient.run(play(taken, wish, dead))


@pytest.mark.thorough
@pytest.mark.timeout(3600)
@settings(max_examples=200 if settings.get_current_profile_name() == "soak" else 5)
@given(st.lists(steps(), min_size=30, max_size=30), wishes(), DEAD)
def test_after_many_faults_the_world_is_as_the_user_wishes(taken: list[Step], wish: frozenset[str], dead: str) -> None:
    patient.run(play(taken, wish, dead))
