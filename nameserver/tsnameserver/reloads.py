"""Numbers for the metrics, about reloads of the records, and about the list and watch requests to the API server."""

from bisect import bisect_left
from dataclasses import dataclass, field

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the buckets of reload durations, in seconds."""


@dataclass(slots=True)
class Watched:
    """Facts that show whether the list and watch requests to the API server work."""

    followed: bool = False
    """True if a list has succeeded and no list or watch has failed after it.

    A watch doesn't count as failed if only the version to watch from is too old.
    """
    heard: float = 0.0
    """Unix time of the newest list, start or end of a watch, event or bookmark; 0.0 before the first of them."""


@dataclass(slots=True)
class Reloads:
    """Counts and durations of reloads, and the size of the zone that is served.

    A reload compiles the documents that a source offers, and serves the result.
    """

    loaded: int = 0
    """The number of successful reloads."""
    failed: int = 0
    """The number of failed reloads: the source offered no whole good set, or the set couldn't be compiled."""
    parsed: int = 0
    """The number of documents that were parsed. Only changed documents are parsed."""
    names: int = 0
    ip4: int = 0
    """The number of A records in the zone."""
    ip6: int = 0
    """The number of AAAA records in the zone."""
    serial: int = 0
    newest: float = 0.0
    """Unix time of the newest successful reload; 0.0 before the first."""
    source: str = ""
    """The source of the served records, by its name in metrics; empty before the first successful reload."""
    bounds: tuple[float, ...] = BOUNDS
    buckets: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    """The number of reloads in each bucket, not cumulative: one bucket for each bound, and one for longer reloads."""
    seconds_sum: float = 0.0

    def observe(self, seconds: float) -> None:
        """Count a successful reload that took *seconds*."""
        self.buckets[bisect_left(self.bounds, seconds)] += 1
        self.seconds_sum += seconds
