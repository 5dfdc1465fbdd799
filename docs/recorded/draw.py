"""Draws recordings of programs as SVGs: the panels of a Grafana dashboard, and the commands in a terminal."""

from collections.abc import Iterator, Sequence
from html import escape
from typing import Final, NamedTuple

COLORS: Final = ("#0969da", "#bc4c00", "#1a7f37", "#8250df", "#bf3989", "#9a6700", "#57606a", "#0550ae")
STYLE: Final = """
text { font: 12px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328 }
.title { font-weight: 600 }
.row { font-size: 15px; font-weight: 600 }
.small { font-size: 10px; fill: #59636e }
.stat { font-size: 26px; fill: #0969da }
.panel { fill: #ffffff; stroke: #d1d9e0 }
.grid { stroke: #d1d9e0; stroke-width: 0.5 }
.line { fill: none; stroke-width: 1.5 }
@media (prefers-color-scheme: dark) {
text { fill: #f0f6fc }
.small { fill: #b1bac4 }
.stat { fill: #4493f8 }
.panel { fill: #151b23; stroke: #3d444d }
.grid { stroke: #3d444d }
}
"""
WIDTH: Final = 1000
_COLUMNS: Final = 3
_GAP: Final = 10
_STAT_COLUMNS: Final = 7
_LEGENDS: Final = 6


class Line(NamedTuple):
    """A series of a panel: its name, and its points.

    A point is a time and a value. Times are in seconds from the end of the recording: negative, or 0 for the end.
    """

    name: str
    points: tuple[tuple[float, float], ...]


class Panel(NamedTuple):
    """A panel of a Grafana dashboard. Its *kind* is ``row``, ``stat`` or ``timeseries``."""

    title: str
    kind: str
    unit: str = ""
    lines: tuple[Line, ...] = ()


def draw_panels(title: str, panels: Sequence[Panel]) -> str:
    """Return an SVG with *panels* arranged in rows. *title* describes the picture for readers who can't see it."""
    parts: list[str] = []
    y, column = float(_GAP), 0
    height, columns = 0.0, _COLUMNS
    for panel in panels:
        wanted = _STAT_COLUMNS if panel.kind == "stat" else _COLUMNS
        if panel.kind == "row" or column == columns or (column and wanted != columns):
            y, column = y + height + (_GAP if height else 0), 0
        if panel.kind == "row":
            parts.append(f'<text class="row" x="{_GAP}" y="{y + 18:.0f}">{escape(panel.title)}</text>')
            y, height = y + 28, 0.0
            continue
        columns, height = wanted, 74.0 if panel.kind == "stat" else 170.0
        width = (WIDTH - _GAP * (columns + 1)) / columns
        x = _GAP + column * (width + _GAP)
        parts.append(f'<g transform="translate({x:.1f} {y:.1f})">{"".join(_panel(panel, width, height))}</g>')
        column += 1
    return _svg(title, STYLE, WIDTH, y + height + _GAP, parts)


def _panel(panel: Panel, width: float, height: float) -> Iterator[str]:
    yield f'<rect class="panel" width="{width:.1f}" height="{height}" rx="4"/>'
    if panel.kind == "stat":
        yield from _wrapped(panel.title, width)
        values = [line.points[-1][1] for line in panel.lines if line.points]
        shown = _number(values[0], panel.unit) if values else "none"
        yield f'<text class="stat" x="8" y="{height - 10:.0f}">{escape(shown)}</text>'
        return
    yield f'<text class="title" x="8" y="17">{escape(panel.title)}</text>'
    lines = [line for line in panel.lines if line.points]
    if not lines:
        place = f'x="{width / 2:.0f}" y="{height / 2:.0f}" text-anchor="middle"'
        yield f'<text class="small" {place}>nothing, as it should be</text>'
        return
    yield from _plot(lines, panel.unit, width, height)
    yield from _legend(lines, width, height)


def _wrapped(title: str, width: float) -> Iterator[str]:
    """Yield the SVG elements of a panel's *title*, which is wrapped into lines of at most *width* pixels."""
    words, rows = title.split(), [""]
    for word in words:
        if len(rows[-1]) + len(word) + 1 > width / 7.6 and rows[-1]:
            rows.append("")
        rows[-1] = f"{rows[-1]} {word}".strip()
    for number, row in enumerate(rows):
        yield f'<text class="title" x="8" y="{17 + 14 * number}">{escape(row)}</text>'


def _plot(lines: Sequence[Line], unit: str, width: float, height: float) -> Iterator[str]:
    left, top, right, bottom = 48.0, 28.0, width - 8, height - 44
    times = [at for line in lines for at, _ in line.points]
    values = [value for line in lines for _, value in line.points]
    first, span = min(times), (max(times) - min(times)) or 1.0
    lowest, highest = min(0.0, *values), max(values)
    if highest <= lowest:
        highest = lowest + 1
    for share in (0.0, 0.5, 1.0):
        y = bottom - share * (bottom - top)
        label = _number(lowest + share * (highest - lowest), unit)
        yield f'<line class="grid" x1="{left}" y1="{y:.1f}" x2="{right:.1f}" y2="{y:.1f}"/>'
        yield f'<text class="small" x="{left - 4}" y="{y + 3:.1f}" text-anchor="end">{escape(label)}</text>'
    for number, line in enumerate(lines):
        points = " ".join(
            f"{left + (at - first) / span * (right - left):.1f},"
            f"{bottom - (value - lowest) / (highest - lowest) * (bottom - top):.1f}"
            for at, value in line.points
        )
        yield f'<polyline class="line" stroke="{COLORS[number % len(COLORS)]}" points="{points}"/>'


