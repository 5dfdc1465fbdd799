"""The figures of one round and of the best of all rounds (pure).

They follow from the client's results, and from the server's CPU time and memory.
"""

from collections.abc import Iterable, Sequence

from dnsload.client import Seen
from pydantic import BaseModel, ConfigDict


class Sample(BaseModel):
    """The figures of one contestant in one round, or its best figures of all rounds."""

    model_config = ConfigDict(frozen=True)

    cpu_us: float
    """The server's CPU time, user and system, in microseconds per answered query or hostile packet."""
    qps: float
    p50_us: float
    p99_us: float
    p999_us: float
    p9999_us: float
    longest_us: float
    stall_us: float
    """The longest time in which the server gave no answer, in microseconds."""
    sent: int
    lost: int
    wrong: int
    hostile: int
    """The number of packets for which the client awaited no answer."""
    rss_mb: float
    client_cpu_us: float
    """The client's CPU time, in microseconds per answered query or hostile packet."""
    client_busy: float
    """The share of time in which the client was busy. If it is near 1, the figures show the client's limit."""
    client_stall_us: float
    """The longest time in which the client itself didn't run, in microseconds."""
    changes: int = 0
    """The number of record changes that the server has served, as the benchmark observed."""

    @property
    def lost_percent(self) -> float:
        """The percentage of queries without an answer."""
        return 100 * self.lost / self.sent if self.sent else 0.0


class Row(BaseModel):
    """The results of one contestant in one scenario."""

    model_config = ConfigDict(frozen=True)

    scenario: str
    label: str
    best: Sample
    rounds: list[Sample]


def sample(seen: Seen, cpu_seconds: float, rss_bytes: int, changes: int = 0) -> Sample:
    """Return the figures of one round: the client's results and the server's use of CPU and memory."""
    tally = seen.tally
    packets = max(1, tally.answered + tally.malformed_sent)
    p50, p99, p999, p9999, longest = (each / 1000 for each in tally.latency.percentiles(PERCENTS))
    return Sample(
        cpu_us=1e6 * cpu_seconds / packets,
        qps=tally.answered / seen.seconds,
        p50_us=p50,
        p99_us=p99,
        p999_us=p999,
        p9999_us=p9999,
        longest_us=longest,
        stall_us=seen.gap_ns / 1000,
        sent=tally.sent,
        lost=tally.lost,
        wrong=tally.wrong,
        hostile=tally.malformed_sent,
        rss_mb=rss_bytes / 1e6,
        client_cpu_us=1e6 * seen.cpu_seconds / packets,
        client_busy=1 - seen.idle_seconds / seen.seconds,
        client_stall_us=seen.own_gap_ns / 1000,
        changes=changes,
    )


PERCENTS = (50.0, 99.0, 99.9, 99.99, 100.0)
_LEAST = (
    "cpu_us",
    "p50_us",
    "p99_us",
    "p999_us",
    "p9999_us",
    "longest_us",
    "stall_us",
    "client_cpu_us",
    "client_stall_us",
)
_MOST = ("qps", "rss_mb", "client_busy")
_ALL = ("sent", "lost", "wrong", "hostile", "changes")


def best(rounds: Sequence[Sample]) -> Sample:
    """Return the best times and rates of all *rounds*: other programs on the machine can only make them worse.

    The memory is the highest of all rounds. Counts, such as those of sent and lost queries, are added up.
    """
    figures: dict[str, float] = {}
    for names, choose in ((_LEAST, min), (_MOST, max), (_ALL, sum)):
        for name in names:
            values: Iterable[float] = [getattr(each, name) for each in rounds]
            figures[name] = choose(values)
    return Sample.model_validate(figures)
