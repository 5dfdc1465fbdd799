"""With objects of all kinds, an idle operator writes nothing, even at a resync and after a restart."""

import asyncio

import pytest
from clustersim.sim import SimOptions
from tsoperator.api.objects import DNSCONFIG, resource_of
from tsoperator.proxy.certificate import PATIENCE
from tsoperator.runtime.manager import RESYNC

from tests.operator.contract.kinds import KINDS, marks
from tests.operator.contract.scene import Scene
from tests.support import patient
from tests.support.operator import World, new_world, running_operator


async def populate(world: World) -> list[Scene]:
    """Make an object of each kind, wait until the operator has settled, and return a Scene for each object."""
    needed = {str(obj): obj for kind in KINDS for obj in kind.beside if resource_of(obj) != DNSCONFIG}
    scenes = [Scene(world, kind) for kind in KINDS if world.simulation or not marks(kind)]
    await scenes[0].apply(*needed.values(), *(scene.obj for scene in scenes))
    for scene in scenes:
        await world.eventually(scene.is_ready)
    await world.settled()
    return scenes


@pytest.mark.full
async def test_an_operator_that_starts_again_writes_nothing(cluster: World) -> None:
    async with running_operator(cluster):
        await populate(cluster)
    # On a slow API server, an operator can end before its work is done, so that the next operator does the rest.
    for _ in range(1 if cluster.simulation else 3):
        written = await cluster.writes_during(cluster.restart())
        if not written:
            break
    assert not written


@pytest.mark.simulated
@pytest.mark.timeout(600)  # 11 hours of virtual time have many steps, which take longer on a busy machine
def test_an_idle_operator_writes_nothing_even_at_a_resync_and_notices_the_next_change() -> None:
    patient.run(idle_for(RESYNC + 3600))


async def idle_for(seconds: float) -> None:
    """Change nothing for that many *seconds*. Fail if the operator writes meanwhile, or misses a later change."""
    async with new_world(SimOptions(bookmark_interval=2 * RESYNC)) as world, running_operator(world):
        scenes = await populate(world)
        rest_kubelets()
        first = await world.writes_during(asyncio.sleep(PATIENCE))  # an Event says that an Ingress lacks a certificate
        assert first == {("tsoperator", "create", "events"): 1}
        assert not await world.writes_during(asyncio.sleep(seconds))
        for scene in scenes:
            for edit in scene.kind.edits.values():
                await scene.change(scene.obj, edit.patch)
                await scene.becomes_visible(edit)


def rest_kubelets() -> None:
    """Stop the tasks in which simulated kubelets look at the tailnet ten times a second."""
    for task in asyncio.all_tasks():
        if getattr(task.get_coro(), "__name__", "") == "follow_tailnet":
            task.cancel()
