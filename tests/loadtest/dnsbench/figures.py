"""Made-up measurements for tests of verdicts and reports."""

from typing import Any

from dnsbench.measure import Row, Sample, sample
from dnsload.client import Seen
from dnsload.tally import Tally


def seen(**counts: int) -> Seen:
    """Return a client's report on two seconds. Unless *counts* say otherwise, 2 of 100 queries were lost."""
    tally = Tally(latencies=[400] * 97 + [500])
    for name, count in ({"sent": 100, "right": 97, "wrong": 1, "lost": 2} | counts).items():
        setattr(tally, name, count)
    tally.flush()
    return Seen(True, 2.0, 2.0, 1.96, 0.5, gap_ns=3_000_000, own_gap_ns=2_000_000, tally=tally)


def figures(**changes: Any) -> Sample:
    """Return the figures of one round, in which *changes* replace the usual figures."""
    return sample(seen(), cpu_seconds=0.00098, rss_bytes=40_000_000).model_copy(update=changes)


def row(scenario: str, label: str, **changes: Any) -> Row:
    """Return the row of the contestant *label* in *scenario*, with a single round, whose figures have *changes*."""
    best = figures(**changes)
    return Row(scenario=scenario, label=label, best=best, rounds=[best])
