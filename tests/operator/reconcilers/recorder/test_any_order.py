"""A Recorder that is scaled, harmed and deleted in any order, whatever is still under way, leaves nothing behind."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tsoperator.api.objects import POD, SECRET, Key, Resource
from tsoperator.kube.errors import NotFound

from tests.operator.reconcilers.recorder.test_reconciler import REC, S3_KEYS, left
from tests.support import patient
from tests.support.operator import NAMESPACE, World, new_world, running_operator

Event = Callable[[], Awaitable[object]]


@asynccontextmanager
async def ground() -> AsyncIterator[tuple[World, dict[str, Event]]]:
    """Yield a World with an operator and a Recorder, and a map of the events that can happen there, by name."""
    async with new_world() as world, AsyncExitStack() as running:

        def scale(replicas: int) -> Event:
            return lambda: world.change(REC, {"spec": {"replicas": replicas}})

        def lose(resource: Resource, name: str) -> Event:
            async def event() -> None:
                with suppress(NotFound):
                    await world.api.delete(resource, Key(NAMESPACE, name))

            return event

        async def lose_device() -> None:
            for device in [*world.control.devices.values()][:1]:
                world.control.delete_device(device)

        async def restart() -> None:
            await running.aclose()
            await running.enter_async_context(running_operator(world))

        await world.apply(S3_KEYS, {**REC, "spec": {**REC["spec"], "replicas": 0}})
        await running.enter_async_context(running_operator(world))
        yield (
            world,
            {
                **{str(count): scale(count) for count in range(4)},
                "Pod": lose(POD, "rec-0"),
                "auth": lose(SECRET, "rec-auth-0"),
                "device": lose_device,
                "restart": restart,
            },
        )


async def remains(events: Sequence[str]) -> list[str]:
    """Let *events* happen, delete the Recorder, and return its leftovers.

    After an event whose name has a star, the operator settles before the next event.
    """
    async with ground() as (world, happening):
        for name in events:
            await happening[name.rstrip("*")]()
            if name.endswith("*"):
                await world.settled()
        await world.delete(REC)
        await world.eventually(lambda: world.gone(REC))
        await world.settled()
        return await left(world)


ORDERS = {
    "at once": [],
    "while Pods come": ["3"],
    "while Pods go": ["3*", "1"],
    "after all": ["0*", "3*", "1*"],
    "with an operator that starts": ["3", "1", "restart"],
    "without a device": ["2*", "device", "1"],
    "without a key": ["2*", "auth", "1"],
}


NAMES = ["0", "1", "2", "3", "Pod", "auth", "device", "restart"]
"""The names of the events, without the loss of a state Secret: only this Secret says which device a replica has."""


@pytest.mark.thorough
@pytest.mark.timeout(1800)
@settings(max_examples=200 if settings.get_current_profile_name() == "soak" else 20)
@given(st.lists(st.sampled_from([*NAMES, *(f"{name}*" for name in NAMES)]), max_size=6))
def test_a_recorder_leaves_nothing_after_any_events(events: list[str]) -> None:
    assert patient.run(remains(events)) == []


@pytest.mark.parametrize("events", ORDERS.values(), ids=ORDERS)
def test_a_recorder_leaves_nothing_whenever_the_user_deletes_the_recorder(events: list[str]) -> None:
    assert patient.run(remains(events)) == []