def _legend(lines: Sequence[Line], width: float, height: float) -> Iterator[str]:
    """Yield the SVG elements of a legend with the names of *lines*, in two rows of three.

    If there are more than six lines, the last name is the number of the lines that are left out.
    """
    room = (width - 16) / 3
    for number, line in enumerate(lines[:_LEGENDS]):
        x, y = 8 + number % 3 * room, height - 26 + number // 3 * 14
        name = line.name if number < _LEGENDS - 1 or len(lines) == _LEGENDS else f"and {len(lines) - number} more"
        short = name if len(name) <= room / 6.6 else f"{name[: int(room / 6.6) - 1]}…"
        yield f'<rect x="{x:.1f}" y="{y - 7:.1f}" width="8" height="3" fill="{COLORS[number % len(COLORS)]}"/>'
        yield f'<text class="small" x="{x + 12:.1f}" y="{y:.1f}">{escape(short)}</text>'


def _number(value: float, unit: str) -> str:
    if unit == "percentunit":
        return f"{100 * value:.3g} %"
    if unit == "bytes":
        return f"{value / 2**20:.3g} MB"
    if unit == "s" and value >= 2 * 86400:
        return f"{value / 86400:.3g} days"
    if unit == "s":
        return f"{value:.3g} s" if value >= 1 or value == 0 else f"{1000 * value:.3g} ms"
    return f"{value:.3g}"


TERMINAL_STYLE: Final = """
.screen { fill: #0d1117 }
.bar { fill: #21262d }
text { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace }
text { fill: #e6edf3; white-space: pre }
.typed { fill: #7ee787; font-weight: 600 }
.said { fill: #8b949e }
.wrong { fill: #ff7b72 }
.ok { fill: #7ee787 }
.scene { opacity: 0 }
.first { opacity: 1 }
"""
_LETTER: Final = 7.85
_ROW: Final = 18.0


class Scene(NamedTuple):
    """A command, its output, and the seconds for which the picture shows both. *words* say what the command is for."""

    words: str
    command: str
    output: tuple[str, ...]
    seconds: float


def draw_terminal(title: str, scenes: Sequence[Scene], columns: int) -> str:
    """Return an SVG that shows *scenes* one after the other, again and again; *columns* is the width in characters."""
    rows = max(len(scene.output) for scene in scenes) + 3
    width, height = columns * _LETTER + 32, rows * _ROW + 52
    total = sum(scene.seconds for scene in scenes)
    style, parts, began = [TERMINAL_STYLE], [], 0.0
    parts.append(f'<rect class="screen" width="{width:.0f}" height="{height:.0f}" rx="8"/>')
    parts.append(f'<path class="bar" d="M0 28V8a8 8 0 0 1 8-8H{width - 8:.0f}a8 8 0 0 1 8 8V28z"/>')
    for number, color in enumerate(("#ff5f57", "#febc2e", "#28c840")):
        parts.append(f'<circle cx="{18 + 18 * number}" cy="14" r="5" fill="{color}"/>')
    for number, scene in enumerate(scenes):
        start, end = 100 * began / total, 100 * (began + scene.seconds) / total
        hidden = f"0%,{start:.2f}%{{opacity:0}}{start + 0.01:.2f}%" if number else "0%"
        frames = f"{hidden},{end - 0.01:.2f}%{{opacity:1}}{end:.2f}%,100%{{opacity:0}}"
        style.append(f"@keyframes scene{number}{{{frames}}}")
        style.append(f"#scene{number}{{animation:scene{number} {total:g}s step-end infinite}}")
        kind = "scene first" if number == 0 else "scene"
        parts.append(f'<g id="scene{number}" class="{kind}">{"".join(_scene(scene, columns))}</g>')
        began += scene.seconds
    style.append("@media (prefers-reduced-motion: reduce) { .scene { animation: none !important } }")
    return _svg(title, "\n".join(style), width, height, parts)


def _scene(scene: Scene, columns: int) -> Iterator[str]:
    yield _text("said", 0, f"# {scene.words}")
    yield _text("typed", 1, f"$ {scene.command}")
    for number, line in enumerate(scene.output):
        short = line if len(line) <= columns else f"{line[: columns - 1]}…"
        wrong = line.startswith(("FAILED", "    To do"))
        yield _text("wrong" if wrong else "ok" if line.startswith("ok") else "", number + 2, short)


def _text(kind: str, row: int, words: str) -> str:
    return f'<text class="{kind}" x="16" y="{50 + row * _ROW:.0f}" xml:space="preserve">{escape(words)}</text>'


def _svg(title: str, style: str, width: float, height: float, parts: Sequence[str]) -> str:
    size = f'viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">'
    return "\n".join((head, f"<title>{escape(title)}</title>", f"<style>{style}</style>", *parts, "</svg>", ""))
