"""The time for which changes that concern one key are gathered, so that a burst needs only a few reconciles."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from tsoperator.api.objects import Key


@dataclass(frozen=True, slots=True)
class Gathering:
    """For how many seconds changes are gathered into one reconcile.

    That is *first* for a change that comes after a while without any. In a burst it is twice as long each time, up to
    *longest*.
    """

    first: float
    longest: float = 0.0


class Gatherer:
    """Tells when a key is due whose changes are gathered."""

    def __init__(self, times: Gathering, clock: Callable[[], float] = time.monotonic) -> None:
        self._times = times
        self._clock = clock
        self._windows: dict[Key, tuple[float, float]] = {}  # the end and the length of the latest one of each key

    def delay(self, key: Key) -> float:
        """Return in how many seconds *key*, which a change concerns now, is due."""
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
