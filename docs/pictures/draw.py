"""Draws the pictures of the documentation: `make pictures` writes an SVG for each text file in this folder.

A text has one shape a line; ``#`` begins a comment, and `` | `` separates the lines of a label. Lengths are pixels.

    picture 700 x 300: what the picture shows, for readers who can't see it
    area 10 10 400 280: the cluster
    box pod 30 50 120 54: Pod | curl http://db
    made proxy 250 50 120 54: Proxy | which the operator runs
    arrow pod -> proxy: traffic
    dashed pod.bottom+20 -> proxy.bottom left: control

A `box` stands for something that the user has, and `made` for something that the operator makes. An arrow connects a
side of one shape with a side of another; ``a <-> b`` has a tip at both ends. If the text names no sides, the arrow
connects the sides that face each other. ``+20`` moves the end of the arrow along the side, by 20 pixels. The label is
above a horizontal line, and to the right of a vertical one; `below` or `left` puts the label on the other side.

A text that doesn't fit, and shapes or labels that overlap, are errors.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import combinations, pairwise
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent
TEXT_SIZE: Final = 13
LINE_HEIGHT: Final = 17
LETTER_WIDTH: Final = 0.6 * TEXT_SIZE
"""The mean width of a letter in DejaVu Sans, the widest of the fonts that readers are likely to have."""
BOLD: Final = 1.1
"""The width of a bold letter, as a multiple of the width of a normal letter."""
GAP: Final = 6
"""The distance between a vertical line and its label, in pixels. At a horizontal line, it is half of that."""

STYLE: Final = """
text { font: 13px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328 }
.head { font-weight: 600 }
.label, .name { fill: #59636e }
.area { fill: #f6f8fa; stroke: #d1d9e0 }
.box { fill: #ffffff; stroke: #818b98 }
.made { fill: #ddf4ff; stroke: #0969da }
.line { fill: none; stroke: #59636e; stroke-width: 1.5 }
.dashed { stroke-dasharray: 5 4 }
.tip { fill: #59636e }
@media (prefers-color-scheme: dark) {
text { fill: #f0f6fc }
.label, .name { fill: #b1bac4 }
.area { fill: #151b23; stroke: #3d444d }
.box { fill: #212830; stroke: #9198a1 }
.made { fill: #0c2d6b; stroke: #4493f8 }
.line { stroke: #b1bac4 }
.tip { fill: #b1bac4 }
}
"""

_PICTURE = re.compile(r"picture (\d+) x (\d+)")
_SHAPE = re.compile(r"(area|box|made)(?: ([a-z0-9-]+))? (\d+) (\d+) (\d+) (\d+)")
_ARROW = re.compile(r"(arrow|dashed) (\S+) (->|<->) (\S+)(?: (below|left))?")
_END = re.compile(r"([a-z0-9-]+)(?:\.(top|bottom|left|right)([+-]\d+)?)?")
Point = tuple[float, float]


class PictureError(Exception):
    """A text can't be drawn. The message says why and, if a line of the text is wrong, which line."""


@dataclass(frozen=True, slots=True)
class Rectangle:
    """A part of a picture. *x* and *y* are pixels from the upper left corner of the picture."""

    x: float
    y: float
    width: float
    height: float

    def overlaps(self, other: "Rectangle") -> bool:
        """Tell whether this rectangle and *other* share more than an edge."""
        beside = self.x + self.width <= other.x or other.x + other.width <= self.x
        return not (beside or self.y + self.height <= other.y or other.y + other.height <= self.y)

    def holds(self, other: "Rectangle") -> bool:
        """Tell whether *other* is within this rectangle."""
        right, bottom = self.x + self.width, self.y + self.height
        wide = self.x <= other.x and other.x + other.width <= right
        return wide and self.y <= other.y and other.y + other.height <= bottom

    def end(self, side: str, shift: float) -> Point:
        """Return the point in the middle of *side*, moved by *shift* pixels along the side."""
        middle_x, middle_y = self.x + self.width / 2 + shift, self.y + self.height / 2 + shift
        return {
            "top": (middle_x, self.y),
            "bottom": (middle_x, self.y + self.height),
            "left": (self.x, middle_y),
            "right": (self.x + self.width, middle_y),
        }[side]


@dataclass(frozen=True, slots=True)
class Shape:
    """An area or a box. *kind* is its class in `STYLE`: ``area``, ``box`` or ``made``."""

    kind: str
    place: Rectangle
    label: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Arrow:
    """A line of horizontal and vertical pieces. If it has a label, the label is at *place*.

    *anchor* is the ``text-anchor`` of the label in SVG.
    """

    kind: str
    both_ways: bool
    points: tuple[Point, ...]
    label: tuple[str, ...]
    place: Rectangle | None
    anchor: str

    def pieces(self) -> Iterator[Rectangle]:
        """Yield the straight pieces of the line, each as a thin rectangle."""
        for (x1, y1), (x2, y2) in pairwise(self.points):
            yield Rectangle(min(x1, x2), min(y1, y2), abs(x1 - x2) or 1, abs(y1 - y2) or 1)


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture as its text describes it: areas, boxes and arrows."""

    size: Rectangle
    title: str
    shapes: dict[str, Shape]
    arrows: tuple[Arrow, ...]


def read(text: str) -> Picture:
    """Return the picture that *text* describes; raises PictureError."""
    size, title = None, ""
    shapes: dict[str, Shape] = {}
    arrows: list[Arrow] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        what, _, said = line.partition(": ")
        label = tuple(said.split(" | ")) if said else ()
        try:
            if found := _PICTURE.fullmatch(what):
                size, title = Rectangle(0, 0, *map(int, found.groups())), said
            elif found := _SHAPE.fullmatch(what):
                kind, name, *numbers = found.groups()
                shapes[name or f"area {number}"] = _shape(kind, Rectangle(*map(int, numbers)), label)
            elif found := _ARROW.fullmatch(what):
                arrows.append(_arrow(found, shapes, label))
            else:
                raise PictureError("no shape is written like that")
        except PictureError as error:
            raise PictureError(f"line {number}: {error}") from None
    if size is None:
        raise PictureError("no line gives the size, as in: picture 700 x 300: a title")
    picture = Picture(size, title, shapes, tuple(arrows))
    _check(picture)
    return picture


def render(picture: Picture) -> str:
    """Return *picture* as an SVG, which is light or dark as the reader's browser asks."""
    lines = [
        '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
        'orient="auto-start-reverse" markerUnits="userSpaceOnUse"><path class="tip" d="M0 0 8 4 0 8z"/></marker>',
    ]
    for shape in picture.shapes.values():
        x, y, wide, high = shape.place.x, shape.place.y, shape.place.width, shape.place.height
        lines.append(f'<rect class="{shape.kind}" x="{x}" y="{y}" width="{wide}" height="{high}" rx="6"/>')
        lines += _area_name(shape) if shape.kind == "area" else _box_text(shape)
    for arrow in picture.arrows:
        path = " ".join(f"{x:g} {y:g}" for x, y in arrow.points)
        start = ' marker-start="url(#tip)"' if arrow.both_ways else ""
        lines.append(f'<path class="line {arrow.kind}" d="M{path}"{start} marker-end="url(#tip)"/>')
        if arrow.place:
            lines += _label_text(arrow, arrow.place)
    return document(picture.size.width, picture.size.height, picture.title, lines)


def document(width: float, height: float, title: str, shapes: Sequence[str]) -> str:
    """Return an SVG with *shapes*, which are SVG elements. *title* describes it for readers who can't see it."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img">'
    return "\n".join([head, f"<title>{escape(title)}</title>", f"<style>{STYLE}</style>", *shapes, "</svg>", ""])


def main(arguments: Sequence[str]) -> int:
    """Write the SVGs. With ``--check``, write nothing, but report each SVG that its text no longer describes.

    Return the exit code: 1 if a text can't be drawn or an SVG was reported, and otherwise 0.
    """
    stale = []
    for source in sorted(FOLDER.glob("*.txt")):
        try:
            drawn = render(read(source.read_text()))
        except PictureError as error:
            sys.stderr.write(f"{source.name}, {error}\n")
            return 1
        target = source.with_suffix(".svg")
        if "--check" not in arguments:
            target.write_text(drawn)
        elif not target.exists() or target.read_text() != drawn:
            stale.append(target.name)
    if stale:
        sys.stderr.write(f"not what the texts describe, so run `make pictures`: {', '.join(stale)}\n")
    return 1 if stale else 0


def text_width(text: str) -> float:
    """Return the estimated width of *text* in the widest font, in pixels."""
    return len(text) * LETTER_WIDTH


def _shape(kind: str, place: Rectangle, label: tuple[str, ...]) -> Shape:
    factors = (BOLD, *(1.0 for _ in label[1:]))
    widest = max((text_width(text) * factor for text, factor in zip(label, factors, strict=True)), default=0)
    if widest > place.width - 8 or len(label) * LINE_HEIGHT > place.height - 4:
        raise PictureError(f"{_name(label)} needs {widest + 8:.0f} x {len(label) * LINE_HEIGHT + 4} pixels")
    return Shape(kind, place, label)


def _arrow(found: re.Match[str], shapes: dict[str, Shape], label: tuple[str, ...]) -> Arrow:
    kind, start, tips, end, other_side = found.groups()
    both_ways = tips == "<->"
    points = _route(_End.parse(start, shapes), _End.parse(end, shapes))
    if not label:
        return Arrow(kind, both_ways, points, label, None, "")
    place, anchor = _label_place(points, label, bool(other_side))
    return Arrow(kind, both_ways, points, label, place, anchor)


@dataclass(frozen=True, slots=True)
class _End:
    """The start or the end of an arrow, on one *side* of a shape. If *side* is empty, `_straight` chooses the point."""

    place: Rectangle
    side: str
    shift: float

    @classmethod
    def parse(cls, text: str, shapes: dict[str, Shape]) -> "_End":
        found = _END.fullmatch(text)
        if not found or found[1] not in shapes:
            raise PictureError(f"no box above is named {text.partition('.')[0]!r}")
        return cls(shapes[found[1]].place, found[2] or "", float(found[3] or 0))

    @property
    def point(self) -> Point:
        return self.place.end(self.side, self.shift)

    @property
    def is_upright(self) -> bool:
        return self.side in ("top", "bottom")


def _route(start: _End, end: _End) -> tuple[Point, ...]:
    """Return the points of a line from *start* to *end*: its two ends, and the corners between them."""
    if not start.side and not end.side:
        return _straight(start.place, end.place)
    if not start.side or not end.side:
        raise PictureError("give both ends a side, or none")
    (x1, y1), (x2, y2) = start.point, end.point
    if start.is_upright != end.is_upright:
        corner = (x1, y2) if start.is_upright else (x2, y1)
        return (start.point, corner, end.point)
    if x1 == x2 or y1 == y2:
        return (start.point, end.point)
    if start.is_upright:
        middle = (y1 + y2) / 2
        return (start.point, (x1, middle), (x2, middle), end.point)
    middle = (x1 + x2) / 2
    return (start.point, (middle, y1), (middle, y2), end.point)


def _straight(a: Rectangle, b: Rectangle) -> tuple[Point, Point]:
    """Return both ends of a straight line between the sides of *a* and *b* that face each other."""
    top, bottom = max(a.y, b.y), min(a.y + a.height, b.y + b.height)
    if top < bottom:
        y = (top + bottom) / 2
        return ((a.x + a.width, y), (b.x, y)) if a.x < b.x else ((a.x, y), (b.x + b.width, y))
    left, right = max(a.x, b.x), min(a.x + a.width, b.x + b.width)
    if left < right:
        x = (left + right) / 2
        return ((x, a.y + a.height), (x, b.y)) if a.y < b.y else ((x, a.y), (x, b.y + b.height))
    raise PictureError("the boxes don't face each other: give both ends a side")


def _label_place(points: Sequence[Point], label: Sequence[str], other_side: bool) -> tuple[Rectangle, str]:
    """Return the rectangle for the label of a line, and the label's anchor.

    The label is at the middle of the line's longest piece: above a horizontal piece, or to the right of a vertical one.
    With *other_side*, it is below the piece or to its left.
    """
    pairs = pairwise(points)
    (x1, y1), (x2, y2) = max(pairs, key=lambda pair: abs(pair[0][0] - pair[1][0]) + abs(pair[0][1] - pair[1][1]))
    width, height = max(map(text_width, label)), LINE_HEIGHT * len(label)
    if y1 == y2:
        y = y1 + GAP / 2 if other_side else y1 - GAP / 2 - height
        return Rectangle((x1 + x2 - width) / 2, y, width, height), "middle"
    x = x1 - GAP - width if other_side else x1 + GAP
    return Rectangle(x, (y1 + y2 - height) / 2, width, height), "end" if other_side else "start"


def _check(picture: Picture) -> None:
    """Raise PictureError if a box or a label is outside the picture, overlaps another one, or is crossed by a line."""
    solid = [(shape.label, shape.place) for shape in picture.shapes.values() if shape.kind != "area"]
    solid += [(arrow.label, arrow.place) for arrow in picture.arrows if arrow.place]
    for label, place in solid:
        if not picture.size.holds(place):
            raise PictureError(f"{_name(label)} is not within the picture")
        for arrow in picture.arrows:
            if any(piece.overlaps(place) for piece in arrow.pieces()):
                raise PictureError(f"the line {_name(arrow.label)} crosses {_name(label)}")
    for (label, place), (other_label, other_place) in combinations(solid, 2):
        if place.overlaps(other_place):
            raise PictureError(f"{_name(label)} overlaps {_name(other_label)}")


def _name(label: Sequence[str]) -> str:
    return repr(" | ".join(label))


def _area_name(shape: Shape) -> list[str]:
    return _texts("name", (shape.place.x + 10, shape.place.y + 5), "start", shape.label)


def _box_text(shape: Shape) -> list[str]:
    place = shape.place
    top = place.y + (place.height - LINE_HEIGHT * len(shape.label)) / 2
    head, *rest = _texts("text", (place.x + place.width / 2, top), "middle", shape.label)
    return [head.replace('class="text"', 'class="head"'), *rest]


def _label_text(arrow: Arrow, place: Rectangle) -> list[str]:
    x = place.x + place.width * {"start": 0, "middle": 0.5, "end": 1}[arrow.anchor]
    return _texts("label", (x, place.y), arrow.anchor, arrow.label)


def _texts(kind: str, at: Point, anchor: str, lines: Sequence[str]) -> list[str]:
    x, y = at
    return [
        f'<text class="{kind}" x="{x:g}" y="{y + LINE_HEIGHT * number + TEXT_SIZE:g}" text-anchor="{anchor}">'
        f"{escape(line)}</text>"
        for number, line in enumerate(lines)
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
