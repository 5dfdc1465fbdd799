"""Tests of the plots in the HTML report."""

from collections.abc import Callable
from xml.etree import ElementTree

import pytest
from dnsload.plots import client_over_time, errors_over_time, latency_curve, latency_over_time, rate_over_time
from dnsload.report import Report

from tests.loadtest.dnsload.samples import report_on


def texts(svg: str) -> set[str]:
    return {text.strip() for element in ElementTree.fromstring(svg).iter() for text in element.itertext()}


@pytest.mark.parametrize(
    ("plot", "title", "shown"),
    [
        (latency_over_time, "Latency over the run", {"time (s)", "latency (ms)", "p99.9"}),
        (latency_curve, "Latency by percentile", {"percentile of all queries", "latency (ms)", "99 %"}),
        (rate_over_time, "Queries and answers", {"time (s)", "queries a second", "answered"}),
        (errors_over_time, "Errors", {"time (s)", "queries in 10 s", "lost (20)"}),
        (client_over_time, "The client itself", {"time (s)", "CPU (cores)", "send lag, p99 (ms)"}),
    ],
)
def test_a_plot_has_a_title_and_axes_with_units(plot: Callable[[Report], str], title: str, shown: set[str]) -> None:
    assert {title} | shown <= texts(plot(report_on("--soak", seconds=20, lost=1)))
    assert title in texts(plot(report_on(seconds=0)))


def test_the_plot_of_errors_of_a_run_without_errors_says_that_there_were_none() -> None:
    assert {"queries a second", "none"} <= texts(errors_over_time(report_on(seconds=0)))
