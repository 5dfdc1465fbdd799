"""Tests of percentiles."""

from typing import NamedTuple

import pytest
from dnsbench.histogram import Histogram, percentile

LATENCIES = [(1000, 50), (2000, 49), (8000, 1)]


class Case(NamedTuple):
    share: float
    microseconds: float
    histogram: Histogram = LATENCIES


@pytest.mark.parametrize(
    "case", [Case(0.5, 1), Case(0.51, 2), Case(0.99, 2), Case(0.991, 8), Case(1, 8), Case(0.99, 0, [])]
)
def test_a_percentile_is_the_bound_that_its_share_stays_within(case: Case) -> None:
    assert percentile(case.histogram, case.share) == case.microseconds
