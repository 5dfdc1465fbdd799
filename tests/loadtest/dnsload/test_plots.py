"""Tests of the plots."""

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import NamedTuple
from xml.etree import ElementTree

import pytest
from dnsload.plots import client_over_time, errors_over_time, latency_curve, latency_over_time, rate_over_time
from dnsload.report import Report

from tests.loadtest.dnsload.samples import report_on


class Case(NamedTuple):
    plot: Callable[[Report], str]
    title: str
    texts: set[str]
    """The titles of the axes and one label, which the plot must show."""
    empty: AbstractSet[str] = frozenset()
    """The texts that the plot of a run without answers shows besides its title."""


@pytest.mark.parametrize(
    "case",
    [
        Case(latency_over_time, "Latency over the run", {"time (s)", "latency (ms)", "p99.9"}),
        Case(latency_curve, "Latency by percentile", {"percentile of all answers", "latency (ms)", "99 %"}),
        Case(rate_over_time, "Queries and answers", {"time (s)", "queries a second", "answered"}),
        Case(errors_over_time, "Errors", {"time (s)", "queries in 10 s", "lost (20)"}, {"queries a second", "none"}),
        Case(client_over_time, "The client itself", {"time (s)", "CPU (cores)", "send lag, p99 (ms)"}),
    ],
    ids=lambda case: case.title,
)
def test_a_plot_has_a_title_and_axes_with_units_even_without_answers(case: Case) -> None:
    assert {case.title} | case.texts <= texts(case.plot(report_on("--soak", seconds=20, lost=1)))
    assert {case.title} | case.empty <= texts(case.plot(report_on(seconds=0)))


def texts(svg: str) -> set[str]:
    return {text.strip() for element in ElementTree.fromstring(svg).iter() for text in element.itertext()}
