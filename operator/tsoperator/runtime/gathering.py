"""The time for which changes that concern one key are gathered, so that a burst needs few reconciles."""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Final

from tsoperator.api.objects import Key
from tsoperator.runtime.clock import loop_time


@dataclass(frozen=True, slots=True)
class Gathering:
    """The number of seconds for which changes are gathered into one reconcile.

    It is *first* for a change that comes after a while without changes. In a burst, each time is twice as long as
    the one before, up to *longest*.
    """

    first: float
    longest: float = 0.0


AT_ONCE: Final = Gathering(0.0)
"""The value for a reconciler that gathers no changes: each change enqueues its keys at once."""


class Gatherer:
    """Decides how long to gather the changes that concern a key before the key is enqueued."""

    def __init__(self, times: Gathering, clock: Callable[[], float] = loop_time) -> None:
        self._times = times
        self._clock = clock
        self._windows: dict[Key, tuple[float, float]] = {}  # the end and the length of each key's latest window

    def delay(self, key: Key) -> float:
        """Return the seconds after which to enqueue *key*, which a change concerns at this moment."""
        first, longest = self._times.first, self._times.longest
        if longest <= first:
            return first
        now = self._clock()
        end, length = self._windows.get(key, (-inf, 0.0))
        if now < end:
            return end - now
        goes_on = now - end <= first
        self._windows = {other: window for other, window in self._windows.items() if now - window[0] <= first}
        length = min(2 * length, longest) if goes_on else first
        self._windows[key] = now + length, length
        return length
