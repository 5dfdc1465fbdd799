"""Runs it all: watches into the cache, leadership, controllers; one TaskGroup."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Protocol

from tsoperator.api.objects import Key, Object, Resource, resource_of
from tsoperator.kube.client import KubeClient
from tsoperator.runtime.cache import Cache, Listener
from tsoperator.runtime.controller import Controller, ControllerMetrics, Policy
from tsoperator.runtime.leader import LeaderElector
from tsoperator.runtime.result import Result
from tsoperator.runtime.workqueue import WorkQueue

log = logging.getLogger(__name__)

RESYNC = 10 * 3600.0
"""Seconds after which every object is looked at again, for what no watch tells."""

Mapper = Callable[[Object], Iterable[Key]]
"""Returns the keys to reconcile when an object changes."""


class Reconciler(Protocol):
    """One kind's reconciler. *watches* says which changes concern which of its keys."""

    name: str

    @property
    def watches(self) -> Mapping[Resource, Mapper]:
        """The kinds to watch, and whom a change of theirs concerns."""
        ...

    async def reconcile(self, key: Key) -> Result:
        """Make the cluster match the object named *key*."""
        ...


class Manager:
    """Feeds the reconcilers from the cache, and runs them while this process leads."""

    def __init__(
        self,
        cache: Cache,
        reconcilers: Sequence[Reconciler],
        metrics: ControllerMetrics,
        policy: Policy | None = None,
        coalesce: Mapping[str, float] | None = None,
        beside: Sequence[Callable[[], Coroutine[None, None, None]]] = (),
    ) -> None:
        """*coalesce* gives, by reconciler, the seconds for which changes are gathered into one reconcile; *beside* are
        what else runs while this process leads.
        """
        self._cache = cache
        self._reconcilers = reconcilers
        self._metrics = metrics
        self._beside = beside
        self._controllers = []
        self._queues: dict[str, WorkQueue] = {}
        for reconciler in reconcilers:
            queue = WorkQueue(observe_wait=metrics.wait_observer(reconciler.name))
            self._queues[reconciler.name] = queue
            self._controllers.append(Controller(reconciler.name, reconciler.reconcile, queue, metrics, policy))
            delay = (coalesce or {}).get(reconciler.name, 0.0)
            for resource, mapper in reconciler.watches.items():
                cache.listen(resource, _feed(queue, mapper, delay))

    async def run(
        self, client: KubeClient, elector: LeaderElector | None, before: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        """Run until cancelled. Without an *elector* this process leads from the start, or once *before* has ended.

        A standby follows the cluster too: its queues fill with all that there is to look at once it leads.
        Raises a group with LeadershipLost.
        """
        async with asyncio.TaskGroup() as tasks:
            following = tasks.create_task(self._cache.follow(client), name="watches")
            try:
                await self._cache.synced()  # before leading: who can't see the cluster leaves it to another
                if before is not None:
                    await before()
                if elector is None:
                    await self._reconcile()
                else:
                    await elector.lead(self._reconcile)
            finally:
                following.cancel()

    def look_again(self, obj: Object) -> None:
        """Let the reconcilers look at what a change of *obj* would concern."""
        for reconciler in self._reconcilers:
            if mapper := reconciler.watches.get(resource_of(obj)):
                for key in mapper(obj):
                    self._queues[reconciler.name].add(key)

    async def _reconcile(self) -> None:
        log.info("leading: %s", ", ".join(reconciler.name for reconciler in self._reconcilers))
        with self._metrics.leading.track_inprogress():
            await self._work()

    async def _work(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._resync(), name="resync")
            for controller in self._controllers:
                tasks.create_task(controller.run())
            for work in self._beside:
                tasks.create_task(work())

    async def _resync(self) -> None:
        while True:
            await asyncio.sleep(RESYNC)
            for reconciler in self._reconcilers:
                for resource, mapper in reconciler.watches.items():
                    for obj in self._cache.all(resource):
                        for key in mapper(obj):
                            self._queues[reconciler.name].add(key)


def _feed(queue: WorkQueue, mapper: Mapper, delay: float) -> Listener:
    """Return a listener that queues whom the old and the new object concern."""

    def listener(old: Object | None, new: Object | None) -> None:
        for obj in (old, new):
            for key in mapper(obj) if obj is not None else ():
                if delay:
                    queue.add_after(key, delay)
                else:
                    queue.add(key)

    return listener
