"""What happened in a stretch of time, as counts and histograms that can be added up."""

from collections import Counter
from dataclasses import dataclass, field, fields
from typing import Self

from dnsload.histogram import Histogram

_FLUSH = 4096


@dataclass(slots=True)
class Counts:
    """Counts of queries and answers."""

    sent: int = 0
    """Queries that were sent; malformed packets don't count."""
    right: int = 0
    truncated: int = 0
    wrong: int = 0
    lost: int = 0
    """Queries without an answer within the time-out, whether or not one came later."""
    late: int = 0
    """Answered after the time-out; each is in *lost* too."""
    unexpected: int = 0
    """Answers to nothing that was outstanding: duplicates, or to another question."""
    malformed_sent: int = 0
    malformed_answered: int = 0
    refused: int = 0
    """Times that the port was said to be unreachable (ICMP)."""
    connections_failed: int = 0
    """TCP connections that couldn't be made, or that ended with queries outstanding."""
    client_drops: int = 0
    """Answers that the client's kernel dropped because the client read too slowly."""
    unsent: int = 0
    """Queries that were due and that the client never got to send."""
    retried: int = 0
    """Truncated answers that were asked for again by TCP; the answer to that is the one that counts."""
    rcodes: Counter[int] = field(default_factory=Counter)

    @property
    def answered(self) -> int:
        """Return how many queries were answered in time."""
        return self.right + self.truncated + self.wrong

    @property
    def loss(self) -> float:
        """Return the share of queries that were lost, without the answers that the client itself dropped."""
        return max(self.lost - self.client_drops, 0) / self.sent if self.sent else 0.0

    def counted(self) -> dict[str, int]:
        """Return the counts by name, without the rcodes."""
        return {count: getattr(self, count) for count in _COUNTS}

    def accumulate(self, other: "Counts") -> Self:
        """Add the counts of *other*; returns itself."""
        for count in _COUNTS:
            setattr(self, count, getattr(self, count) + getattr(other, count))
        self.rcodes.update(other.rcodes)
        return self


_COUNTS = tuple(each.name for each in fields(Counts) if each.type is int)


@dataclass(slots=True)
class Tally(Counts):
    """Counts and durations."""

    latency: Histogram = field(default_factory=Histogram)
    """The times from when a query was meant to be sent to its answer."""
    lag: Histogram = field(default_factory=Histogram)
    """The times from when a query was meant to be sent to when it was sent."""
    latencies: list[int] = field(default_factory=list)
    """Nanoseconds that are not yet in the histogram."""
    lags: list[int] = field(default_factory=list)

    def flush(self, least: int = 1) -> None:
        """Move what waits into the histograms, where there are at least so many."""
        if len(self.latencies) >= least:
            self.latency.record(self.latencies)
            self.latencies.clear()
        if len(self.lags) >= least:
            self.lag.record(self.lags)
            self.lags.clear()

    def flush_some(self) -> None:
        """Do so when enough waits to be worth it."""
        self.flush(_FLUSH)

    def add(self, other: "Tally") -> None:
        """Add *other*, which must be flushed."""
        self.accumulate(other)
        self.latency.add(other.latency)
        self.lag.add(other.lag)
