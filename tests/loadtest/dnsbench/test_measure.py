"""Tests of the figures of one round, and of the best of several rounds."""

import pytest
from dnsbench.measure import best, sample

from tests.loadtest.dnsbench.figures import figures
from tests.loadtest.dnsbench.figures import seen as counted


def test_the_figures_of_a_benchmark_round_are_in_microseconds_megabytes_and_queries_a_second() -> None:
    seen = sample(counted(), cpu_seconds=0.00098, rss_bytes=40_000_000, changes=3)
    assert (seen.cpu_us, seen.qps, seen.rss_mb, seen.changes) == pytest.approx((10.0, 49.0, 40.0, 3))
    assert (seen.p50_us, seen.p999_us, seen.longest_us, seen.stall_us) == (0.4, 0.5, 0.5, 3000.0)
    assert (seen.client_busy, seen.client_cpu_us, seen.client_stall_us) == pytest.approx((0.75, 20_000, 2000))


def test_a_measured_server_that_answers_nothing_has_a_rate_of_0_and_loses_all_queries() -> None:
    seen = sample(counted(right=0, wrong=0, lost=100), 0.0, 1)
    assert (seen.qps, seen.cpu_us, seen.lost_percent) == (0, 0, 100)


def test_hostile_packets_are_among_the_queries_by_which_the_cpu_time_is_divided() -> None:
    seen = sample(counted(malformed_sent=392), 0.00098, 1)
    assert (seen.cpu_us, seen.client_cpu_us, seen.hostile) == pytest.approx((2.0, 4000, 392))


def test_the_best_of_several_rounds_has_the_least_cpu_time_the_highest_rate_and_the_sum_of_losses() -> None:
    chosen = best([
        figures(cpu_us=5.0, qps=10.0, p99_us=9.0, rss_mb=40.0, changes=1),
        figures(cpu_us=4.0, qps=8.0, p99_us=11.0, rss_mb=41.0, changes=2),
    ])  # fmt: skip
    assert (chosen.cpu_us, chosen.qps, chosen.p99_us, chosen.rss_mb) == (4.0, 10.0, 9.0, 41.0)
    assert (chosen.sent, chosen.lost, chosen.wrong, chosen.changes) == (200, 4, 2, 3)
