"""The chart of a run: the CPU time per query of every contestant, by scenario."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from dnsbench.measure import Row
from dnsbench.scenarios import Scenario
from dnsbench.servers import Kind

_COLOURS = {
    Kind.OURS: "#1f77b4",
    Kind.GO: "#8c8c8c",
    Kind.NSD: "#b8b8b8",
    Kind.KNOT: "#d6d6d6",
    Kind.PYTHON: "#8fbfe0",
    Kind.ECHO: "#ececec",
}


def draw(path: Path, scenarios: Sequence[Scenario], rows: Sequence[Row]) -> None:
    """Write an SVG file to *path*, which has a bar for each contestant of each of *scenarios*."""
    heights = [max(1, sum(row.scenario == each.name for row in rows)) for each in scenarios]
    figure = Figure(figsize=(10, 1.2 + 0.32 * sum(heights) + 0.5 * len(scenarios)), layout="constrained")
    axes = figure.subplots(len(scenarios), 1, gridspec_kw={"height_ratios": heights}, squeeze=False)[:, 0]
    for axis, scenario in zip(axes, scenarios, strict=True):
        shown = [row for row in rows if row.scenario == scenario.name]
        bars = axis.barh(
            [row.label for row in shown],
            [row.best.cpu_us for row in shown],
            color=[_COLOURS[Kind(row.label.partition(",")[0])] for row in shown],
        )
        axis.bar_label(bars, fmt="%.1f", padding=3, fontsize=8)
        axis.set_title(scenario.title, loc="left", fontsize=9)
        axis.invert_yaxis()
        axis.margins(x=0.1)
        axis.tick_params(labelsize=8)
        axis.spines[["top", "right"]].set_visible(False)
    figure.suptitle("CPU of the server, µs a query: shorter is better", fontsize=11)
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "dnsbench"}):
        figure.savefig(path, metadata={"Date": None})
