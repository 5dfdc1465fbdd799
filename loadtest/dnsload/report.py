"""The results of a run as data, from which the table, the JSON and the page are made."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Protocol

import dns.edns
import dns.rcode
import numpy as np
from pydantic import BaseModel, ConfigDict

from dnsload.histogram import Histogram
from dnsload.recording import PERCENTS, Recording, Row
from dnsload.schedule import Schedule
from dnsload.session import Session
from dnsload.settings import Settings
from dnsload.tally import Counts
from dnsload.targets import Target
from dnsload.workload import QueryForm

_MS = 1e6
_LAG_LIMIT_MS = 10.0
_BUSY_SHARE = 0.1
_UNSENT_SHARE = 0.001
_SOAK_SHARE = 0.1
CURVE = tuple(float(each) for each in 100 - np.logspace(2, -3, 200))
"""The percentages at which the percentile curve has points, from 0 to 99.999."""


@dataclass(frozen=True, slots=True)
class About:
    """The start of a run (UTC, ISO 8601), the name of its engine, and whether the run was interrupted."""

    started: str
    engine: str
    interrupted: bool


class Asker(Protocol):
    """A socket, a connection or a compiled client that has sent queries to one target."""

    @property
    def target(self) -> Target:
        """The target of the queries."""

    @property
    def totals(self) -> Counts:
        """The counts of the queries and answers."""


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True)


class Latency(_Model):
    """The mean, the standard deviation, some percentiles and the extremes of a time, in milliseconds."""

    mean: float
    deviation: float
    min: float
    p50: float
    p90: float
    p99: float
    p99_9: float
    p99_99: float
    max: float

    def cells(self) -> tuple[str, ...]:
        """Return the values in milliseconds as text, in the order of LATENCY_HEADS."""
        values = self.mean, self.deviation, self.min, self.p50, self.p90, self.p99, self.p99_9, self.p99_99, self.max
        return tuple(f"{value:.3f}" for value in values)


LATENCY_HEADS = ("mean", "sd", "min", "p50", "p90", "p99", "p99.9", "p99.99", "max")


class Totals(_Model):
    """Counts of queries and answers, and the share of lost queries."""

    sent: int
    answered: int
    wrong: int
    lost: int
    loss: float
    """The share of queries without an answer in time. Answers that the client itself dropped don't count."""
    late: int
    """The number of lost queries that got an answer after the time-out."""
    truncated: int
    retried: int
    unexpected: int
    malformed_sent: int
    malformed_answered: int
    refused: int
    connections_failed: int
    client_drops: int
    unsent: int
    rcodes: dict[str, int]


class Window(_Model):
    """The results of one time window of the run.

    *start* and *end* are in seconds from the start of the run, rates in queries a second, latencies in milliseconds.
    """

    start: float
    end: float
    target_rate: float | None
    sent_rate: float
    answered_rate: float
    wrong: int
    lost: int
    late: int
    truncated: int
    client_drops: int
    latency_p50: float
    latency_p90: float
    latency_p99: float
    latency_p99_9: float
    latency_max: float
    send_lag_p99: float
    client_cpu: float
    client_mib: float


class Step(_Model):
    """The results for one rate of `--steps`."""

    rate: float
    totals: Totals
    latency: Latency


class TargetTotals(_Model):
    """The counts for one target."""

    target: str
    sent: int
    answered: int
    wrong: int
    lost: int
    late: int


class Soak(_Model):
    """A comparison of the first with the last windows of a soak: median latencies in ms, memory, and lost queries."""

    windows: int
    """The number of windows that are compared, at the start and at the end of the run."""
    first_p50: float
    last_p50: float
    first_p99: float
    last_p99: float
    first_lost: int
    last_lost: int
    client_first_mib: float
    client_last_mib: float


class Report(_Model):
    """All results of a run."""

    version: int = 2
    started: str
    """The start of the run (UTC, ISO 8601)."""
    settings: dict[str, str]
    engine: str
    seconds: float
    sending_seconds: float
    """The number of seconds from the start until the last query was due."""
    interrupted: bool
    closed_loop: bool
    """True if each query had to wait for an earlier answer.

    In that case, a stall of the server delays later queries, whose latencies don't show it.
    """
    totals: Totals
    latency: Latency
    """The time from the moment when a query was due to its answer.

    A query without an answer counts with the time-out.
    """
    send_lag: Latency
    """The part of the latency before the query was sent. The client causes it."""
    curve: list[tuple[float, float]]
    """The percentile curve of the latency: pairs of a percentage and milliseconds."""
    windows: list[Window]
    steps: list[Step]
    targets: list[TargetTotals]
    soak: Soak | None
    wrong_reasons: dict[str, int]
    wrong_examples: list[str]
    client_cpu: float
    """The number of CPU cores that the client used on average.

    Of several compiled clients, it is that of the busiest one.
    """
    client_limits: list[str]
    """Signs that the client, not the server, possibly limited the results; empty if there are none."""
    failures: list[str]
    """The reasons for the exit code 1; empty if it is 0 or 3."""

    @property
    def exit_code(self) -> int:
        """The exit code of dnsload: 1 after a failure, otherwise 3 if the client was the limit, and otherwise 0."""
        return 1 if self.failures else 3 if self.client_limits else 0

    @property
    def latency_notes(self) -> Sequence[str]:
        """Sentences that explain the latencies in the report, such as the moment at which a latency begins."""
        if self.closed_loop:
            start = (
                "A latency counts from when the query was sent."
                " A stall shows only in the queries that were outstanding; with --rate, in all that it delayed."
            )
        else:
            start = "A latency counts from when the query was meant to be sent: a stall shows in all that it delayed."
        unsent = ["The queries that were due and never sent are not in these figures."] if self.totals.unsent else []
        return (
            start,
            f"A query without an answer counts with the time-out, {self.settings['time-out']}.",
            *unsent,
            "The send lag is the client's own part of it.",
        )


