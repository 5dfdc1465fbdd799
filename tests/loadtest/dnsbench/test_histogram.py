"""Tests of percentiles."""

from typing import NamedTuple

import pytest
from dnsbench.histogram import percentile

LATENCIES = [(1000, 50), (2000, 49), (8000, 1)]


class Case(NamedTuple):
    share: float
    microseconds: float


@pytest.mark.parametrize("case", [Case(0.5, 1), Case(0.51, 2), Case(0.99, 2), Case(0.991, 8), Case(1, 8)])
def test_a_percentile_is_the_bound_that_its_share_stays_within(case: Case) -> None:
    assert percentile(LATENCIES, case.share) == case.microseconds


def test_percentiles_of_an_empty_histogram_are_zero() -> None:
    assert percentile([], 0.99) == 0
