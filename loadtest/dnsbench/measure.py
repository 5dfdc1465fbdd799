"""One measurement: what the client saw and what the server spent meanwhile; and the best of several (pure)."""

from collections.abc import Iterable, Sequence

from pydantic import BaseModel, ConfigDict

from dnsbench.client import Answers
from dnsbench.histogram import percentile


class Sample(BaseModel):
    """The figures of one contestant in one round, or of its best in all rounds."""

    model_config = ConfigDict(frozen=True)

    cpu_us: float
    """CPU of the server, user and system, microseconds an answered query."""
    qps: float
    p50_us: float
    p99_us: float
    p999_us: float
    p9999_us: float
    longest_us: float
    stall_us: float
    """The longest time without an answer."""
    sent: int
    lost: int
    wrong: int
    rss_mb: float
    client_cpu_us: float
    """CPU of the client a query."""
    client_busy: float
    """The share of its time in which the client had something to do: near 1 it was the limit."""
    client_stall_us: float
    """The longest time that the client itself didn't run."""
    changes: int = 0
    """Changes of a name that were made, and seen to be served."""


class Row(BaseModel):
    """What became of a contestant."""

    model_config = ConfigDict(frozen=True)

    scenario: str
    label: str
    best: Sample
    rounds: list[Sample]


def sample(answers: Answers, cpu_seconds: float, rss_bytes: int, changes: int = 0) -> Sample:
    """Return the figures of one round."""
    answered = max(1, answers.answered)
    shares = [percentile(answers.histogram, share) for share in (0.5, 0.99, 0.999, 0.9999, 1.0)]
    return Sample(
        cpu_us=1e6 * cpu_seconds / answered,
        qps=answers.answered / answers.seconds,
        p50_us=shares[0],
        p99_us=shares[1],
        p999_us=shares[2],
        p9999_us=shares[3],
        longest_us=shares[4],
        stall_us=answers.gap_ns / 1000,
        sent=answers.sent,
        lost=answers.lost,
        wrong=answers.wrong,
        rss_mb=rss_bytes / 1e6,
        client_cpu_us=1e6 * answers.cpu_seconds / answered,
        client_busy=1 - answers.idle_seconds / answers.seconds,
        client_stall_us=answers.own_gap_ns / 1000,
        changes=changes,
    )


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
_ALL = ("sent", "lost", "wrong", "changes")


def best(rounds: Sequence[Sample]) -> Sample:
    """Return the best of each time and rate, since others on the machine only ever make it worse.

    Memory is the most that was seen; what was sent, lost, wrong or changed is added up.
    """
    figures: dict[str, float] = {}
    for names, choose in ((_LEAST, min), (_MOST, max), (_ALL, sum)):
        for name in names:
            values: Iterable[float] = [getattr(each, name) for each in rounds]
            figures[name] = choose(values)
    return Sample.model_validate(figures)
