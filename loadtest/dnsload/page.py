"""The report as one HTML page that needs no network."""

from collections.abc import Iterable, Sequence
from html import escape

from dnsload.plots import client_over_time, errors_over_time, latency_curve, latency_over_time, rate_over_time
from dnsload.report import LATENCY_HEADS, LIMITED, Report

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1a202c; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.5rem; margin-bottom: 0 } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem }
.when { color: #718096; margin-top: 0 }
.note { color: #718096; font-size: .9em }
.verdict { padding: .6rem 1rem; border-left: 5px solid; margin: .5rem 0 }
.ok { background: #f0fff4; border-color: #2f855a } .failed { background: #fff5f5; border-color: #c53030 }
.limit { background: #fffaf0; border-color: #dd6b20 }
table { border-collapse: collapse; margin: .5rem 0 } td, th { padding: .2rem .8rem .2rem 0; text-align: right }
td:first-child, th:first-child, .left td { text-align: left } th { color: #718096; font-weight: 600 }
tr + tr { border-top: 1px solid #e2e8f0 } td { font-variant-numeric: tabular-nums }
svg { width: 100%; height: auto; margin: .5rem 0 }
"""


def page(report: Report) -> str:
    """Return the HTML of the whole page."""
    title = f"{report.settings['load']} at {report.settings['targets']}"
    ended = ", interrupted" if report.interrupted else ""
    parts = [
        f"<h1>DNS load: {escape(title)}</h1>",
        f'<p class="when">{escape(report.started)}, ran for {report.seconds:.1f} s{ended}</p>',
        *_verdicts(report),
        "<h2>Queries</h2>",
        _table(("", "queries", "share of those sent"), _queries(report)),
        "<h2>Latency, in milliseconds</h2>",
        _table(("", *LATENCY_HEADS), (("answer", *report.latency.cells()), ("send lag", *report.send_lag.cells()))),
        f'<p class="note">{escape(" ".join(report.latency_notes))}'
        " When all is sent, the client waits a time-out for answers.</p>",
        *_extras(report),
        *(
            make(report)
            for make in (latency_over_time, latency_curve, rate_over_time, errors_over_time, client_over_time)
        ),
        "<h2>Settings</h2>",
        _table(None, [*report.settings.items(), ("engine", report.engine)], "left"),
    ]
    body = "\n".join(parts)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>DNS load: {escape(title)}</title><style>{_STYLE}</style></head>\n<body>\n{body}\n</body></html>\n"
    )


def _verdicts(report: Report) -> Iterable[str]:
    for failure in report.failures:
        yield f'<p class="verdict failed"><b>Failed:</b> {escape(failure)}.</p>'
    if report.exit_code == 3:
        yield f'<p class="verdict limit">Nothing was wrong, but {escape(LIMITED)}.</p>'
    elif not report.failures:
        yield '<p class="verdict ok"><b>OK:</b> no wrong answer, and no more loss than allowed.</p>'
    for limit in report.client_limits:
        yield f'<p class="verdict limit"><b>Limited by the client:</b> {escape(limit)}.</p>'


def _queries(report: Report) -> Iterable[tuple[str, ...]]:
    totals = report.totals
    rows = [
        ("sent", totals.sent),
        ("answered in time", totals.answered),
        *((f"of these {rcode}", count) for rcode, count in totals.rcodes.items()),
        ("truncated", totals.truncated),
        ("wrong", totals.wrong),
        ("lost", totals.lost),
        ("of these answered too late", totals.late),
        ("of these dropped by the client itself", totals.client_drops),
        ("due, but not sent by the client", totals.unsent),
        ("unexpected answers", totals.unexpected),
        ("port unreachable", totals.refused),
        ("connections failed", totals.connections_failed),
        ("malformed, besides", totals.malformed_sent),
        ("of these answered", totals.malformed_answered),
    ]
    for name, count in rows:
        if count or name in {"sent", "answered in time", "wrong", "lost"}:
            yield name, f"{count:,}", f"{count / totals.sent:.3%}" if totals.sent else ""


def _extras(report: Report) -> Iterable[str]:
    if report.steps:
        rows = [
            (f"{step.rate:,g}/s", f"{step.totals.loss:.2%}", f"{step.totals.wrong:,}", *step.latency.cells())
            for step in report.steps
        ]
        yield "<h2>Steps</h2>" + _table(("rate", "lost", "wrong", *LATENCY_HEADS), rows)
    if len(report.targets) > 1:
        rows = [
            (each.target, *(f"{count:,}" for count in (each.sent, each.answered, each.wrong, each.lost)))
            for each in report.targets
        ]
        yield "<h2>Targets</h2>" + _table(("", "sent", "answered", "wrong", "lost"), rows)
    if report.soak is not None:
        soak = report.soak
        rows = [
            ("p50, ms", f"{soak.first_p50:.3f}", f"{soak.last_p50:.3f}"),
            ("p99, ms", f"{soak.first_p99:.3f}", f"{soak.last_p99:.3f}"),
            ("lost", f"{soak.first_lost:,}", f"{soak.last_lost:,}"),
            ("client memory, MiB", f"{soak.client_first_mib:.1f}", f"{soak.client_last_mib:.1f}"),
        ]
        heads = ("", f"first {soak.windows} windows", f"last {soak.windows} windows")
        yield "<h2>Soak: beginning and end</h2>" + _table(heads, rows)
    if report.wrong_examples:
        yield "<h2>Wrong answers</h2>" + _table(
            ("why", "answers"), [(reason, f"{count:,}") for reason, count in report.wrong_reasons.items()]
        )
        items = "".join(f"<li>{escape(example)}</li>" for example in report.wrong_examples)
        yield f'<p class="note">The first of them:</p><ul>{items}</ul>'


def _table(heads: Sequence[str] | None, rows: Iterable[Sequence[str]], kind: str = "right") -> str:
    head = "" if heads is None else _row("th", heads)
    return f'<table class="{kind}">{head}{"".join(_row("td", row) for row in rows)}</table>'


def _row(tag: str, cells: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"
