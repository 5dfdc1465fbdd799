"""Runs the watches, the leader election and the controllers, and enqueues the keys that changes concern."""

import asyncio
import gc
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from types import MappingProxyType
from typing import Final, Protocol

from tsoperator.api.objects import Key, Object, Resource, Signal
from tsoperator.kube.client import KubeClient
from tsoperator.kube.watch import WatchPace
from tsoperator.runtime.cache import Cache, Listener
from tsoperator.runtime.controller import Controller, ControllerMetrics, Policy
from tsoperator.runtime.gathering import Gatherer, Gathering
from tsoperator.runtime.leader import LeaderElector
from tsoperator.runtime.result import Result
from tsoperator.runtime.workqueue import WorkQueue

log = logging.getLogger(__name__)

RESYNC = 10 * 3600.0
"""Seconds after which all keys are enqueued again, in case something has changed that no watch announces."""

STANDBY_REST: Final = 1.0
LEADER_REST: Final = 0.02
"""Seconds for which the leader's watches rest after each read.

A change brings several events, many of them echoes of our writes, and to read them together costs less than to read
each one. The watches of a standby rest longer.
"""

SLICE: Final = 0.01
"""Seconds for which a task that enqueues all keys runs before it lets other tasks run."""

Mapper = Callable[[Object], Iterable[Key]]
"""A function that returns the keys to reconcile when an object changes.

It is called once with the old object, and once with the new one.
"""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A mapper that gets the old and the new object together, so that it can ignore a change that doesn't matter.

    An object that was not there, or is no longer there, is None. When all keys are enqueued, each object counts as
    new if *at_start* is true, otherwise as unchanged.
    """

    keys: Callable[[Object | None, Object | None], Iterable[Key]]
    at_start: bool = True

    def __call__(self, obj: Object) -> Iterable[Key]:
        """Return the keys to enqueue for *obj* when all keys are enqueued; none if *at_start* is false."""
        return self.keys(None, obj) if self.at_start else ()


Watches = Mapping[Resource | Signal, Mapper]
"""The resources and signals that a reconciler watches, each with the mapper that finds the keys of a change."""

Program = Callable[[], Coroutine[None, None, None]]
"""An async function that runs as long as this process leads."""


class Feed(Protocol):
    """Shows things that are no objects of the cluster as objects, and announces their changes, as the cache does."""

    def listen(self, signal: Signal, listener: Listener) -> None:
        """Call *listener* at every change of an object of *signal* from now on."""
        ...

    def all(self, signal: Signal) -> list[Object]:
        """Return all objects of *signal*."""
        ...


class Reconciler(Protocol):
    """Reconciles the objects of one kind."""

    name: str

    @property
    def watches(self) -> Watches:
        """The resources and signals that the reconciler watches."""
        ...

    @property
    def gathering(self) -> Gathering:
        """The time for which the changes that concern a key are gathered into one reconcile."""
        ...

    async def reconcile(self, key: Key) -> Result:
        """Make the cluster match the object named *key*."""
        ...


@dataclass(frozen=True, slots=True)
class ResyncTimes:
    """The times of a resync, which enqueues all keys again.

    A resync begins every *resync* seconds. It runs for *time_slice* seconds at a time, and then lets other tasks run.
    """

    resync: float = RESYNC
    time_slice: float = SLICE


@dataclass(frozen=True, slots=True)
class _Watch:
    """A resource or a signal that a reconciler watches.

    *all* returns all objects of the resource or signal. *mapper* returns the keys for the *queue* of the reconciler.
    The *gatherer* says how long a change waits before its keys are enqueued.
    """

    all: Callable[[], Iterable[Object]]
    mapper: Mapper
    queue: WorkQueue
    gatherer: Gatherer

    def changed(self, old: Object | None, new: Object | None) -> None:
        """Enqueue the keys that the change from *old* to *new* concerns."""
        if isinstance(self.mapper, Comparison):
            keys = self.mapper.keys(old, new)
        else:
            keys = [*(self.mapper(old) if old else ()), *(self.mapper(new) if new else ())]
        if keys:  # most changes concern no key of most reconcilers
            self.enqueue(keys)

    def enqueue(self, keys: Iterable[Key]) -> None:
        """Enqueue *keys*, each of them once."""
        for key in dict.fromkeys(keys):
            self.queue.add_after(key, self.gatherer.delay(key))


class Manager:
    """Enqueues the keys that changes concern, and runs the reconcilers, while this process leads.

    A standby keeps the cache up to date, but its queues stay empty and no mapper is called. A process that begins
    to lead enqueues all keys.
    """

    def __init__(
        self,
        cache: Cache,
        reconcilers: Sequence[Reconciler],
        metrics: ControllerMetrics,
        policy: Policy | None = None,
        feeds: Mapping[Signal, Feed] = MappingProxyType({}),
        times: ResyncTimes | None = None,
    ) -> None:
        """Listen to *cache* for changes of the objects that are watched, and to *feeds* for those of signals.

        Raises ValueError if two *reconcilers* have the same name.
        """
        self._cache = cache
        self._reconcilers = reconcilers
        self._metrics = metrics
        self._policy = policy
        self._times = times or ResyncTimes()
        self._queues: dict[str, WorkQueue] = {}
        self._watches: list[_Watch] = []
        self._controllers: list[Controller] = []
        self._leads = asyncio.Event()
        self._stands_by = False
        watching: defaultdict[Resource | Signal, list[_Watch]] = defaultdict(list)
        for reconciler in reconcilers:
            if reconciler.name in self._queues:
                raise ValueError(f"two reconcilers are called {reconciler.name!r}: give one of them another name")
            queue = WorkQueue(observe_wait=metrics.wait_observer(reconciler.name))
            self._queues[reconciler.name] = queue
            metrics.follow(reconciler.name, queue)
            gatherer = Gatherer(reconciler.gathering)
            for kind, mapper in reconciler.watches.items():
                everything = partial(feeds[kind].all, kind) if isinstance(kind, Signal) else partial(cache.all, kind)
                watching[kind].append(_Watch(everything, mapper, queue, gatherer))
                self._watches.append(watching[kind][-1])
        for kind, watches in watching.items():
            changed = partial(self._changed, watches)
            if isinstance(kind, Signal):
                feeds[kind].listen(kind, changed)
            else:
                cache.listen(kind, changed)

    def retry_refused(self) -> None:
        """Reconcile at once each key whose latest error a retry can't fix: perhaps somebody has fixed the cause."""
        for each in self._controllers:
            each.retry_refused()

    async def run(
        self,
        client: KubeClient,
        elector: LeaderElector | None,
        before: Callable[[], Awaitable[None]] | None = None,
        beside: Sequence[Program] = (),
    ) -> None:
        """Run until cancelled. Raises an exception group with LeadershipLost if this process loses the Lease.

        When the cache is synced and *before* has ended, this process tries to become the leader by *elector*. Without
        an *elector*, it leads without an election. While it leads, the programs *beside* and the reconcilers run.
        """
        lead = partial(self._lead, beside)
        if elector is not None:
            await elector.look()  # before the lists, which take long in a large cluster
        async with asyncio.TaskGroup() as tasks:
            following = tasks.create_task(self._cache.follow(client, WatchPace(rest=self._rest)), name="watches")
            try:
                await self._cache.synced()  # a process that can't see the cluster leaves the Lease to another
                gc.freeze()  # the objects have no cycles, and a search for some in 10,000 objects would take a second
                if before is not None:
                    await before()
                if elector is None:
                    log.info("leading: without a Lease, so no other process may")
                    await lead()
                else:
                    self._stands_by = True
                    await elector.lead(lead)
            finally:
                following.cancel()

    async def _rest(self) -> None:
        """Wait for the pause that a watch of the cache makes after each read.

        There is no pause while this process neither leads nor stands by. The pause of a standby ends early when this
        process begins to lead.
        """
        if self._leads.is_set():
            await asyncio.sleep(LEADER_REST)
        elif self._stands_by:
            with suppress(TimeoutError):
                async with asyncio.timeout(STANDBY_REST):
                    await self._leads.wait()

    def _changed(self, watches: Iterable[_Watch], old: Object | None, new: Object | None) -> None:
        """Enqueue for each of *watches* the keys that the old and the new object concern, if this process leads."""
        if self._leads.is_set():
            for watch in watches:
                watch.changed(old, new)

    async def _lead(self, beside: Sequence[Program]) -> None:
        log.debug("reconciling: %s", ", ".join(reconciler.name for reconciler in self._reconcilers))
        self._leads.set()  # before everything is enqueued, so that no change in between is lost
        try:
            with self._metrics.leading.track_inprogress():
                # Enqueue everything first. A records reconciler that began earlier would write too few names.
                await self._enqueue_all()
                await self._work(beside)
        finally:
            self._leads.clear()
            self._controllers = []
            for queue in self._queues.values():
                queue.clear()

    async def _work(self, beside: Sequence[Program]) -> None:
        controllers = {
            each.name: Controller(each.name, each.reconcile, self._queues[each.name], self._metrics, self._policy)
            for each in self._reconcilers
        }
        self._controllers = [*controllers.values()]
        async with asyncio.TaskGroup() as tasks:
            for program in beside:
                tasks.create_task(program())
            tasks.create_task(self._resync(), name="resync")
            for name, controller in controllers.items():
                tasks.create_task(controller.run(), name=name)

    async def _resync(self) -> None:
        while True:
            await asyncio.sleep(self._times.resync)
            await self._enqueue_all()

    async def _enqueue_all(self) -> None:
        """Enqueue the keys that each object concerns, in slices between which other tasks get their turn."""
        start = perf_counter()
        for watch in self._watches:
            for obj in watch.all():
                watch.enqueue(watch.mapper(obj))
                if perf_counter() - start >= self._times.time_slice:
                    await asyncio.sleep(0)
                    start = perf_counter()
