"""A histogram of durations, whose memory doesn't grow with the number of durations.

The buckets are log-linear, as in HdrHistogram: below 512 ns, each value has its own bucket. Above, each doubling has
256 buckets, so that a percentile is within 0.2 % of a recorded value. The compiled client (cclient/report.c) has the
same buckets.
"""

from collections.abc import Iterable, Sequence
from math import ceil

import numpy as np
import numpy.typing as npt

_LINEAR_BITS = 9
_HALF = 1 << (_LINEAR_BITS - 1)
_MAX_BITS = 40
_LARGEST = (1 << _MAX_BITS) - 1
"""The longest duration in nanoseconds, about 18 minutes. A longer duration is counted as this one."""
_BUCKETS = (_MAX_BITS - _LINEAR_BITS + 2) * _HALF

Durations = Sequence[int] | npt.NDArray[np.int64]


class Histogram:
    """Counts of durations in nanoseconds."""

    __slots__ = ("_counts", "_sum", "count", "largest")

    def __init__(self) -> None:
        self._counts = np.zeros(_BUCKETS, np.int64)
        self._sum = 0
        self.count = 0
        self.largest = 0

    def record(self, durations: Durations) -> None:
        """Count *durations*. A negative one counts as 0."""
        if not len(durations):
            return
        values = np.clip(np.asarray(durations, np.int64), 0, _LARGEST)
        _, bits = np.frexp(values.astype(np.float64))
        shift = np.maximum(bits.astype(np.int64) - _LINEAR_BITS, 0)
        np.add.at(self._counts, shift * _HALF + (values >> shift), 1)
        self.count += len(values)
        self._sum += int(values.sum())
        self.largest = max(self.largest, int(values.max()))

    def with_more(self, duration: int, count: int) -> "Histogram":
        """Return a copy in which *duration* is counted *count* times more."""
        one = Histogram()
        one.record([duration])
        more = Histogram()
        more._counts = self._counts + count * one._counts
        more._sum = self._sum + count * one._sum
        more.count = self.count + count
        more.largest = max(self.largest, one.largest) if count else self.largest
        return more

    def record_buckets(self, buckets: Iterable[tuple[int, int]]) -> None:
        """Count durations whose buckets are known; each pair is the number of a bucket and a count of durations."""
        for bucket, count in buckets:
            middle = _middle(bucket)
            self._counts[bucket] += count
            self.count += count
            self._sum += round(count * middle)
            self.largest = max(self.largest, ceil(middle))

    def add(self, other: "Histogram") -> None:
        """Add the counts of *other*."""
        self._counts += other._counts
        self._sum += other._sum
        self.count += other.count
        self.largest = max(self.largest, other.largest)

    @property
    def mean(self) -> float:
        """The mean in nanoseconds, or 0 if nothing was recorded."""
        return self._sum / self.count if self.count else 0.0

    @property
    def smallest(self) -> float:
        """The shortest duration in nanoseconds, to the width of its bucket, or 0 if nothing was recorded."""
        return min(_middle(int(np.argmax(self._counts > 0))), float(self.largest)) if self.count else 0.0

    @property
    def deviation(self) -> float:
        """The standard deviation in nanoseconds, computed from the buckets' middles, or 0 if nothing was recorded."""
        if not self.count:
            return 0.0
        used = np.flatnonzero(self._counts)
        middles = np.array([_middle(int(bucket)) for bucket in used])
        mean = float(np.average(middles, weights=self._counts[used]))
        return float(np.sqrt(np.average((middles - mean) ** 2, weights=self._counts[used])))

    def percentiles(self, percents: Sequence[float]) -> list[float]:
        """Return the percentile for each of *percents*: so many percent of the durations are at most as long.

        Percentiles are in nanoseconds. If nothing was recorded, they are 0.
        """
        if not self.count:
            return [0.0] * len(percents)
        cumulative = np.cumsum(self._counts)
        ranks = np.maximum(np.ceil(np.asarray(percents) / 100 * self.count - 1e-9), 1)
        buckets = np.searchsorted(cumulative, ranks)
        return [min(_middle(int(bucket)), float(self.largest)) for bucket in buckets]


def _middle(bucket: int) -> float:
    """Return the middle of the values that *bucket* counts."""
    shift = max(bucket // _HALF - 1, 0)
    lowest = (bucket - shift * _HALF) << shift
    return lowest + ((1 << shift) - 1) / 2
