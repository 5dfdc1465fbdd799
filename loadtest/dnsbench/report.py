"""The report on a run: tables in Markdown, and the JSON of the results (pure)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dnsbench.goals import Verdict
from dnsbench.measure import PERCENTS, Row, Sample
from dnsbench.scenarios import Scenario
from dnsbench.servers import Kind
from dnsbench.soak import Soaked

_SUMMARY = (
    ("saturated", "saturated, 1,000 names", "{}"),
    ("sizes", "saturated, 100,000 names", "{}, 100,000 names"),
    ("paced", "10,000 queries a second", "{}"),
    ("flood", "saturated, names that don't exist", "{}, misses"),
    ("tcp", "TCP, saturated", "{}"),
    ("tcp-new", "TCP, saturated, a connection a query", "{}"),
)
"""The rows of the table in the README: a scenario, its title in the table, and the labels of its contestants."""
_HEADS = {
    "ours": "ours",
    "ours/Python": "ours, its loop in Python",
    "Go": "Go (`k8s-nameserver`)",
    "NSD": "NSD",
    "Knot": "Knot",
    "echo": "a bare echo (the kernel alone)",
}
BUSY = 0.97
"""The greatest share of time in which the client can be busy without a warning.

A client that is busy for longer may be too slow for the server, so that the rate says little about the server.
"""
_COLUMNS = ("", "CPU µs", "worst", "q/s", "p50 ms", "p99 ms", "p99.9 ms", "p99.99 ms", "longest ms", "stall ms")
_MORE_COLUMNS = ("answered %", "wrong", "RSS MB", "client µs", "client busy", "client stall ms")


def table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table with the first column aligned to the left and the others to the right."""
    rows = [list(head), *(list(line) for line in lines)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    rows.insert(1, ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])])
    padded = (
        [
            cell.ljust(width) if not column else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        for row in rows
    )
    return "\n".join(f"| {' | '.join(row)} |" for row in padded)


def measurements(scenario: Scenario, rows: Sequence[Row]) -> str:
    """Return the table of the measurements in one *scenario*."""
    lines = [(row.label, *_cells(row)) for row in rows if row.scenario == scenario.name]
    text = f"### {scenario.title}\n\n{table((*_COLUMNS, *_MORE_COLUMNS), lines)}"
    limited = [row.label for row in rows if row.scenario == scenario.name and row.best.client_busy > BUSY]
    if limited and not scenario.load.rates:
        text += f"\n\nThe client was the limit with {', '.join(limited)}: CPU a query stands, q/s is at least that."
    changes = sum(row.best.changes for row in rows if row.scenario == scenario.name)
    return f"{text}\n\nChanges seen to be served within a second: {changes}." if changes else text


def _cells(row: Row) -> tuple[str, ...]:
    best = row.best
    times = (best.p50_us, best.p99_us, best.p999_us, best.p9999_us, best.longest_us, best.stall_us)
    return (
        _known(best.cpu_us),
        _known(max(each.cpu_us for each in row.rounds)),
        f"{best.qps:,.0f}",
        *map(_milliseconds, times),
        f"{100 - best.lost_percent:.{2 if best.lost else 0}f}",
        f"{best.wrong:,}",
        f"{best.rss_mb:.0f}",
        _known(best.client_cpu_us),
        f"{best.client_busy:.0%}",
        _milliseconds(best.client_stall_us),
    )


def _known(figure: float) -> str:
    """Return *figure* as text, or a dash for 0, which stands for a figure that wasn't measured."""
    return f"{figure:.2f}" if figure else "-"


def _milliseconds(microseconds: float) -> str:
    return _known(microseconds / 1000)


def verdicts(all_: Sequence[Verdict]) -> str:
    """Return the table of the verdicts *all_*: a row for each goal."""
    lines = [(each.text, _limit(each), _figure(each), _spread_of(each), _word(each)) for each in all_]
    return f"### Goals\n\n{table(('', 'goal', 'measured', 'rounds', ''), lines)}"


def _limit(verdict: Verdict) -> str:
    return "none" if verdict.limit is None else f"≤ {verdict.limit:g} {verdict.unit}".strip()


def _spread_of(verdict: Verdict) -> str:
    """Return the lowest and the highest figure of all rounds, as text."""
    return f"{min(verdict.rounds):.2f} to {max(verdict.rounds):.2f}" if len(verdict.rounds) > 1 else ""


def _figure(verdict: Verdict) -> str:
    if verdict.figure is None:
        return "not measured"
    return f"{verdict.figure:.2f} {verdict.unit}" if verdict.unit else f"{verdict.figure:,.0f}"


def _word(verdict: Verdict) -> str:
    if verdict.figure is None or verdict.limit is None:
        return "-"
    return "MISSED" if verdict.missed else "met"


def soaked(all_: Soaked) -> str:
    """Return the table of a soak, with the numbers of queries and of each sort of answer."""
    seen = all_.seen.tally
    times = zip(PERCENTS, seen.latency.percentiles(PERCENTS), strict=True)
    lines = [
        ("queries", f"{seen.sent:,}"),
        ("hostile packets besides", f"{seen.malformed_sent:,}"),
        ("answered: NOERROR, NXDOMAIN", f"{seen.rcodes[0]:,}, {seen.rcodes[3]:,}"),
        ("answered wrongly", f"{seen.wrong:,}"),
        ("lost, of which dropped by the client's socket", f"{seen.lost:,}, {seen.client_drops:,}"),
        ("answers that nobody waited for", f"{seen.unexpected + seen.late:,}"),
        ("changes made, seen within a second", f"{all_.changes:,}, {all_.served:,}"),
        ("CPU, µs a packet", f"{all_.cpu_us:.2f}"),
        *((f"latency p{percent:g}, ms", f"{time / 1e6:.2f}") for percent, time in times),
        ("longest time without an answer, ms", f"{all_.seen.gap_ns / 1e6:.2f}"),
        ("longest time that the client didn't run, ms", f"{all_.seen.own_gap_ns / 1e6:.2f}"),
        ("memory: first, last, most, MB", _memory(all_.memory)),
    ]
    return f"### Soak: {all_.seen.seconds / 60:.1f} minutes\n\n{table(('', ''), lines)}"


def _memory(memory: Sequence[float]) -> str:
    return f"{memory[0]:.1f}, {memory[-1]:.1f}, {max(memory):.1f}" if memory else "-"


def document(facts: Mapping[str, object], rows: Sequence[Row], all_: Sequence[Verdict]) -> dict[str, object]:
    """Return the JSON document of a run: *facts* about the machine, the verdicts *all_*, and the figures in *rows*."""
    return {
        "machine": dict(facts),
        "note": "times and CPU are the least of all rounds, memory the most",
        "goals": [_goal(each) for each in all_],
        "measurements": [
            {"scenario": row.scenario, "server": row.label, "best": _rounded(row.best), "rounds": _spread(row)}
            for row in rows
        ],
    }


def summary(document: Mapping[str, Any]) -> str:
    """Return the table for the README from the *document* of a run: CPU per query by scenario and server."""
    found = {(each["scenario"], each["server"]): each["best"]["cpu_us"] for each in document["measurements"]}
    rows = [row for row in _SUMMARY if (row[0], row[2].format(Kind.OURS)) in found]
    kinds = [kind for kind in _HEADS if ("saturated", kind) in found]
    lines = [f"| | {' | '.join(_HEADS[kind] for kind in kinds)} |", f"|---|{'---:|' * len(kinds)}"]
    for scenario, title, label in rows:
        figures = (found.get((scenario, label.format(kind))) for kind in kinds)
        cells = ("" if figure is None else f"{figure:.1f}" for figure in figures)
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return "\n".join(lines)


def soak_document(facts: Mapping[str, object], all_: Soaked, verdicts: Sequence[Verdict]) -> dict[str, object]:
    """Return the JSON document of a soak: the *facts* about the machine, the *verdicts*, and the results *all_*."""
    return {
        "machine": dict(facts),
        "goals": [_goal(each) for each in verdicts],
        "client": {
            "seconds": round(all_.seen.seconds, 3),
            **all_.seen.tally.counted(),
        },
        "changes": all_.changes,
        "changes_served": all_.served,
        "cpu_us": round(all_.cpu_us, 3),
        "memory_mb_each_minute": [round(memory, 1) for memory in all_.memory[::60]],
    }


def _goal(verdict: Verdict) -> dict[str, object]:
    figure = verdict.figure
    return {
        "goal": verdict.text,
        "limit": verdict.limit,
        "unit": verdict.unit,
        "measured": None if figure is None else round(figure, 3),
        "rounds": [round(each, 3) for each in verdict.rounds],
        "met": None if figure is None or verdict.limit is None else not verdict.missed,
    }


def _rounded(best: Sample) -> dict[str, float]:
    return {name: round(value, 3) for name, value in best.model_dump().items()}


def _spread(row: Row) -> dict[str, list[float]]:
    """Return the CPU per query and the longest latency of each round. Their spread shows how busy the machine was."""
    return {name: [round(getattr(each, name), 3) for each in row.rounds] for name in ("cpu_us", "p9999_us", "stall_us")}
