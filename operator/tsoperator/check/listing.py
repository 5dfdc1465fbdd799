"""Shows the objects of a report: as a table, as JSON or YAML, or by their names. Pure."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from itertools import chain
from typing import Any, Final, NamedTuple

import yaml

from tsoperator.api.objects import RESOURCES
from tsoperator.check.report import OK, WAITING, LeaderReport, ReportedObject
from tsoperator.check.terminal import Colour, printable

_DUMPER: Final = getattr(yaml, "CSafeDumper", yaml.SafeDumper)  # a tenth of the time, where libyaml is there
_GROUPS: Final = {each.kind: each.group for each in RESOURCES.values()}
_NOTHING: Final = "-"
_GAP: Final = "   "
GONE: Final = "gone"
"""The verdict that ``--watch`` prints for an object that is no longer there."""

Raw = dict[str, Any]
"""An object, or a whole report, with the names and values of its JSON."""


class Form(StrEnum):
    """The form in which a list is printed."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


class ListColumn(NamedTuple):
    """A column of the table: its title, and the function that returns an object's text in it."""

    title: str
    cell: Callable[[ReportedObject], str]


@dataclass(frozen=True, slots=True)
class Chosen:
    """The objects that the user wants to see: those in *namespace* and those without one; None means all objects."""

    namespace: str | None

    def of(self, objects: Iterable[ReportedObject]) -> list[ReportedObject]:
        """Return those of *objects* that are chosen."""
        return [each for each in objects if self._has(each.namespace)]

    def raw(self, report: LeaderReport) -> Raw:
        """Return the JSON of *report* with the chosen objects only."""
        objects = [each for each in report.raw["objects"] if self._has(each.get("namespace") or "")]
        return {**report.raw, "objects": objects}

    def _has(self, namespace: str) -> bool:
        return self.namespace is None or namespace in ("", self.namespace)


@dataclass(frozen=True, slots=True)
class ListTable:
    """A table in kubectl's format, with a row for each object.

    Its lines have at most *width* characters; 0 means no limit.
    """

    columns: Sequence[ListColumn]
    coloured: bool
    width: int

    def cells(self, objects: Iterable[ReportedObject]) -> list[list[str]]:
        """Return the texts of the cells for *objects*, row by row."""
        return [[printable(column.cell(each)) or _NOTHING for column in self.columns] for each in objects]

    def widths(self, cells: Iterable[Sequence[str]]) -> list[int]:
        """Return the widths of the columns, so that all *cells* fit."""
        rows = chain([[column.title for column in self.columns]], cells)
        return [max(map(len, column)) for column in zip(*rows, strict=True)]

    def head(self, widths: Sequence[int]) -> str:
        """Return the line of titles."""
        return self._line([column.title for column in self.columns], widths)

    def rows(
        self, objects: Sequence[ReportedObject], cells: Iterable[Sequence[str]], widths: Sequence[int]
    ) -> list[str]:
        """Return the lines of the rows, each in the colour of its object's verdict."""
        found = [self._line(row, widths) for row in cells]
        if not self.coloured:
            return found
        return [colour_of(each.verdict, plain=True).paint(line) for each, line in zip(objects, found, strict=True)]

    def lines(self, objects: Sequence[ReportedObject]) -> list[str]:
        """Return the lines of the table with all *objects*."""
        cells = self.cells(objects)
        widths = self.widths(cells)
        return [self.head(widths), *self.rows(objects, cells, widths)]

    def _line(self, cells: Sequence[str], widths: Sequence[int]) -> str:
        *all_but_last, last = cells
        padded = (cell.ljust(width) for cell, width in zip(all_but_last, widths, strict=False))
        line = _GAP.join([*padded, last])
        return line[: self.width] if self.width else line


def colour_of(verdict: str, *, plain: bool) -> Colour:
    """Return the colour of a *verdict*. With *plain*, the verdict `ok` has no colour."""
    if verdict == OK:
        return Colour.NONE if plain else Colour.GREEN
    return Colour.YELLOW if verdict == WAITING else Colour.RED


def columns(form: Form, now: datetime, *, with_namespace: bool) -> list[ListColumn]:
    """Return the columns of the table in *form*. The ages in its cells are relative to *now*."""
    shown = [ListColumn("NAMESPACE", lambda each: each.namespace)] if with_namespace else []
    shown += [
        ListColumn("KIND", lambda each: each.kind),
        ListColumn("NAME", lambda each: each.name),
        ListColumn("ROLE", lambda each: each.role),
        ListColumn("TAILNET-NAME", lambda each: _first(each.names)),
        ListColumn("IN-CLUSTER", lambda each: each.in_cluster),
        ListColumn("READY", lambda each: f"{each.ready}/{each.wanted}" if each.wanted else ""),
        ListColumn("STATUS", status),
        ListColumn("SINCE", lambda each: age(each.since, now)),
    ]
    if form is Form.WIDE:
        shown += [
            ListColumn("ADDRESSES", lambda each: ",".join(each.addresses)),
            ListColumn("CLUSTER-ADDRESSES", lambda each: ",".join(each.cluster_addresses)),
            ListColumn("TAILNET", lambda each: each.tailnet),
            ListColumn("MESSAGE", lambda each: " ".join(filter(None, (each.words, each.cure)))),
        ]
    return shown


def status(each: ReportedObject) -> str:
    """Return the verdict on the object *each*, with the reason if the verdict isn't ``ok``."""
    return each.verdict if each.verdict == OK or not each.reason else f"{each.verdict}: {each.reason}"


def full_name(each: ReportedObject) -> str:
    """Return the name of *each* for kubectl, such as ``service/db`` or ``connector.tailscale.com/office``."""
    group = _GROUPS.get(each.kind, "")
    kind = each.kind.lower().replace(" ", "-")
    return printable(f"{kind}.{group}/{each.name}" if group else f"{kind}/{each.name}")


def age(since: str, now: datetime) -> str:
    """Return the time from *since*, in RFC 3339, to *now* in kubectl's format; empty if *since* is no time."""
    try:
        begun = datetime.fromisoformat(since)
    except ValueError:
        return ""
    if begun.tzinfo is None:
        begun = begun.replace(tzinfo=UTC)
    seconds = max(0, int((now - begun).total_seconds()))
    for unit, length, limit in (("s", 1, 120), ("m", 60, 120), ("h", 3600, 48)):
        if seconds < limit * length:
            return f"{seconds // length}{unit}"
    return f"{seconds // 86400}d"


def as_document(form: Form, value: Raw) -> str:
    """Return *value* as JSON or as YAML."""
    if form is Form.JSON:
        return json.dumps(value, indent=2)
    text: str = yaml.dump(value, Dumper=_DUMPER, sort_keys=False, allow_unicode=True, default_flow_style=False)
    return text.rstrip("\n")


def changes(before: Iterable[Raw], now: Iterable[Raw]) -> Iterator[Raw]:
    """Yield those objects of *now* that are new or changed, and those only in *before*, with the verdict ``gone``."""
    old = {_identity(each): each for each in before}
    for each in now:
        if old.pop(_identity(each), None) != each:
            yield each
    for each in old.values():
        yield {**each, "verdict": GONE, "reason": ""}


def _identity(each: Raw) -> tuple[str, str, str]:
    return each["kind"], each.get("namespace") or "", each["name"]


def _first(names: Sequence[str]) -> str:
    return f"{names[0]} +{len(names) - 1}" if len(names) > 1 else "".join(names)
