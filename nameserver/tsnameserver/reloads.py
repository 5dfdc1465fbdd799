"""Counts and times of following and reloading the records. The metrics read them at each scrape."""

from bisect import bisect_left
from dataclasses import dataclass, field

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the buckets of reload durations, in seconds."""


@dataclass(slots=True)
class Watched:
    """The state of following the API server."""

    followed: bool = False
    """True if a list has succeeded and no watch has failed since."""
    heard: float = 0.0
    """Unix time of the last list, opening of a watch, event or bookmark; 0.0 before the first."""


@dataclass(slots=True)
class Reloads:
    """Counts of reloads, the size of the zone that is served, and how long the reloads that changed it took."""

    loaded: int = 0
    """The number of reloads that changed the zone."""
    failed: int = 0
    """The number of offers of a source without a whole good set, or with a set that couldn't be compiled."""
    parsed: int = 0
    """The number of documents that were parsed. Only changed documents are parsed."""
    names: int = 0
    ip4: int = 0
    """The number of A records in the zone."""
    ip6: int = 0
    """The number of AAAA records in the zone."""
    serial: int = 0
    newest: float = 0.0
    """Unix time of the last good reload; 0.0 before the first."""
    source: str = ""
    """The source of the served records, by its name in metrics; empty before the first."""
    bounds: tuple[float, ...] = BOUNDS
    buckets: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    """Numbers of reloads by duration, not cumulative: one for each bound, and one for those that took longer."""
    seconds_sum: float = 0.0

    def observe(self, seconds: float) -> None:
        """Count a reload that took *seconds*."""
        self.buckets[bisect_left(self.bounds, seconds)] += 1
        self.seconds_sum += seconds
