"""Tests of what one round comes to, and the best of several."""

import pytest
from dnsbench.measure import best, sample

from tests.loadtest.dnsbench.figures import answers, figures


def test_cpu_and_rate_count_what_was_answered() -> None:
    seen = sample(answers(), cpu_seconds=0.00098, rss_bytes=40_000_000)
    assert (seen.cpu_us, seen.qps, seen.rss_mb) == pytest.approx((10.0, 49.0, 40.0))


def test_latencies_are_microseconds() -> None:
    seen = figures()
    assert (seen.p50_us, seen.p999_us, seen.longest_us, seen.stall_us) == (1.0, 50.0, 50.0, 3000.0)


def test_the_client_says_how_busy_it_was() -> None:
    seen = figures()
    assert (seen.client_busy, seen.client_cpu_us, seen.client_stall_us) == pytest.approx((0.75, 20_000, 2000))


def test_a_server_that_answers_nothing_has_figures_too() -> None:
    seen = sample(answers(hits=0, misses=0, wrong=0, lost=100, histogram=[]), 0.0, 1)
    assert (seen.qps, seen.p99_us, seen.lost) == (0, 0, 100)


def test_the_best_of_several_rounds_has_the_least_time_and_the_highest_rate() -> None:
    chosen = best([figures(cpu_us=5.0, qps=10.0, p99_us=9.0), figures(cpu_us=4.0, qps=8.0, p99_us=11.0)])
    assert (chosen.cpu_us, chosen.qps, chosen.p99_us) == (4.0, 10.0, 9.0)


def test_losses_and_wrong_answers_add_up_and_the_most_memory_counts() -> None:
    chosen = best([figures(rss_mb=40.0), figures(rss_mb=41.0)])
    assert (chosen.sent, chosen.lost, chosen.wrong, chosen.rss_mb) == (200, 4, 2, 41.0)
