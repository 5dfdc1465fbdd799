"""Latencies as counts by their upper bound, and the percentiles of them (pure)."""

from collections.abc import Sequence

Histogram = Sequence[tuple[int, int]]
"""Nanoseconds, and how many took up to so many and more than the one before; in order."""


def percentile(histogram: Histogram, share: float) -> float:
    """Return the microseconds within which *share* (0 to 1) of all were answered; of none at all it is 0."""
    total = sum(count for _, count in histogram)
    reached = 0
    for bound, count in histogram:
        reached += count
        if reached >= share * total:
            return bound / 1000
    return 0.0
