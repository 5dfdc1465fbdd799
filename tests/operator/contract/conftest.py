"""Fixtures: the Scene of a kind, and the portrait of a world in which nothing goes wrong."""

from collections.abc import Awaitable, Callable

import pytest

from tests.operator.contract.kind import KindExample
from tests.operator.contract.scene import Scene
from tests.support.operator import World, new_world, running_operator

_PORTRAITS: dict[str, str] = {}  # the portraits that `afresh` returns, by the name of the kind


@pytest.fixture
async def scene(world: World, kind: KindExample) -> Scene:
    """Return a Scene with a running operator and all objects that the object of *kind* needs.

    The object itself doesn't exist yet.
    """
    prepared = Scene(world, kind)
    await prepared.prepare()
    return prepared


@pytest.fixture
def afresh(kind: KindExample) -> Callable[[], Awaitable[str]]:
    """Return a function that returns the portrait of *kind*'s object in a new World, after all edits of the object."""

    async def portrait() -> str:
        if kind.name not in _PORTRAITS:
            async with new_world() as world, running_operator(world):
                undisturbed = Scene(world, kind)
                await undisturbed.prepare()
                await undisturbed.make()
                _PORTRAITS[kind.name] = await undisturbed.edit_all()
        return _PORTRAITS[kind.name]

    return portrait
