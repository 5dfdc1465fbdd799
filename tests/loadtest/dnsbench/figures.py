"""Measurements that tests judge and print."""

from typing import Any

from dnsbench.client import Answers
from dnsbench.measure import Row, Sample, sample


def answers(**changes: Any) -> Answers:
    """Return what a client saw in two seconds: 100 queries, 2 of them lost."""
    seen = {
        "seconds": 2.0, "sent": 100, "junk": 0, "hits": 88, "misses": 9, "wrong": 1, "lost": 2, "stray": 0, "resets": 0,
        "dropped": 0, "cpu_seconds": 1.96, "idle_seconds": 0.5, "gap_ns": 3_000_000, "own_gap_ns": 2_000_000,
        "histogram": [(1000, 97), (50_000, 1)],
    }  # fmt: skip
    return Answers.model_validate(seen | changes)


def figures(**changes: Any) -> Sample:
    """Return the figures of one round."""
    return sample(answers(), cpu_seconds=0.00098, rss_bytes=40_000_000).model_copy(update=changes)


def row(scenario: str, label: str, **changes: Any) -> Row:
    """Return the row of a contestant with a single round."""
    seen = figures(**changes)
    return Row(scenario=scenario, label=label, best=seen, rounds=[seen])
