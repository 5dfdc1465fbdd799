"""The pace of a run: the due times of queries (open loop), or the number of outstanding queries (closed loop)."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Protocol

import numpy as np

SECOND = 1_000_000_000
"""The number of nanoseconds in a second."""
_AHEAD = 4096
"""The number of due times that are computed in one step."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of time in which the rate changes evenly from *first* to *last* queries a second."""

    seconds: float
    first: float
    last: float

    @property
    def queries(self) -> float:
        """The number of queries that are due in the segment."""
        return self.seconds * (self.first + self.last) / 2


class Schedule:
    """The due times of all queries of an open loop, in nanoseconds from its start."""

    def __init__(self, segments: Sequence[Segment]) -> None:
        self.segments = tuple(segments)
        self._starts = list(accumulate((segment.seconds for segment in segments), initial=0.0))
        self._counts = list(accumulate((segment.queries for segment in segments), initial=0.0))
        self.total = round(self._counts[-1])
        self.seconds = self._starts[-1]

    def rate(self, seconds: float) -> float:
        """Return the rate *seconds* after the start, or 0 after the end."""
        if not 0 <= seconds < self.seconds:
            return 0.0
        number = self.segment_at(seconds)
        segment = self.segments[number]
        return segment.first + (segment.last - segment.first) * (seconds - self._starts[number]) / segment.seconds

    def segment_at(self, seconds: float) -> int:
        """Return the number of the segment at *seconds* after the start; after the end, that of the last segment."""
        return min(bisect_right(self._starts, seconds) - 1, len(self.segments) - 1)

    def due_times(self, first: int, count: int) -> list[int]:
        """Return the due times of *count* queries from number *first* on, or of fewer at the end of the schedule."""
        numbers = np.arange(first, min(first + count, self.total), dtype=np.float64)
        which = np.clip(np.searchsorted(self._counts, numbers, side="right") - 1, 0, len(self.segments) - 1)
        seconds = np.empty_like(numbers)
        for number in np.unique(which):
            chosen = which == number
            seconds[chosen] = self._starts[number] + _within(
                self.segments[number], numbers[chosen] - self._counts[number]
            )
        due: list[int] = np.rint(seconds * SECOND).astype(np.int64).tolist()
        return due


def _within(segment: Segment, numbers: "np.ndarray[tuple[int], np.dtype[np.float64]]") -> np.ndarray:
    """Return the time from the start of *segment* at which each of the queries with these *numbers* is due, in seconds.

    This is the inverse of the integral of the rate.
    """
    slope = (segment.last - segment.first) / segment.seconds
    root = np.sqrt(np.maximum(segment.first**2 + 2 * slope * numbers, 0))
    result: np.ndarray = 2 * numbers / np.maximum(segment.first + root, 1e-12)
    return result


class Pacing(Protocol):
    """Tells an engine the number of queries to send now, and the due time of the next query.

    All times are of the monotonic clock.
    """

    ends: int
    """The end of the run: no query is due later, and none is sent much later."""

    def due(self, now: int, outstanding: int, limit: int) -> Sequence[int]:
        """Return the due times of the queries to send now, at most *limit*."""

    def next_due(self) -> int | None:
        """Return the due time of the next query, or None.

        None means that no query is left, or that the next one has to wait for an answer.
        """

    def unsent(self, now: int) -> int:
        """Return the number of queries that were due by *now* but that `due` hasn't returned."""


class OpenLoop:
    """Sends queries at their due times, even if the answers are slow or missing."""

    def __init__(self, schedule: Schedule, start: int) -> None:
        self._schedule = schedule
        self._start = start
        self._next = 0
        self._ahead: list[int] = []
        self._used = 0
        self.ends = start + round(schedule.seconds * SECOND)
        self._look_ahead()

    def due(self, now: int, outstanding: int, limit: int) -> Sequence[int]:
        """Return the due times of the queries to send now, at most *limit*."""
        end = bisect_right(self._ahead, now, self._used, min(self._used + limit, len(self._ahead)))
        times = self._ahead[self._used : end]
        self._used = end
        if end == len(self._ahead):
            self._look_ahead()
        return times

    def next_due(self) -> int | None:
        """Return the due time of the next query, or None at the end of the schedule."""
        return self._ahead[self._used] if self._used < len(self._ahead) else None

    def unsent(self, now: int) -> int:
        """Return the number of queries that were due by *now* but that `due` hasn't returned."""
        handed_out = self._next - len(self._ahead) + self._used
        return self._due_before(now) - handed_out

    def _due_before(self, now: int) -> int:
        """Return the number of queries in the schedule that are due by *now*."""
        low, high = 0, self._schedule.total
        while low < high:
            middle = (low + high) // 2
            if self._start + self._schedule.due_times(middle, 1)[0] <= now:
                low = middle + 1
            else:
                high = middle
        return low

    def _look_ahead(self) -> None:
        self._ahead = [self._start + due for due in self._schedule.due_times(self._next, _AHEAD)]
        self._next += len(self._ahead)
        self._used = 0


class ClosedLoop:
    """Keeps a fixed number of queries outstanding. It sends the next query when another query is answered or lost."""

    def __init__(self, concurrency: int, seconds: float, start: int, queries: int | None = None) -> None:
        """Keep *concurrency* queries outstanding for *seconds* from *start*, a time of the monotonic clock.

        If *queries* isn't None, end earlier when so many queries have been sent.
        """
        self._concurrency = concurrency
        self._left = queries
        self.ends = start + round(seconds * SECOND)

    def due(self, now: int, outstanding: int, limit: int) -> Sequence[int]:
        """Return a list that has *now* once for each query that can be sent, at most *limit* times."""
        if now >= self.ends:
            return []
        count = min(limit, self._concurrency - outstanding)
        if self._left is not None:
            count = min(count, self._left)
            self._left -= count
            if not self._left:
                self.ends = now
        return [now] * count

    def next_due(self) -> int | None:
        """Return None, because the next query has to wait for an answer."""
        return None

    def unsent(self, now: int) -> int:
        """Return 0, because no query is due at a fixed time."""
        return 0
