"""Tests of the report's numbers."""

from pathlib import Path

import pytest
from dnsload.report import Report, rcode_text

from tests.loadtest.dnsload.samples import report_on


def test_latencies_are_milliseconds(tmp_path: Path) -> None:
    latency = report_on(tmp_path).latency
    assert (latency.p50, latency.p90, latency.p99, latency.max) == pytest.approx((50, 90, 99, 100), rel=1e-3)
    assert latency.mean == pytest.approx(50.5)


def test_windows_have_rates_and_the_rate_that_was_meant(tmp_path: Path) -> None:
    windows = report_on(tmp_path, "--rate", "100..200", "--duration", "3").windows
    assert [window.sent_rate for window in windows] == pytest.approx([100] * 3)
    assert [window.target_rate for window in windows] == pytest.approx([100 + 100 / 6, 150, 200 - 100 / 6])
    assert [window.latency_p50 for window in windows] == pytest.approx([50] * 3, rel=1e-3)


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ({}, []),
        ({"wrong": 1}, ["3 answers were wrong"]),
        ({"lost": 1}, ["1.000% of the queries were lost, more than 0.100%"]),
        ({"lost": 1, "client_drops": 1}, []),
        ({"sent": 0}, ["no query was sent"]),
    ],
)
def test_what_fails_a_run(tmp_path: Path, counts: dict[str, int], words: list[str]) -> None:
    assert report_on(tmp_path, **counts).failures == words


def test_the_loss_that_is_allowed_is_a_setting(tmp_path: Path) -> None:
    assert report_on(tmp_path, "--max-loss", "0.01", lost=1).failures == []


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ({"unsent": 1}, "never sent"),
        ({"client_drops": 1}, "receive queue"),
        ({"lags": [20_000_000] * 5}, "sent 20.0 ms"),
    ],
)
def test_the_client_says_when_it_was_the_limit(tmp_path: Path, counts: dict[str, int], words: str) -> None:
    (limit,) = report_on(tmp_path, **counts).client_limits
    assert words in limit


def test_a_client_with_time_to_spare_says_nothing(tmp_path: Path) -> None:
    assert report_on(tmp_path).client_limits == []


def test_a_soak_compares_its_ends(tmp_path: Path) -> None:
    soak = report_on(tmp_path, "--soak", seconds=250).soak
    assert soak is not None
    assert soak.windows == 2
    assert (soak.first_p50, soak.last_p99) == pytest.approx((50, 99), rel=1e-3)
    assert report_on(tmp_path).soak is None


def test_windows_of_a_long_run_are_ten_seconds(tmp_path: Path) -> None:
    windows = report_on(tmp_path, "--duration", "2h", seconds=25).windows
    assert [round(window.end) for window in windows] == [10, 20, 25]


def test_the_curve_ends_where_answers_do(tmp_path: Path) -> None:
    curve = report_on(tmp_path).curve
    assert curve[0][0] == 0
    assert 99 < curve[-1][0] < 99.9
    assert [value for _, value in curve] == sorted(value for _, value in curve)


def test_it_can_be_read_back(tmp_path: Path) -> None:
    report = report_on(tmp_path, "--steps", "100,200", "--step-seconds", "2")
    assert Report.model_validate_json(report.model_dump_json()) == report
    assert [step.totals.sent for step in report.steps] == [200, 100]


def test_rcodes_have_names() -> None:
    assert [rcode_text(number) for number in (0, 3, 5, -1)] == ["NOERROR", "NXDOMAIN", "REFUSED", "none"]
