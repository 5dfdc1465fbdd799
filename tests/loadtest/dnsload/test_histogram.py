"""Tests of the histogram of latencies."""

import numpy as np
import pytest
from dnsload.histogram import Histogram

PERCENTS = [1.0, 50.0, 90.0, 99.0, 99.9, 99.99, 100.0]


def lognormal(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).lognormal(12, 2, 20_003).astype(np.int64)


def test_percentiles_of_a_histogram_differ_from_those_of_numpy_by_a_fifth_of_a_percent_at_most() -> None:
    values = lognormal(0)
    histogram = Histogram()
    histogram.record(values)
    exact = np.percentile(values, PERCENTS, method="inverted_cdf")
    assert histogram.percentiles(PERCENTS) == pytest.approx(exact, rel=2e-3)
    assert histogram.mean == pytest.approx(values.mean())
    assert histogram.deviation == pytest.approx(values.std(), rel=2e-3)
    assert histogram.smallest == pytest.approx(values.min(), rel=2e-3)
    assert (histogram.count, histogram.largest) == (len(values), values.max())


def test_every_power_of_two_has_its_own_bucket_in_the_histogram() -> None:
    for bits in range(40):
        histogram = Histogram()
        histogram.record([1 << bits, 1 << 39])
        assert histogram.percentiles([50.0]) == pytest.approx([1 << bits], rel=2e-3)


def test_two_histograms_can_be_added() -> None:
    first, second, both = Histogram(), Histogram(), Histogram()
    first.record(lognormal(1))
    second.record(lognormal(2))
    both.record(np.concatenate([lognormal(1), lognormal(2)]))
    first.add(second)
    assert first.percentiles(PERCENTS) == both.percentiles(PERCENTS)
    assert (first.count, first.mean, first.largest) == (both.count, both.mean, both.largest)


def test_adding_durations_to_a_copy_of_a_histogram_leaves_the_original_unchanged() -> None:
    histogram = Histogram()
    histogram.record([1000, 3000])
    more = histogram.with_more(5000, 8)
    assert (more.count, more.mean, more.largest, more.percentiles([20.0])) == (10, 4400, 5000, [3003.5])
    assert (histogram.count, histogram.largest, histogram.with_more(5000, 0).largest) == (2, 3000, 3000)


def test_each_bucket_of_a_histogram_counts_its_durations() -> None:
    histogram, recorded = Histogram(), Histogram()
    histogram.record_buckets([(3, 2), (700, 1)])
    recorded.record([3, 3, 889])
    assert histogram.percentiles(PERCENTS) == recorded.percentiles(PERCENTS)
    assert (histogram.count, histogram.largest) == (3, 889)
    assert histogram.mean == pytest.approx((6 + 888) / 3, rel=1e-2)


def test_a_negative_or_too_long_duration_is_counted_in_the_nearest_bucket_of_the_histogram() -> None:
    histogram = Histogram()
    histogram.record([-5, 1 << 50])
    assert histogram.percentiles([50.0]) == [0]
    assert histogram.largest == (1 << 40) - 1
