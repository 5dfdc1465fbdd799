"""The report for a terminal: a line every second during the run, and a table at its end."""

from collections.abc import Iterable, Sequence

from dnsload.recording import Row
from dnsload.report import LATENCY_HEADS, LIMITED, Report, Soak, Totals

_MS = 1e6


def progress_line(row: Row) -> str:
    """Return the line about the second that *row* describes."""
    counts, seconds = row.counts, row.end - row.start
    sent = (counts.sent + counts.malformed_sent) / seconds
    answered = (counts.answered + counts.malformed_answered) / seconds
    return (
        f"{row.end:6.0f} s   sent {sent:9,.0f}/s   answered {answered:9,.0f}/s"
        f"   p50 {row.percentiles[0] / _MS:8.3f} ms   p99 {row.percentiles[2] / _MS:8.3f} ms"
        f"   lost {counts.lost:,}   wrong {counts.wrong:,}"
    )


def table(report: Report) -> str:
    """Return the whole report as text."""
    totals = report.totals
    ended = " (interrupted)" if report.interrupted else ""
    parts = [
        f"dnsload   {report.settings['load']} at {report.settings['targets']}",
        f"ran for   {report.seconds:.1f} s{ended}, {report.engine} engine, {report.client_cpu:.2f} cores used",
        "",
        *_lined(_counts(totals, report.sending_seconds)),
        "",
        *_lined(
            [
                ("latency, ms", *LATENCY_HEADS),
                ("  answer", *report.latency.cells()),
                ("  send lag", *report.send_lag.cells()),
            ]
        ),
        *(f"  {sentence}" for sentence in report.latency_notes),
    ]
    if report.steps:
        rows = [(f"  {step.rate:,g}/s", f"{step.totals.loss:.2%}", *step.latency.cells()) for step in report.steps]
        parts += ["", *_lined([("step", "lost", *LATENCY_HEADS), *rows])]
    if len(report.targets) > 1:
        rows = [
            (f"  {each.target}", *(f"{count:,}" for count in (each.sent, each.answered, each.wrong, each.lost)))
            for each in report.targets
        ]
        parts += ["", *_lined([("target", "sent", "answered", "wrong", "lost"), *rows])]
    if report.soak:
        parts += ["", *_soak(report.soak)]
    if report.wrong_examples:
        reasons = ", ".join(f"{reason} {count:,}" for reason, count in report.wrong_reasons.items())
        parts += ["", f"wrong     {reasons}; the first of them:"]
        parts += [f"  {example}" for example in report.wrong_examples]
    parts += ["", *(f"LIMITED BY THE CLIENT: {limit}" for limit in report.client_limits)]
    parts += [f"FAILED: {failure}" for failure in report.failures] or [LIMITED if report.client_limits else "ok"]
    return "\n".join(parts)


def _counts(totals: Totals, seconds: float) -> Iterable[tuple[str, ...]]:
    def row(name: str, count: int, note: str = "") -> tuple[str, ...]:
        return name, f"{count:,}", note

    rate = totals.answered / seconds if seconds else 0.0
    yield row("sent", totals.sent)
    yield row(
        "answered", totals.answered, f"{rate:,.0f}/s; " + ", ".join(f"{k} {v:,}" for k, v in totals.rcodes.items())
    )
    yield row("wrong", totals.wrong)
    yield row(
        "lost", totals.lost, f"{totals.loss:.4%}" + (f"; {totals.late:,} answered too late" if totals.late else "")
    )
    optional = (
        ("truncated", totals.truncated, "TC set; --tcp-retry asks again by TCP"),
        ("retried", totals.retried, "truncated, and asked again by TCP"),
        ("unexpected", totals.unexpected, "answers to nothing that was outstanding"),
        ("malformed", totals.malformed_sent, f"{totals.malformed_answered:,} answered; not counted above"),
        ("refused", totals.refused, "times that the port was unreachable"),
        ("connections", totals.connections_failed, "not made, or broken off with queries outstanding"),
        ("client drops", totals.client_drops, "the client's receive queue was full; not in the loss"),
        ("not sent", totals.unsent, "due, but the client didn't get to them"),
    )
    yield from (row(*each) for each in optional if each[1])


def _soak(soak: Soak) -> list[str]:
    def change(first: float, last: float) -> str:
        return f"{last / first - 1:+.0%}" if first else ""

    rows = [
        (name, f"{first:.3f}", f"{last:.3f}", change(first, last))
        for name, first, last in (
            ("  p50, ms", soak.first_p50, soak.last_p50),
            ("  p99, ms", soak.first_p99, soak.last_p99),
            ("  client memory, MiB", soak.client_first_mib, soak.client_last_mib),
        )
    ]
    rows.append(("  lost", f"{soak.first_lost:,}", f"{soak.last_lost:,}", ""))
    windows = f"{soak.windows} windows" if soak.windows > 1 else "window"
    return _lined([("soak", f"first {windows}", f"last {windows}", "change"), *rows])


def _lined(rows: Iterable[Sequence[str]]) -> list[str]:
    """Return *rows* as lines with aligned columns: the first to the left, all others to the right.

    The third cell of a row with three cells is a note, which is not aligned.
    """
    cells = [list(row) for row in rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    lines = []
    for row in cells:
        noted = len(row) == 3
        parts = [row[0].ljust(widths[0])]
        parts += [
            text if noted and column == 2 else text.rjust(widths[column]) for column, text in enumerate(row) if column
        ]
        lines.append("   ".join(parts).rstrip())
    return lines
