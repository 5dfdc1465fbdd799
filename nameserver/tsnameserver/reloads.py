"""What following and reloading the records has come to, for metrics: plain numbers, read when scraped."""

from bisect import bisect_left
from dataclasses import dataclass, field

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the buckets of reload durations, in seconds."""


@dataclass(slots=True)
class Watched:
    """How it goes with following the API server."""

    followed: bool = False
    """Whether a list has succeeded and no watch has failed since."""
    heard: float = 0.0
    """Unix time of the last list, event or bookmark, or of the last time that a watch was opened; 0.0 before all."""


@dataclass(slots=True)
class Reloads:
    """Counts of reloads, the size of the zone that is served, and how long the reloads that changed it took."""

    loaded: int = 0
    """Reloads that changed the zone."""
    failed: int = 0
    """Offers that held no good set, or one that couldn't be compiled."""
    parsed: int = 0
    """Documents that were parsed: a change of one costs one."""
    names: int = 0
    ip4: int = 0
    """A records in the zone."""
    ip6: int = 0
    """AAAA records in the zone."""
    serial: int = 0
    newest: float = 0.0
    """Unix time of the last good reload; 0.0 before the first."""
    source: str = ""
    """Where the records that are served come from, as metrics name it; empty before the first."""
    bounds: tuple[float, ...] = BOUNDS
    buckets: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    """Reloads by duration, not cumulative: one bucket for each bound, and one for what is past them all."""
    seconds_sum: float = 0.0

    def observe(self, seconds: float) -> None:
        """Count a reload that took *seconds*."""
        self.buckets[bisect_left(self.bounds, seconds)] += 1
        self.seconds_sum += seconds