LIMITED = "dnsload was the limit: these may be its own figures, not the server's (exit code 3)"
"""The verdict on a run without failures whose results the client possibly limited."""


def make_report(settings: Settings, session: Session, askers: Sequence[Asker], about: About) -> Report:
    """Return the report on the run of *session*."""
    recording, checker = session.recording, session.checker
    total = recording.total
    latency = total.latency_of_all(recording.timeout)
    windows = [_window(row, Schedule(settings.speed.segments)) for row in recording.rows]
    totals = _totals(total)
    return Report(
        started=about.started,
        engine=about.engine,
        interrupted=about.interrupted,
        settings=described(settings),
        seconds=recording.elapsed,
        sending_seconds=min(recording.elapsed, settings.speed.seconds),
        totals=totals,
        closed_loop=settings.speed.concurrency is not None,
        latency=_latency(latency),
        send_lag=_latency(total.lag),
        curve=_curve(latency),
        windows=windows,
        steps=_steps(settings, recording),
        targets=_targets(askers),
        soak=_soak(windows) if settings.soak else None,
        wrong_reasons=dict(checker.reasons),
        wrong_examples=checker.examples,
        client_cpu=recording.cpu,
        client_limits=_client_limits(recording),
        failures=_failures(totals, settings.max_loss),
    )


def described(settings: Settings) -> dict[str, str]:
    """Return a description of each setting, by name."""
    mix, form = settings.mix, settings.form
    source = f" from {settings.source}" if settings.source else ""
    transport = f"{settings.sockets} {'TCP connections' if settings.tcp else 'UDP sockets'} for each target"
    if settings.new_connections:
        transport = "a TCP connection for each query"
    if settings.names_file or settings.names:
        names = ", ".join([*([str(settings.names_file)] if settings.names_file else []), *settings.names[:5]])
    else:
        names = "all of the records"
    if settings.passes:
        names += f", each in its turn, {settings.passes:,} times"
    return {
        "targets": ", ".join(map(str, settings.targets)),
        "load": str(settings.speed),
        "duration": f"{settings.speed.seconds:g} s",
        "transport": f"{transport}{source}{', truncated answers asked again by TCP' if settings.retry else ''}",
        "names": names,
        "records": ", ".join(map(str, settings.records)) or "none: addresses are not checked",
        "types": ", ".join(settings.types),
        "absent names": f"{mix.miss:.1%}",
        "malformed packets": f"{mix.malformed:.1%}",
        "EDNS": "no" if form.edns is None else ", ".join(_edns(form)),
        "recursion desired": "yes" if form.recursion_desired else "no",
        "time-out": f"{settings.timeout:g} s",
        "loss allowed": f"{settings.max_loss:.3%}",
        "seed": str(mix.seed),
    }


def _edns(form: QueryForm) -> Iterator[str]:
    yield f"{form.edns} bytes"
    if form.dnssec_ok:
        yield "DO"
    for option in form.options:
        yield option.to_text() if isinstance(option, dns.edns.ECSOption) else dns.edns.OptionType(option.otype).name


def _latency(histogram: Histogram) -> Latency:
    p50, p90, p99, p99_9, p99_99 = (each / _MS for each in histogram.percentiles(PERCENTS))
    return Latency(
        mean=histogram.mean / _MS,
        deviation=histogram.deviation / _MS,
        min=histogram.smallest / _MS,
        p50=p50,
        p90=p90,
        p99=p99,
        p99_9=p99_9,
        p99_99=p99_99,
        max=histogram.largest / _MS,
    )


def _curve(histogram: Histogram) -> list[tuple[float, float]]:
    """Return the percentile curve up to the highest percentage for which there are enough answers."""
    percents = [percent for percent in CURVE if histogram.count * (100 - percent) >= 99]
    return [(at, each / _MS) for at, each in zip(percents, histogram.percentiles(percents), strict=True)]


