"""A writer that keeps restoring its own version of an object, as Argo CD, Flux or an add-on manager does."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from tsoperator.api.objects import Object

from tests.support.cluster import running
from tests.support.operator import World


@dataclass
class Rival:
    """A writer that patches *obj* with *patch* whenever *differs* is true of *obj*, and counts its *writes*.

    It waits *delay* seconds before each patch.
    """

    obj: Object
    patch: Object
    differs: Callable[[Object], bool]
    delay: float = 0.0
    writes: int = 0

    @asynccontextmanager
    async def at_work(self, world: World) -> AsyncIterator["Rival"]:
        """Watch the object and revert changes of it until the end of the block."""

        async def set_back() -> None:
            with world.store.subscribe() as changes:
                while True:
                    if self.differs(await world.look(self.obj)):
                        await asyncio.sleep(self.delay)
                        await world.change(self.obj, self.patch)
                        self.writes += 1
                    await changes.batch()

        async with running(set_back()):
            yield self
