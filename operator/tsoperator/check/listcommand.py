"""The command ``tsoperator list``: prints the leader's report on the objects that it serves."""

import argparse
import json
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NoReturn

from tsoperator.check.leader import LeaderReports, NoReport, OperatorPlace
from tsoperator.check.listing import Chosen, Form, ListTable, Raw, as_document, changes, columns, full_name
from tsoperator.check.report import LeaderReport, ReportedObject
from tsoperator.check.terminal import CLEAR, is_coloured, let_go_of_stdout, printable, redrawn
from tsoperator.kube.config import current_namespace

_PAUSE: Final = 2.0  # s between two looks of --watch
_WELL, _NOT_ASKED = 0, 1
_TABLES: Final = (Form.TABLE, Form.WIDE)


def run_list(arguments: argparse.Namespace) -> int:
    """Print the list once, or with ``--watch`` again at each change until the user interrupts; return the exit code."""
    place = OperatorPlace.of(arguments)
    reports = LeaderReports(place)
    shown = ListView(Form(arguments.output), _chosen(arguments, place), is_coloured(sys.stdout))
    try:
        if arguments.watch:
            _watch(reports, shown)
        report = reports.fetch()
        sys.stdout.write(shown.whole(report))
        sys.stdout.flush()
        sys.stderr.write(shown.aside(report))
    except NoReport as error:
        sys.stderr.write(_complaint(error))
        return _NOT_ASKED
    except BrokenPipeError:  # the reader has seen enough, such as `head`
        let_go_of_stdout()
    except KeyboardInterrupt:  # a user ends --watch by Ctrl-C
        return _WELL
    finally:
        reports.close()
    return _WELL


@dataclass(frozen=True, slots=True)
class ListView:
    """The way to print the list: its form, which objects are in it, and whether it has colours."""

    form: Form
    chosen: Chosen
    coloured: bool

    def whole(self, report: LeaderReport) -> str:
        """Return the text of the whole list."""
        if self.form in (Form.JSON, Form.YAML):
            return f"{as_document(self.form, self.chosen.raw(report))}\n"
        objects = self.chosen.of(report.objects)
        if self.form is Form.NAME:
            return "".join(f"{full_name(each)}\n" for each in objects)
        return "".join(f"{line}\n" for line in self.table().lines(objects)) if objects else ""

    def table(self, width: int = 0) -> ListTable:
        """Return an empty table with its columns. Lines have at most *width* characters; 0 means no limit."""
        shown = columns(self.form, datetime.now(UTC), with_namespace=self.chosen.namespace is None)
        return ListTable(shown, self.coloured, width)

    def aside(self, report: LeaderReport) -> str:
        """Return a line for stderr that says that the table is empty, or that other namespaces have objects.

        Return an empty text if neither is so, or if the list isn't printed as a table. If the table has objects, return
        the line only if stderr is a terminal.
        """
        objects = self.chosen.of(report.objects)
        others = len(report.objects) - len(objects)
        if self.form not in _TABLES or (objects and not (others and sys.stderr.isatty())):
            return ""
        where = "" if self.chosen.namespace is None else f" in namespace {self.chosen.namespace}"
        words = "" if objects else f"The operator serves nothing{where}."
        return (
            " ".join(filter(None, (words, f"In other namespaces: {others} (-A shows them)" if others else ""))) + "\n"
        )

    @property
    def redraws(self) -> bool:
        """True if ``--watch`` redraws the whole table at a change, as on a terminal, and doesn't append the change."""
        return self.form in _TABLES and sys.stdout.isatty()


def _watch(reports: LeaderReports, shown: ListView) -> NoReturn:
    """Show the list and then its changes, until an interrupt raises KeyboardInterrupt.

    If the first look fails, raises NoReport. Later, there can be no leader for a while, so we say so and look again.
    """
    show = _redraw(shown) if shown.redraws else _append(shown)
    report, complaint = reports.fetch(), ""
    while True:
        if not complaint:
            show(report)
        time.sleep(_PAUSE)
        try:
            report, complaint = reports.fetch(), ""
        except NoReport as error:
            if str(error) != complaint:
                sys.stderr.write(_complaint(error))
            complaint = str(error)


def _redraw(shown: ListView) -> Callable[[LeaderReport], None]:
    """Return a function that draws the table of a report on the terminal, in place of the previous table."""
    drawn = ""

    def redraw(report: LeaderReport) -> None:
        nonlocal drawn
        size = shutil.get_terminal_size()
        lines = shown.table(size.columns).lines(shown.chosen.of(report.objects))
        if len(lines) >= size.lines:
            hidden = len(lines) - size.lines + 2
            lines = [*lines[: size.lines - 2], f"... and {hidden} more"]
        text = redrawn(lines)
        if text != drawn:
            _print(text if drawn else CLEAR + text)
        drawn = text

    return redraw


def _append(shown: ListView) -> Callable[[LeaderReport], None]:
    """Return a function that prints those objects of a report that have changed since the previous report."""
    before: list[Raw] = []
    widths: list[int] = []

    def append(report: LeaderReport) -> None:
        nonlocal before, widths
        now = shown.chosen.raw(report)["objects"]
        changed = [*changes(before, now)]
        before = now
        if shown.form not in _TABLES:
            _print("".join(_entry(shown.form, each) for each in changed))
            return
        table, objects = shown.table(), [ReportedObject.model_validate(each) for each in changed]
        cells = table.cells(objects)
        head = not widths
        widths = widths or table.widths(cells)
        _print(
            "".join(f"{line}\n" for line in ([table.head(widths)] if head else []) + table.rows(objects, cells, widths))
        )

    return append


def _entry(form: Form, each: Raw) -> str:
    """Return the text of the object *each* in a stream of changes."""
    match form:
        case Form.JSON:
            return f"{json.dumps(each)}\n"
        case Form.YAML:
            return f"---\n{as_document(form, each)}\n"
        case _:
            return f"{full_name(ReportedObject.model_validate(each))}\n"


def _print(text: str) -> None:
    if text:
        sys.stdout.write(text)
        sys.stdout.flush()


def _complaint(error: NoReport) -> str:
    return f"tsoperator: {printable(str(error))}\nTo do: {printable(error.cure)}\n"


def _chosen(arguments: argparse.Namespace, place: OperatorPlace) -> Chosen:
    if arguments.all_namespaces or (place.is_inside and not arguments.namespace):
        return Chosen(None)
    return Chosen(arguments.namespace or current_namespace(place.kubeconfig, place.context))
