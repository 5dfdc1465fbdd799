"""Tests of the plots."""

from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from dnsload.plots import client_over_time, errors_over_time, latency_curve, latency_over_time, rate_over_time
from dnsload.report import Report

from tests.loadtest.dnsload.samples import report_on

PLOTS: dict[Callable[[Report], str], tuple[str, ...]] = {
    latency_over_time: ("Latency over the run", "time (s)", "latency (ms)", "p99.9"),
    latency_curve: ("Latency by percentile", "percentile of all answers", "latency (ms)", "99 %"),
    rate_over_time: ("Queries and answers", "time (s)", "queries a second", "answered"),
    errors_over_time: ("Errors", "time (s)", "queries a second", "lost (6)"),
    client_over_time: ("The client itself", "time (s)", "CPU (cores)", "send lag, p99 (ms)"),
}


def texts(svg: str) -> list[str]:
    return [text.strip() for element in ElementTree.fromstring(svg).iter() for text in element.itertext()]


@pytest.mark.parametrize("plot", PLOTS)
def test_a_plot_has_a_title_and_axes_with_units(tmp_path: Path, plot: Callable[[Report], str]) -> None:
    assert {*PLOTS[plot]} <= {*texts(plot(report_on(tmp_path, lost=2)))}


@pytest.mark.parametrize("plot", PLOTS)
def test_a_run_without_answers_can_be_plotted(tmp_path: Path, plot: Callable[[Report], str]) -> None:
    assert PLOTS[plot][0] in texts(plot(report_on(tmp_path, seconds=0)))


def test_no_errors_are_said(tmp_path: Path) -> None:
    assert "none" in texts(errors_over_time(report_on(tmp_path)))


def test_errors_are_counted_by_window(tmp_path: Path) -> None:
    assert "queries in 10 s" in texts(errors_over_time(report_on(tmp_path, "--soak", seconds=20, lost=1)))
