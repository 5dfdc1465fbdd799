"""The plots of a report, as SVG."""

import io
from collections.abc import Sequence

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from dnsload.report import Report, Window

_SIZE = (9.0, 3.4)
_BLUE, _ORANGE, _RED, _GREY, _GREEN = "#2b6cb0", "#dd6b20", "#c53030", "#718096", "#2f855a"
_STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "dnsload",
    "font.family": "sans-serif",
    "font.sans-serif": ["Helvetica", "Arial", "DejaVu Sans"],
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "legend.frameon": False,
}
_MARKS = (0.0, 50.0, 90.0, 99.0, 99.9, 99.99, 99.999)


def latency_over_time(report: Report) -> str:
    """Return a plot of percentiles of the latency over time."""
    windows = [window for window in report.windows if window.answered_rate]
    with mpl.rc_context(_STYLE):
        figure, axes = _figure("Latency over the run", "time (s)", "latency (ms)")
        for name, values, colour in (
            ("max", [window.latency_max for window in windows], _GREY),
            ("p99.9", [window.latency_p99_9 for window in windows], _RED),
            ("p99", [window.latency_p99 for window in windows], _ORANGE),
            ("p50", [window.latency_p50 for window in windows], _BLUE),
        ):
            _line(axes, _middles(windows), values, colour, name)
        _logarithmic(axes)
        return _svg(figure, axes)


def latency_curve(report: Report) -> str:
    """Return a plot of the latency by percentile."""
    with mpl.rc_context(_STYLE):
        figure, axes = _figure("Latency by percentile", "percentile of all queries", "latency (ms)")
        points = [(100 / (100 - percent), value) for percent, value in report.curve]
        axes.plot([at for at, _ in points], [value for _, value in points], color=_BLUE)
        axes.set_xscale("log")
        marks = [mark for mark in _MARKS if not points or 100 / (100 - mark) <= 1.01 * points[-1][0]]
        axes.set_xticks([100 / (100 - mark) for mark in marks], [f"{mark:g} %" for mark in marks])
        axes.minorticks_off()
        _logarithmic(axes)
        return _svg(figure, axes)


def rate_over_time(report: Report) -> str:
    """Return a plot of the rates of intended, sent and answered queries over time."""
    windows, times = report.windows, _middles(report.windows)
    with mpl.rc_context(_STYLE):
        figure, axes = _figure("Queries and answers", "time (s)", "queries a second")
        if windows and windows[0].target_rate is not None:
            _line(axes, times, [window.target_rate or 0.0 for window in windows], _GREY, "meant to be sent", width=4)
        _line(axes, times, [window.sent_rate for window in windows], _BLUE, "sent")
        _line(axes, times, [window.answered_rate for window in windows], _GREEN, "answered", style="--")
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        axes.set_ylim(bottom=0)
        return _svg(figure, axes)


def errors_over_time(report: Report) -> str:
    """Return a plot of the number of failed queries over time, by the sort of failure."""
    windows, times = report.windows, _middles(report.windows)
    with mpl.rc_context(_STYLE):
        figure, axes = _figure("Errors", "time (s)", f"queries {_in_a_window(windows)}")
        for name, values, colour in (
            ("lost", [window.lost for window in windows], _RED),
            ("wrong", [window.wrong for window in windows], _ORANGE),
            ("answered too late", [window.late for window in windows], _BLUE),
            ("truncated", [window.truncated for window in windows], _GREEN),
            ("dropped by the client", [window.client_drops for window in windows], _GREY),
        ):
            if any(values):
                _line(axes, times, values, colour, f"{name} ({sum(values):,})")
        if not axes.lines:
            axes.text(0.5, 0.5, "none", transform=axes.transAxes, ha="center", va="center", color=_GREEN, size=16)
            axes.set_xlim(0, max(report.seconds, 1))
            axes.set_yticks([0])
        axes.set_ylim(bottom=0)
        return _svg(figure, axes)


def client_over_time(report: Report) -> str:
    """Return a plot of the client's own CPU use and lag over time."""
    windows, times = report.windows, _middles(report.windows)
    with mpl.rc_context(_STYLE):
        figure, axes = _figure("The client itself", "time (s)", "CPU (cores)")
        _line(axes, times, [window.client_cpu for window in windows], _BLUE, "CPU (cores)")
        axes.axhline(1, color=_BLUE, linewidth=0.8, linestyle=":")
        axes.set_ylim(0, max(1.1, *(1.1 * window.client_cpu for window in windows)))
        right = axes.twinx()
        right.spines["right"].set_visible(True)
        right.grid(visible=False)
        right.set_ylabel("send lag, p99 (ms)")
        _line(right, times, [window.send_lag_p99 for window in windows], _ORANGE, "send lag, p99 (ms)")
        right.set_ylim(bottom=0)
        handles = [*axes.lines[:1], *right.lines]
        axes.legend(handles=handles, loc="upper left", bbox_to_anchor=(0, 1.16), ncols=2)
        return _svg(figure)


def _middles(windows: Sequence[Window]) -> list[float]:
    return [(window.start + window.end) / 2 for window in windows]


def _in_a_window(windows: Sequence[Window]) -> str:
    seconds = round(windows[0].end - windows[0].start) if windows else 1
    return f"in {seconds} s" if seconds > 1 else "a second"


def _figure(title: str, across: str, up: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=_SIZE, layout="constrained")
    axes = figure.add_subplot()
    axes.set_title(title, loc="left", fontweight="bold", pad=24)
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    return figure, axes


def _line(
    axes: Axes, times: Sequence[float], values: Sequence[float], colour: str, label: str, **style: float | str
) -> None:
    axes.plot(
        times,
        values,
        color=colour,
        label=label,
        linewidth=style.get("width", 1.5),
        alpha=0.4 if "width" in style else 1,
        linestyle=style.get("style", "-"),
        marker="o" if len(times) < 40 and "width" not in style else None,
        markersize=3,
    )


def _logarithmic(axes: Axes) -> None:
    if any(len(line.get_path()) for line in axes.lines):
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.set_minor_formatter(FuncFormatter(_minor_label))


def _minor_label(value: float, _: int | None) -> str:
    """Return the label of a minor tick: only 2 and 5 of each decade have one."""
    return f"{value:g}" if f"{value:e}"[0] in "25" else ""


def _svg(figure: Figure, axes: Axes | None = None) -> str:
    if axes is not None and len(axes.lines) and axes.get_legend_handles_labels()[0]:
        axes.legend(loc="upper left", bbox_to_anchor=(0, 1.16), ncols=5)
    written = io.StringIO()
    figure.savefig(written, format="svg", metadata={"Date": None})
    text = written.getvalue()
    return text[text.index("<svg") :]
