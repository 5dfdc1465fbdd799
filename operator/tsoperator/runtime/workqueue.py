"""The queue of keys that a controller has to reconcile, now or later."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from tsoperator.api.objects import Key


def nine_to_ten_tenths() -> float:
    """Return a random factor from 0.9 to 1.0, so that keys that failed together are retried at different times."""
    return random.uniform(0.9, 1.0)  # noqa: S311 (spreads load, guards nothing)


@dataclass(frozen=True, slots=True)
class Backoff:
    """The pause after a failure: *first* seconds, doubled after each further one up to *cap*, times *jitter*.

    *jitter* returns a factor of at most 1.
    """

    first: float = 0.005
    cap: float = 60.0
    jitter: Callable[[], float] = nine_to_ten_tenths

    def delay(self, failures: int) -> float:
        """Return the seconds to wait after a failure; *failures* is the number of failures in a row before it."""
        doublings = min(failures, 64)  # more would overflow a float, and 64 exceed any cap
        return min(self.first * 2.0**doublings, self.cap) * self.jitter()


_SHORTEST_REQUEUE = 0.001  # s: a timer can fire that much too early, and so can one for the rest of the wait


def _observe_nothing(_seconds: float) -> None:
    """Ignore a waiting time: the default of a queue that nobody measures."""


class _Timer(NamedTuple):
    """The time at which a key is added, by the loop's clock, and the handle that adds it.

    A handle of uvloop doesn't always know that time, so this object has it beside the handle.
    """

    due: float
    handle: asyncio.Handle


class WorkQueue:
    """Hands keys to workers, on one event loop and by its clock.

    A key waits once, however often it is added. No two workers have it at the same time. If it is added while a worker
    has it, it is handed out again after `done`.

    A key can have two timers that add it later. They are independent of each other and of plain adds:

    - `add_after` announces a change. Of two times, the earlier one is used, and no reconcile cancels it.
    - `requeue` and `retry` set the time for the next reconcile when one has ended. The next `requeue` replaces it.
    """

    def __init__(
        self, backoff: Backoff | None = None, observe_wait: Callable[[float], None] = _observe_nothing
    ) -> None:
        """*observe_wait* is called with the seconds that each key has waited when a worker gets it."""
        self._backoff = backoff or Backoff()
        self._observe_wait = observe_wait
        self._ready: asyncio.Queue[Key] = asyncio.Queue()
        self._since: dict[Key, float] = {}  # when each key that waits was added, also while a worker has it
        self._working: set[Key] = set()
        self._announced: dict[Key, _Timer] = {}  # the timers of `add_after`
        self._requeued: dict[Key, _Timer] = {}  # the timers of `requeue` and `retry`
        self._failures: dict[Key, int] = {}
        self._adds = 0

    def __len__(self) -> int:
        """Return how many keys wait, without those that a timer will add."""
        return len(self._since)

    @property
    def working(self) -> int:
        """The number of keys that are with a worker."""
        return len(self._working)

    @property
    def adds(self) -> int:
        """The number of adds since the start that made a key wait."""
        return self._adds

    def add(self, key: Key) -> None:
        """Put *key* into the queue for a worker, unless it waits there already."""
        if key in self._since:
            return
        self._since[key] = asyncio.get_running_loop().time()
        self._adds += 1
        if key not in self._working:
            self._ready.put_nowait(key)

    def add_after(self, key: Key, seconds: float) -> None:
        """Add *key* after *seconds*, or sooner if an earlier call of `add_after` has set a sooner time."""
        self._schedule(self._announced, key, seconds)

    def requeue(self, key: Key, seconds: float | None) -> None:
        """Add *key* when *seconds* have passed. This replaces an earlier `requeue` or `retry`.

        The key waits for at least a millisecond, unless *seconds* are 0. With None, *key* isn't added, and an earlier
        `requeue` or `retry` is only cancelled.

        The caller has just reconciled *key* with success. A retry can be cancelled, because this reconcile began after
        the failed one and looked at everything anew. A change that was announced while the reconcile ran isn't
        cancelled, because its timer is that of `add_after`, or it was added without a timer.
        """
        if timer := self._requeued.pop(key, None):
            timer.handle.cancel()
        if seconds is not None:
            self._schedule(self._requeued, key, max(seconds, _SHORTEST_REQUEUE) if seconds > 0 else 0.0)

    def retry(self, key: Key, backoff: Backoff | None = None, at_least: float = 0.0) -> None:
        """Count a failure of *key*, and add it again after *backoff*, or after the back-off of the queue.

        The key waits for at least *at_least* seconds, unless an earlier `requeue` or `retry` has set a sooner time.
        """
        failures = self.failures(key)
        self._failures[key] = failures + 1
        self._schedule(self._requeued, key, max((backoff or self._backoff).delay(failures), at_least))

    def forget(self, key: Key) -> None:
        """Forget the failures of *key*, so that its back-off starts anew."""
        self._failures.pop(key, None)

    def failures(self, key: Key) -> int:
        """Return how often *key* has failed in a row."""
        return self._failures.get(key, 0)

    async def get(self) -> Key:
        """Return the key that has waited longest, as soon as there is one. The caller must call `done` for it."""
        key = await self._ready.get()
        self._working.add(key)
        self._observe_wait(asyncio.get_running_loop().time() - self._since.pop(key))
        return key

    def done(self, key: Key) -> None:
        """Take *key* back from its worker. If the key was added meanwhile, another worker can get it now."""
        self._working.remove(key)
        if key in self._since:
            self._ready.put_nowait(key)

    def clear(self) -> None:
        """Drop every key that waits, every timer and every failure. Keys that workers have stay with them."""
        for timer in (*self._announced.values(), *self._requeued.values()):
            timer.handle.cancel()
        for remembered in (self._announced, self._requeued, self._since, self._failures):
            remembered.clear()
        while not self._ready.empty():
            self._ready.get_nowait()

    def _schedule(self, timers: dict[Key, _Timer], key: Key, seconds: float) -> None:
        """Add *key* when *seconds* have passed, or at the time that it has in *timers* if that is earlier."""
        if seconds <= 0:
            self.add(key)
            return
        loop = asyncio.get_running_loop()
        due = loop.time() + seconds
        if timer := timers.get(key):
            if timer.due <= due:
                return
            timer.handle.cancel()
        timers[key] = _Timer(due, loop.call_at(due, self._add_due, timers, key))

    def _add_due(self, timers: dict[Key, _Timer], key: Key) -> None:
        del timers[key]
        self.add(key)
