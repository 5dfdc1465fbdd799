"""Tests of the goals of the DNS benchmark."""

import pytest
from dnsbench.goals import GOALS, Table, judged
from dnsbench.queries import Hostile

from tests.loadtest.dnsbench.figures import figures, row

MET = Table([
    row("saturated", "ours", cpu_us=3.8, wrong=0), row("saturated", "Go", cpu_us=10.0),
    row("saturated", "Knot", cpu_us=3.8),
    row("paced", "ours", cpu_us=8.0, p50_us=60.0, wrong=0), row("paced", "Go", cpu_us=20.0, p50_us=40.0),
    row("sizes", "ours, 1,000 names", cpu_us=5.0, rss_mb=40.0, wrong=0),
    row("sizes", "ours, 100,000 names", cpu_us=5.5, rss_mb=110.0, wrong=0),
    row("saturated", "ours/Python", cpu_us=10.0, wrong=0), row("paced", "ours/Python", cpu_us=20.0, wrong=0),
    *(row("flood", f"{kind}, {sort}", cpu_us=cpu, wrong=0)
      for kind, limits in (("ours", (5.5, 10, 6, 10)), ("ours/Python", (6, 10, 7.5, 10)))
      for sort, cpu in zip(("hits", "misses", "deep names", "cookies", "names outside"), (5, *limits), strict=True)),
    *(row("hostile", f"{kind}, {sort}", lost=0, wrong=0) for kind in ("ours", "ours/Python") for sort in Hostile),
    row("tcp-flood", "ours, /healthz", p99_us=50_000.0, lost=0, wrong=0),
    row("tcp-flood", "ours, TCP", p99_us=100_000.0, lost=0, wrong=0),
    *(row("gone", f"{kind}, UDP", stall_us=100_000.0, lost=0, wrong=0) for kind in ("ours", "ours/Python")),
    row("saturated", "echo", cpu_us=20.0), row("paced", "echo", cpu_us=40.0),
    row("tcp", "ours", cpu_us=6.0, wrong=0), row("tcp", "Go", cpu_us=10.0),
    row("tcp-new", "ours", cpu_us=10.0, wrong=0), row("tcp-new", "Go", cpu_us=10.0),
    row("reload", "ours, no changes", p9999_us=1000.0, stall_us=2000.0, wrong=0),
    row("reload", "ours, changes", p9999_us=11_000.0, stall_us=3000.0, wrong=0),
])  # fmt: skip


def test_a_figure_of_the_dns_benchmark_that_equals_the_limit_meets_the_goal() -> None:
    verdicts = judged(MET)
    assert [verdict.text for verdict in verdicts if verdict.missed or verdict.figure is None] == []


@pytest.mark.parametrize(
    ("scenario", "label", "figure", "value", "missed"),
    [
        ("saturated", "ours", "cpu_us", 3.85, 2),
        ("saturated", "Knot", "cpu_us", 3.7, 1),
        ("paced", "ours", "cpu_us", 8.1, 1),
        ("paced", "ours", "p50_us", 60.1, 1),
        ("sizes", "ours, 100,000 names", "cpu_us", 5.6, 1),
        ("sizes", "ours, 100,000 names", "rss_mb", 110.1, 1),
        ("sizes", "ours, 1,000 names", "rss_mb", 40.1, 1),
        ("flood", "ours, misses", "cpu_us", 5.6, 1),
        ("flood", "ours, deep names", "cpu_us", 10.1, 1),
        ("flood", "ours, cookies", "cpu_us", 6.1, 1),
        ("flood", "ours, names outside", "cpu_us", 10.1, 1),
        ("flood", "ours/Python, misses", "cpu_us", 6.1, 1),
        ("flood", "ours/Python, deep names", "cpu_us", 10.1, 1),
        ("flood", "ours/Python, cookies", "cpu_us", 7.6, 1),
        ("flood", "ours/Python, names outside", "cpu_us", 10.1, 1),
        ("hostile", "ours, source port 0", "lost", 1, 1),
        ("hostile", "ours/Python, cookies", "lost", 1, 1),
        ("tcp-flood", "ours, /healthz", "p99_us", 50_100, 1),
        ("tcp-flood", "ours, TCP", "p99_us", 100_100, 1),
        ("tcp-flood", "ours, TCP", "lost", 1, 1),
        ("gone", "ours, UDP", "stall_us", 100_100, 1),
        ("gone", "ours/Python, UDP", "lost", 1, 1),
        ("saturated", "ours/Python", "cpu_us", 10.1, 1),
        ("paced", "ours/Python", "cpu_us", 20.1, 1),
        ("tcp-new", "ours", "cpu_us", 10.1, 1),
        ("tcp", "ours", "cpu_us", 6.1, 1),
        ("reload", "ours, changes", "p9999_us", 11_100, 1),
        ("reload", "ours, changes", "stall_us", 3100, 1),
        ("paced", "ours", "wrong", 1, 1),
        ("paced", "ours/Python", "wrong", 1, 1),
        ("paced", "Go", "wrong", 1, 0),
        ("paced", "echo", "wrong", 1, 0),
    ],
)
def test_a_figure_of_the_dns_benchmark_slightly_above_the_limit_misses_the_goal(
    scenario: str, label: str, figure: str, value: float, missed: int
) -> None:
    found = MET.get(scenario, label)
    assert found is not None
    worse = row(scenario, label, **{**found.model_dump(), figure: value})
    assert sum(verdict.missed for verdict in judged(Table([worse, *MET.rows]))) == missed


def test_the_echo_server_is_compared_with_the_go_server_and_has_no_goal() -> None:
    compared = {verdict.text: verdict.figure for verdict in judged(MET) if verdict.limit is None}
    assert compared == {
        "CPU a query, saturated: a bare echo / Go": 2.0,
        "CPU a query at 10,000 q/s: a bare echo / Go": 2.0,
    }


def test_a_goal_of_the_dns_benchmark_without_a_measurement_does_not_count_as_missed() -> None:
    assert {(verdict.figure, verdict.missed) for verdict in judged(Table([]))} == {(None, False)}


def test_the_verdict_on_a_goal_has_the_figure_of_each_round_in_which_the_goal_was_measured() -> None:
    ours, theirs = row("saturated", "ours", cpu_us=3.0), row("saturated", "Go", cpu_us=10.0)
    rows = [
        ours.model_copy(update={"rounds": [figures(cpu_us=3.0), figures(cpu_us=6.0)]}),
        theirs.model_copy(update={"rounds": [theirs.best] * 2}),
    ]
    assert [(verdict.figure, verdict.rounds) for verdict in judged(Table(rows), GOALS[:1])] == [(0.3, (0.3, 0.6))]
