"""The results of a span of time, as counts and histograms that can be added up."""

from collections import Counter
from dataclasses import dataclass, field, fields
from typing import Self

from dnsload.histogram import Histogram

_FLUSH = 4096


@dataclass(slots=True)
class Counts:
    """Counts of queries and answers."""

    sent: int = 0
    """The number of queries that were sent, without malformed packets."""
    right: int = 0
    truncated: int = 0
    wrong: int = 0
    lost: int = 0
    """Queries without an answer within the time-out, even if an answer came later."""
    late: int = 0
    """Queries that were answered after the time-out; *lost* counts them too."""
    unexpected: int = 0
    """Answers to no outstanding query: duplicates, or answers to another question."""
    malformed_sent: int = 0
    malformed_answered: int = 0
    refused: int = 0
    """The number of times that ICMP reported the port as unreachable."""
    connections_failed: int = 0
    """TCP connections that couldn't be made, or that ended with queries outstanding."""
    client_drops: int = 0
    """Answers that the client's kernel dropped because the client read too slowly."""
    unsent: int = 0
    """Queries that were due but that the client did not send in time."""
    retried: int = 0
    """Queries that were repeated by TCP after a truncated answer. Only the answer by TCP is counted."""
    rcodes: Counter[int] = field(default_factory=Counter)

    @property
    def answered(self) -> int:
        """The number of queries that were answered in time."""
        return self.right + self.truncated + self.wrong

    @property
    def loss(self) -> float:
        """The share of lost queries. Answers that the client itself dropped don't count as lost."""
        return max(self.lost - self.client_drops, 0) / self.sent if self.sent else 0.0

    def counted(self) -> dict[str, int]:
        """Return the counts by name, without those of the rcodes."""
        return {count: getattr(self, count) for count in _COUNTS}

    def accumulate(self, other: "Counts") -> Self:
        """Add the counts of *other*, and return this object."""
        for count in _COUNTS:
            setattr(self, count, getattr(self, count) + getattr(other, count))
        self.rcodes.update(other.rcodes)
        return self


_COUNTS = tuple(each.name for each in fields(Counts) if each.type is int)


@dataclass(slots=True)
class Tally(Counts):
    """Counts and durations of a span of time."""

    latency: Histogram = field(default_factory=Histogram)
    """The times from the due time of each query to its answer, even if the answer came after the time-out."""
    lag: Histogram = field(default_factory=Histogram)
    """The times from the due time of each query to the moment when it was sent."""
    latencies: list[int] = field(default_factory=list)
    """Latencies in nanoseconds that haven't been put into the histogram yet."""
    lags: list[int] = field(default_factory=list)

    def flush(self, least: int = 1) -> None:
        """Move the latencies and the lags into their histograms, each list only if it has at least *least* values."""
        if len(self.latencies) >= least:
            self.latency.record(self.latencies)
            self.latencies.clear()
        if len(self.lags) >= least:
            self.lag.record(self.lags)
            self.lags.clear()

    def flush_some(self) -> None:
        """Move the latencies and the lags into their histograms, if there are enough to be worth the CPU time."""
        self.flush(_FLUSH)

    def latency_of_all(self, timeout: int) -> Histogram:
        """Return the latencies of all queries of a flushed tally, including those that never got an answer.

        A query without an answer counts with the *timeout*, in nanoseconds, since it took at least that long. Otherwise
        the percentiles of a server that stops would look better than those of a slow server.
        """
        return self.latency.with_more(timeout, max(self.lost - self.late - self.client_drops, 0))

    def add(self, other: "Tally") -> None:
        """Add the counts and durations of *other*, which must be flushed."""
        self.accumulate(other)
        self.latency.add(other.latency)
        self.lag.add(other.lag)
