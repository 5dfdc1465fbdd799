"""Tests of counting reloads."""

import pytest
from tsnameserver.reloads import BOUNDS, Reloads


@pytest.mark.parametrize("at", range(len(BOUNDS)))
def test_a_bound_belongs_to_its_bucket(at: int) -> None:
    reloads = Reloads()
    reloads.observe(BOUNDS[at])
    reloads.observe(BOUNDS[at] * 1.01)
    assert reloads.buckets[at : at + 2] == [1, 1]


def test_durations_add_up() -> None:
    reloads = Reloads()
    for seconds in (0.0, 1.0, 100.0):
        reloads.observe(seconds)
    assert (reloads.seconds_sum, sum(reloads.buckets), reloads.buckets[-1]) == (101.0, 3, 1)
    assert Reloads().buckets == [0] * (len(BOUNDS) + 1)
