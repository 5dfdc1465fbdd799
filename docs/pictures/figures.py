"""Draws the comparison with Tailscale's operator: `make pictures` writes comparison.svg from loadtest/results."""

import json
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any, Final, NamedTuple

from docs.pictures.draw import FOLDER, document

RESULTS: Final = FOLDER.parents[1] / "loadtest" / "results"
TARGET: Final = FOLDER / "comparison.svg"
TITLE: Final = (
    "tsoperator needs less time, CPU, memory and API writes than Tailscale's operator. "
    "Its nameserver needs half the CPU, and more memory."
)
_COLUMN: Final = 264
_BAR: Final = 168
"""The length of the longer one of two bars, in pixels."""
_THICK: Final = 11
_ROW: Final = 54
_TOP: Final = 58

Json = Mapping[str, Any]


class Measure(NamedTuple):
    """A figure that was measured for our program and for its counterpart in Go. A lower figure is better."""

    title: str
    ours: float
    go: float
    unit: str = ""

    @property
    def words(self) -> tuple[str, str]:
        """The texts of both figures, each with its unit, such as ``1.9 s``."""
        return _shown(self.ours, self.unit), _shown(self.go, self.unit)


class Column(NamedTuple):
    """A column of the picture: measures under one heading."""

    title: str
    measures: tuple[Measure, ...]


def columns(operator: Json, nameserver: Json) -> list[Column]:
    """Return the columns of the picture.

    *operator* and *nameserver* are the stored results of `make bench-operator` and of `make bench`.
    """
    services, grouped = operator["runs"][0]["services"], operator["groups"][0]["services"]
    groups = operator["groups"][0]["groups"]
    return [
        Column(
            f"{services} Services, a proxy each",
            (
                _goal(operator, "all StatefulSets made", "until all proxies are made"),
                _goal(operator, "CPU a Service made", "CPU a Service"),
                _goal(operator, "API writes a Service made", "API writes a Service"),
                _goal(operator, "memory with all of them", "memory"),
            ),
        ),
        Column(
            f"{grouped} Services in {groups} ProxyGroups",
            (
                _goal(operator, "groups: all entries written", "until all are configured"),
                _goal(operator, "groups: CPU a Service made", "CPU a Service"),
                _goal(operator, "groups: API writes a Service made", "API writes a Service"),
                _goal(operator, "groups: all Services removed", "until all are removed"),
            ),
        ),
        Column(
            "Nameserver, 1,000 names",
            (
                _best(nameserver, "paced", "cpu_us", "CPU a query, at 10,000 a second", "µs"),
                _best(nameserver, "saturated", "cpu_us", "CPU a query, saturated", "µs"),
                _best(nameserver, "tcp", "cpu_us", "CPU a query by TCP, saturated", "µs"),
                _best(nameserver, "saturated", "rss_mb", "memory", "MB"),
            ),
        ),
    ]


def render(parts: Sequence[Column], versions: Mapping[str, str]) -> str:
    """Return the SVG with the columns *parts*. *versions* are the versions of the two operators."""
    rows = max(len(part.measures) for part in parts)
    shapes = [*_legend(versions)]
    for number, part in enumerate(parts):
        x = 12 + number * _COLUMN
        shapes.append(f'<text class="head" x="{x}" y="{_TOP - 4}">{escape(part.title)}</text>')
        for row, measure in enumerate(part.measures):
            shapes += _bars(measure, x, _TOP + row * _ROW)
    return document(12 + len(parts) * _COLUMN, _TOP + rows * _ROW + 6, TITLE, shapes)


def stored() -> tuple[list[Column], Mapping[str, str]]:
    """Return the columns, and the versions of the operators, from the results in the repository."""
    operator, nameserver = (json.loads((RESULTS / f"{name}.json").read_text()) for name in ("operator", "nameserver"))
    return columns(operator, nameserver), operator["machine"]["versions"]


def _shown(value: float, unit: str) -> str:
    digits = f"{value:.0f}" if value >= 10 else f"{value:.1f}".removesuffix(".0")
    return f"{digits} {unit}".strip()


def _goal(results: Json, name: str, title: str) -> Measure:
    (found,) = (goal for goal in results["goals"] if goal["goal"] == name)
    return Measure(title, found["ours"]["measured"], found["go"]["measured"], found["unit"])


def _best(results: Json, scenario: str, figure: str, title: str, unit: str) -> Measure:
    best = {each["server"]: each["best"] for each in results["measurements"] if each["scenario"] == scenario}
    return Measure(title, best["ours"][figure], best["Go"][figure], unit)


def _legend(versions: Mapping[str, str]) -> Iterator[str]:
    ours = versions["ours"].partition(",")[0]
    names = (("made", ours, 12), ("box", f"Tailscale's operator {versions['Go'].split()[-1]}", 172))
    for kind, name, x in names:
        yield f'<rect class="{kind}" x="{x}" y="11" width="20" height="{_THICK}" rx="2"/>'
        yield f'<text class="label" x="{x + 28}" y="21">{escape(name)}</text>'
    yield '<text class="label" x="446" y="21">A shorter bar is better.</text>'


def _bars(measure: Measure, x: float, y: float) -> Iterator[str]:
    yield f'<text class="label" x="{x}" y="{y + 16}">{escape(measure.title)}</text>'
    longest = max(measure.ours, measure.go)
    pairs = zip(("made", "box"), (measure.ours, measure.go), measure.words, strict=True)
    for number, (kind, value, words) in enumerate(pairs):
        top, width = y + 22 + number * (_THICK + 2), max(2.0, _BAR * value / longest)
        yield f'<rect class="{kind}" x="{x}" y="{top}" width="{width:.1f}" height="{_THICK}" rx="2"/>'
        yield f'<text x="{x + width + 7:.1f}" y="{top + 10}">{escape(words)}</text>'


if __name__ == "__main__":
    TARGET.write_text(render(*stored()))
