"""The keys that wait for a worker: each once, never with two workers, at once or later."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass

from tsoperator.api.objects import Key


def nine_to_ten_tenths() -> float:
    """Return a random factor that keeps keys which failed together from coming back together."""
    return random.uniform(0.9, 1.0)  # noqa: S311 (spreads load, guards nothing)


@dataclass(frozen=True, slots=True)
class Backoff:
    """Says how many seconds to wait after failures in a row: *first*, doubled up to *cap*, times *jitter* (up to 1)."""

    first: float = 0.005
    cap: float = 60.0
    jitter: Callable[[], float] = nine_to_ten_tenths

    def delay(self, failures: int) -> float:
        """Return the seconds to wait after *failures* earlier failures."""
        doublings = min(failures, 64)  # far past any cap, and before a float overflows
        return min(self.first * 2.0**doublings, self.cap) * self.jitter()


def _observe_nothing(_seconds: float) -> None:
    """Stand in where nobody measures."""


class WorkQueue:
    """Hands keys to workers, on one event loop and by its clock.

    A key waits once however often it is added, is never with two workers, and comes again after `done` if it was added
    while it was worked on.

    Timed adds are as in client-go. Of two for one key the earlier wins, and it stands until it is due: a plain add in
    between hands the key out as well and does not use it up, so that asking to be called later is never undone by an
    unrelated change. A key that waits already when its time comes still waits only once.
    """

    def __init__(
        self, backoff: Backoff | None = None, observe_wait: Callable[[float], None] = _observe_nothing
    ) -> None:
        self._backoff = backoff or Backoff()
        self._observe_wait = observe_wait
        self._ready: asyncio.Queue[Key] = asyncio.Queue()
        self._since: dict[Key, float] = {}  # every key that is owed to a worker, and when it was added
        self._working: set[Key] = set()
        self._timers: dict[Key, asyncio.TimerHandle] = {}
        self._failures: dict[Key, int] = {}
        self._adds = 0

    def __len__(self) -> int:
        """Return how many keys wait, without those whose time has not come."""
        return len(self._since)

    @property
    def working(self) -> int:
        """How many keys are with a worker."""
        return len(self._working)

    @property
    def adds(self) -> int:
        """How many adds have made a key wait since the start."""
        return self._adds

    def add(self, key: Key) -> None:
        """Let *key* be handed out, unless it waits already."""
        if key in self._since:
            return
        self._since[key] = asyncio.get_running_loop().time()
        self._adds += 1
        if key not in self._working:
            self._ready.put_nowait(key)

    def add_after(self, key: Key, seconds: float) -> None:
        """Add *key* when *seconds* have passed, or at the earlier time that it was given before."""
        if seconds <= 0:
            self.add(key)
            return
        loop = asyncio.get_running_loop()
        due = loop.time() + seconds
        timer = self._timers.get(key)
        if timer is not None:
            if timer.when() <= due:
                return
            timer.cancel()
        self._timers[key] = loop.call_at(due, self._add_due, key)

    def _add_due(self, key: Key) -> None:
        del self._timers[key]
        self.add(key)

    def retry(self, key: Key, backoff: Backoff | None = None) -> None:
        """Count a failure of *key*, and add it again when its back-off, or the *backoff* given, has passed."""
        failures = self.failures(key)
        self._failures[key] = failures + 1
        self.add_after(key, (backoff or self._backoff).delay(failures))

    def forget(self, key: Key) -> None:
        """Take *key* as sound: its next failure is its first."""
        self._failures.pop(key, None)

    def failures(self, key: Key) -> int:
        """Return how often *key* has failed in a row."""
        return self._failures.get(key, 0)

    async def get(self) -> Key:
        """Return the key that waits longest, when there is one; the caller owes a `done` for it."""
        key = await self._ready.get()
        self._working.add(key)
        self._observe_wait(asyncio.get_running_loop().time() - self._since.pop(key))
        return key

    def done(self, key: Key) -> None:
        """Take *key* back from its worker."""
        self._working.remove(key)
        if key in self._since:
            self._ready.put_nowait(key)