def _totals(counts: Counts) -> Totals:
    return Totals(
        sent=counts.sent,
        answered=counts.answered,
        wrong=counts.wrong,
        lost=counts.lost,
        loss=counts.loss,
        late=counts.late,
        truncated=counts.truncated,
        retried=counts.retried,
        unexpected=counts.unexpected,
        malformed_sent=counts.malformed_sent,
        malformed_answered=counts.malformed_answered,
        refused=counts.refused,
        connections_failed=counts.connections_failed,
        client_drops=counts.client_drops,
        unsent=counts.unsent,
        rcodes={rcode_text(rcode): count for rcode, count in counts.rcodes.most_common()},
    )


def rcode_text(rcode: int) -> str:
    """Return the name of *rcode*, which is -1 for an answer without an rcode."""
    return "none" if rcode < 0 else dns.rcode.to_text(dns.rcode.Rcode.make(rcode))


def _window(row: Row, schedule: Schedule) -> Window:
    seconds = max(row.end - row.start, 1e-9)
    p50, p90, p99, p99_9, _ = (each / _MS for each in row.percentiles)
    counts = row.counts
    return Window(
        start=row.start,
        end=row.end,
        target_rate=schedule.rate((row.start + row.end) / 2) if schedule.segments else None,
        sent_rate=(counts.sent + counts.malformed_sent) / seconds,
        answered_rate=(counts.answered + counts.malformed_answered) / seconds,
        wrong=counts.wrong,
        lost=counts.lost,
        late=counts.late,
        truncated=counts.truncated,
        client_drops=counts.client_drops,
        latency_p50=p50,
        latency_p90=p90,
        latency_p99=p99,
        latency_p99_9=p99_9,
        latency_max=row.largest / _MS,
        send_lag_p99=row.lag / _MS,
        client_cpu=row.cpu,
        client_mib=row.memory / 2**20,
    )


def _steps(settings: Settings, recording: Recording) -> list[Step]:
    if settings.speed.step_seconds is None:
        return []
    return [
        Step(rate=segment.first, totals=_totals(tally), latency=_latency(tally.latency_of_all(recording.timeout)))
        for segment, tally in zip(settings.speed.segments, recording.steps, strict=True)
    ]


def _targets(askers: Sequence[Asker]) -> list[TargetTotals]:
    by_target: dict[str, Counts] = {}
    for asker in askers:
        by_target.setdefault(str(asker.target), Counts()).accumulate(asker.totals)
    return [
        TargetTotals(
            target=target,
            sent=counts.sent,
            answered=counts.answered,
            wrong=counts.wrong,
            lost=counts.lost,
            late=counts.late,
        )
        for target, counts in by_target.items()
    ]


def _soak(windows: Sequence[Window]) -> Soak | None:
    """Return a comparison of the first windows with the last ones; None if there are fewer than two windows.

    If there are enough windows, leave out the very first one, in which caches fill.
    """
    full = [window for window in windows if window.sent_rate]
    count = max(1, int(len(full) * _SOAK_SHARE))
    if len(full) < 2:
        return None
    skipped = 1 if len(full) > 2 * count else 0
    first, last = full[skipped : skipped + count], full[-count:]
    return Soak(
        windows=count,
        first_p50=median(window.latency_p50 for window in first),
        last_p50=median(window.latency_p50 for window in last),
        first_p99=median(window.latency_p99 for window in first),
        last_p99=median(window.latency_p99 for window in last),
        first_lost=sum(window.lost for window in first),
        last_lost=sum(window.lost for window in last),
        client_first_mib=median(window.client_mib for window in first),
        client_last_mib=median(window.client_mib for window in last),
    )


def _client_limits(recording: Recording) -> list[str]:
    total = recording.total
    limits = []
    if recording.busy_seconds > _BUSY_SHARE * recording.seconds:
        limits.append(
            f"the client used a whole core in {recording.busy_seconds} of {recording.seconds} s:"
            " give it more, or split the load over several clients"
        )
    lag = total.lag.percentiles([99.0])[0] / _MS
    if lag > _LAG_LIMIT_MS:
        limits.append(
            f"one query in a hundred was sent {lag:.1f} ms late or later: the client couldn't keep the schedule"
        )
    if total.unsent > _UNSENT_SHARE * max(total.sent, 1):
        limits.append(f"{total.unsent:,} queries were due and never sent: the client couldn't keep the schedule")
    if total.client_drops:
        limits.append(f"the client's kernel dropped {total.client_drops:,} packets for a full receive queue")
    return limits


def _failures(totals: Totals, max_loss: float) -> list[str]:
    failures = []
    if not totals.sent:
        failures.append("no query was sent")
    if totals.wrong:
        failures.append(f"{totals.wrong:,} answers were wrong")
    if totals.loss > max_loss:
        failures.append(f"{totals.loss:.3%} of the queries were lost, more than {max_loss:.3%}")
    return failures
