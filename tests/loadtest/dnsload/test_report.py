"""Tests of the figures in dnsload's report."""

import pytest
from dnsload.report import Report

from tests.loadtest.dnsload.conducting import LIMITED
from tests.loadtest.dnsload.samples import report_on


def test_each_time_window_of_a_report_has_the_measured_and_the_intended_rate() -> None:
    windows = report_on("--rate", "100..200", "--duration", "3").windows
    assert [window.sent_rate for window in windows] == pytest.approx([100] * 3)
    assert [window.target_rate for window in windows] == pytest.approx([100 + 100 / 6, 150, 200 - 100 / 6])
    assert [window.latency_p50 for window in windows] == pytest.approx([50] * 3, rel=1e-3)


@pytest.mark.parametrize(
    ("counts", "failures", "arguments"),
    [
        ({}, [], ()),
        ({"wrong": 1}, ["3 answers were wrong"], ()),
        ({"lost": 1}, ["1.000% of the queries were lost, more than 0.100%"], ()),
        ({"lost": 1, "malformed_sent": 100}, ["1.000% of the queries were lost, more than 0.100%"], ()),
        ({"lost": 1}, [], ("--max-loss", "0.01")),
        ({"lost": 1, "client_drops": 1}, [], ()),
        ({"sent": 0}, ["no query was sent"], ()),
    ],
)
def test_a_run_of_dnsload_fails_after_wrong_answers_too_many_losses_or_no_query_at_all(
    counts: dict[str, int], failures: list[str], arguments: tuple[str, ...]
) -> None:
    assert report_on(*arguments, **counts).failures == failures


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ({"unsent": 1}, ["never sent"]),
        ({"client_drops": 1}, ["receive queue"]),
        ({"lags": [20_000_000] * 5}, ["sent 20.0 ms"]),
        ({}, []),
    ],
)
def test_the_report_and_the_exit_code_say_when_the_client_was_the_bottleneck(
    counts: dict[str, int], words: list[str]
) -> None:
    report = report_on(**counts)
    assert len(report.client_limits) == len(words)
    assert all(word in limit for word, limit in zip(words, report.client_limits, strict=True))
    assert report.exit_code == (LIMITED if words else 0)
    assert report_on(**counts, wrong=1).exit_code == 1


@pytest.mark.parametrize(
    ("counts", "longest"),
    [({}, 100), ({"lost": 1}, 2000), ({"lost": 1, "late": 1}, 100), ({"lost": 1, "client_drops": 1}, 100)],
    ids=["answered", "lost", "late", "dropped by the client"],
)
def test_a_query_that_the_server_never_answered_counts_with_the_timeout_in_the_latencies(
    counts: dict[str, int], longest: float
) -> None:
    assert report_on(**counts).latency.max == longest


def test_the_report_on_a_soak_compares_its_beginning_and_its_end() -> None:
    soak = report_on("--soak", seconds=250).soak
    assert soak is not None
    assert soak.windows == 2
    assert (soak.first_p50, soak.last_p99) == pytest.approx((50, 99), rel=1e-3)
    assert report_on().soak is None


def test_the_latency_curve_of_a_report_ends_at_the_highest_percentage_with_enough_answers() -> None:
    curve = report_on().curve
    assert curve[0][0] == 0
    assert 99 < curve[-1][0] < 99.9
    assert [value for _, value in curve] == sorted(value for _, value in curve)


def test_a_report_that_dnsload_has_stored_can_be_read_again() -> None:
    report = report_on("--steps", "100,200", "--step-seconds", "2")
    assert Report.model_validate_json(report.model_dump_json()) == report
    assert [step.totals.sent for step in report.steps] == [200, 100]
