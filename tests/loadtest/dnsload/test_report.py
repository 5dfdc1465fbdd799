"""Tests of the report's numbers."""

from typing import NamedTuple

import pytest
from dnsload.report import Report, rcode_text

from tests.loadtest.dnsload.samples import report_on


def test_latencies_are_milliseconds() -> None:
    latency = report_on().latency
    assert (latency.p50, latency.p90, latency.p99, latency.max) == pytest.approx((50, 90, 99, 100), rel=1e-3)
    assert latency.mean == pytest.approx(50.5)


def test_windows_have_rates_and_the_rate_that_was_meant() -> None:
    windows = report_on("--rate", "100..200", "--duration", "3").windows
    assert [window.sent_rate for window in windows] == pytest.approx([100] * 3)
    assert [window.target_rate for window in windows] == pytest.approx([100 + 100 / 6, 150, 200 - 100 / 6])
    assert [window.latency_p50 for window in windows] == pytest.approx([50] * 3, rel=1e-3)


class Case(NamedTuple):
    counts: dict[str, int]
    failures: list[str]
    arguments: tuple[str, ...] = ()


@pytest.mark.parametrize(
    "case",
    [
        Case({}, []),
        Case({"wrong": 1}, ["3 answers were wrong"]),
        Case({"lost": 1}, ["1.000% of the queries were lost, more than 0.100%"]),
        Case({"lost": 1}, [], ("--max-loss", "0.01")),
        Case({"lost": 1, "client_drops": 1}, []),
        Case({"sent": 0}, ["no query was sent"]),
    ],
)
def test_a_run_fails_by_wrong_answers_more_loss_than_allowed_and_no_query(case: Case) -> None:
    assert report_on(*case.arguments, **case.counts).failures == case.failures


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ({"unsent": 1}, ["never sent"]),
        ({"client_drops": 1}, ["receive queue"]),
        ({"lags": [20_000_000] * 5}, ["sent 20.0 ms"]),
        ({}, []),
    ],
)
def test_the_client_says_when_it_was_the_limit(counts: dict[str, int], words: list[str]) -> None:
    limits = report_on(**counts).client_limits
    assert len(limits) == len(words)
    assert all(word in limit for word, limit in zip(words, limits, strict=True))


def test_a_soak_compares_its_ends() -> None:
    soak = report_on("--soak", seconds=250).soak
    assert soak is not None
    assert soak.windows == 2
    assert (soak.first_p50, soak.last_p99) == pytest.approx((50, 99), rel=1e-3)
    assert report_on().soak is None


def test_windows_of_a_long_run_are_ten_seconds() -> None:
    windows = report_on("--duration", "2h", seconds=25).windows
    assert [round(window.end) for window in windows] == [10, 20, 25]


def test_the_curve_ends_where_answers_do() -> None:
    curve = report_on().curve
    assert curve[0][0] == 0
    assert 99 < curve[-1][0] < 99.9
    assert [value for _, value in curve] == sorted(value for _, value in curve)


def test_a_report_can_be_read_back() -> None:
    report = report_on("--steps", "100,200", "--step-seconds", "2")
    assert Report.model_validate_json(report.model_dump_json()) == report
    assert [step.totals.sent for step in report.steps] == [200, 100]


def test_rcodes_have_names() -> None:
    assert [rcode_text(number) for number in (0, 3, 5, -1)] == ["NOERROR", "NXDOMAIN", "REFUSED", "none"]
