"""The report on all runs: tables in Markdown, and the JSON of the results (pure)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from dnsbench.report import table

from operatorbench.goals import Measured, Verdict
from operatorbench.measure import AnyRun, Burst, Grouped, Hosting, Runs, Sample, Steady, Step

Line = tuple[str, Callable[[Any], str]]
"""A line in a table of runs: its first cell, and the function that returns the line's cell for one run."""

_MADE: Sequence[Line] = (
    ("CPU, ms a Service made", lambda run: f"{run.cpu_ms:.1f}"),
    ("API writes a Service made", lambda run: f"{run.writes:.2f}"),
    ("touches of Pods a Service made", lambda run: f"{run.made.touches / run.services:.2f}"),
    ("API reads a Service made", lambda run: f"{run.made.reads / run.services:.2f}"),
    ("cores busy with other work meanwhile", lambda run: f"{run.made.others:.1f}"),
)
_REMOVED: Sequence[Line] = (
    ("all Services removed, s", lambda run: f"{run.removed.seconds:.2f}"),
    ("CPU, ms a Service removed", lambda run: f"{run.removal_cpu_ms:.1f}"),
    ("API writes a Service removed", lambda run: f"{run.removal_writes:.2f}"),
    ("cores busy with other work meanwhile", lambda run: f"{run.removed.others:.1f}"),
)
_IDLE: Sequence[Line] = (
    ("idle: seconds", lambda run: f"{run.idle.seconds:.0f}"),
    ("idle: API writes, leases apart", lambda run: f"{run.idle.counted + run.idle.touches}"),
    ("idle: CPU, ms a second", lambda run: f"{1000 * run.idle.cpu_seconds / run.idle.seconds:.1f}"),
)
_MEMORY: Line = ("memory with all, MB", lambda run: f"{run.rss_mb:.0f}")


def runs(samples: Sequence[Sample]) -> str:
    """Return the table of all figures of the first scenario, with a column for each run."""
    lines: Sequence[Line] = (
        ("all StatefulSets made, s", lambda run: f"{run.made.seconds:.2f}"),
        ("all Services reported, s", lambda run: f"{run.reported_seconds:.2f}"),
        *(*_MADE, *_REMOVED, *_IDLE, _MEMORY),
        ("memory at most, MB", lambda run: f"{run.peak_mb:.0f}"),
    )
    return _table(f"{samples[0].services} egress Services", samples, lines)


def steady(samples: Sequence[Steady]) -> str:
    """Return the table of all figures of the third scenario, with a column for each run."""
    leader, *others = _MADE
    lines: Sequence[Line] = (
        ("all names have addresses, s", lambda run: f"{run.made.seconds:.2f}"),
        (f"leader: {leader[0]}", leader[1]),
        ("standby: CPU, ms a Service made", lambda run: f"{run.standby_cpu_ms:.1f}"),
        ("ConfigMap writes a Service made", lambda run: f"{run.configmap_writes:.2f}"),
        ("kB of ConfigMap written a Service made", lambda run: f"{run.configmap_kb:.1f}"),
        *others,
        (f"leader: {_MEMORY[0]}", _MEMORY[1]),
        ("standby: memory with all, MB", lambda run: f"{run.standby_rss_mb:.0f}"),
    )
    what = f"{samples[0].services} egress Services, one every {samples[0].every_seconds:g} s, with a DNSConfig"
    return _table(f"{what}, leader and standby", samples, lines)


def groups(samples: Sequence[Grouped]) -> str:
    """Return the table of all figures of the second scenario, with a column for each run."""
    lines: Sequence[Line] = (
        ("all entries written, s", lambda run: f"{run.made.seconds:.2f}"),
        *_MADE,
        ("writes of a ConfigMap, at most", lambda run: f"{run.most_configmap_writes}"),
        ("all slices have all proxies, s after their reports", lambda run: f"{run.served.seconds:.2f}"),
        ("CPU, ms a Service served", lambda run: f"{1000 * run.served.cpu_seconds / run.services:.1f}"),
        ("API writes a Service served", lambda run: f"{run.served.counted / run.services:.2f}"),
        ("touches of Pods a Service served", lambda run: f"{run.served.touches / run.services:.2f}"),
        *_IDLE,
        ("one Service more: entry written, s", lambda run: _spread(run.entry_seconds)),
        ("slice has a proxy, s after its report", lambda run: _spread(run.slice_seconds)),
        *(*_REMOVED, _MEMORY),
    )
    return _table(f"{samples[0].services} egress Services of {samples[0].groups} ProxyGroups", samples, lines)


def hosting(samples: Sequence[Hosting]) -> str:
    """Return the table of all figures of the fourth scenario, with a column for each run."""
    lines: Sequence[Line] = (
        ("all statuses right, s", lambda run: f"{run.made.seconds:.2f}"),
        ("CPU, ms an object", lambda run: f"{run.cpu_ms:.1f}"),
        ("API writes an object", lambda run: f"{run.writes:.2f}"),
        ("touches of Pods", lambda run: f"{run.made.touches}"),
        ("API reads an object", lambda run: f"{run.made.reads / run.services:.2f}"),
        ("control-server calls an object", lambda run: f"{run.calls_an_object:.2f}"),
        *(
            (f"control server: {call}", _calls(call))
            for call in sorted({call for each in samples for call in each.calls})
        ),
        ("cores busy with other work meanwhile", lambda run: f"{run.made.others:.1f}"),
        *(*_IDLE, _MEMORY),
        ("idle: control-server calls", lambda run: f"{sum(run.idle_calls.values())}"),
    )
    first = samples[0]
    services = first.services - first.ingresses
    return _table(f"{first.ingresses} Ingresses and {services} Services of two ProxyGroups", samples, lines)


def _calls(call: str) -> Callable[[Hosting], str]:
    return lambda run: f"{run.calls.get(call, 0)}"


def _table(title: str, samples: Sequence[AnyRun], lines: Sequence[Line]) -> str:
    cells = ((text, *map(show, samples)) for text, show in lines)
    return f"### {title}\n\n{table(_head('', samples), cells)}"


def _head(first: str, samples: Sequence[AnyRun]) -> tuple[str, ...]:
    return (first, *(f"run {sample.run}: {sample.kind}" for sample in samples))


def _spread(seconds: Sequence[float]) -> str:
    return f"{min(seconds):.2f} to {max(seconds):.2f}"


def writes(samples: Sequence[AnyRun]) -> str:
    """Return the table of writes per Service by verb and kind, while Services are made and while they are removed."""
    lines = [*_writes("made", samples, [each.made for each in samples])]
    removed = [each.removed for each in samples if isinstance(each, Burst)]
    lines += _writes("removed", samples, removed) if removed else ()
    return table(_head("writes a Service", samples), lines)


def _writes(word: str, samples: Sequence[AnyRun], steps: Sequence[Step]) -> Iterator[tuple[str, ...]]:
    for write in sorted({write for step in steps for write in step.writes}):
        shares = (step.writes.get(write, 0) / sample.services for step, sample in zip(steps, samples, strict=True))
        yield (f"{word}: {write}", *(f"{share:.2f}" if share else "-" for share in shares))


def verdicts(all_: Sequence[Verdict]) -> str:
    """Return the table of goals; after each figure, the number of its run is in brackets."""
    head = ("", "ours", "Go", "ours / Go", "goal", "")
    lines = [
        (
            each.goal.text,
            _figure(each.ours, each.goal.unit),
            _figure(each.theirs, each.goal.unit),
            "-" if each.ratio is None else f"{each.ratio:.3f}",
            f"≤ {each.goal.limit:.4g}{' x' if each.goal.relative else ''}",
            word(each),
        )
        for each in all_
    ]
    return f"### Goals\n\n{table(head, lines)}"


def word(verdict: Verdict) -> str:
    """Return *verdict* in a word or two: met, missed or not measured."""
    if verdict.judged is None:
        return "not measured"
    return "MISSED" if verdict.missed else "met"


def _figure(measured: Measured | None, unit: str) -> str:
    return "-" if measured is None else f"{measured.value:.2f} {unit}".rstrip() + f" (run {measured.run})"


def document(facts: Mapping[str, object], runs: Runs, all_: Sequence[Verdict]) -> dict[str, object]:
    """Return the JSON document of the runs of all scenarios."""
    return {
        "machine": dict(facts),
        "note": "times and CPU are the least of all runs, memory and writes the most",
        "goals": [_goal(each) for each in all_],
        "runs": [sample.model_dump(mode="json") for sample in runs.burst],
        "steady": [sample.model_dump(mode="json") for sample in runs.steady],
        "groups": [sample.model_dump(mode="json") for sample in runs.groups],
        "hosting": [sample.model_dump(mode="json") for sample in runs.hosting],
    }


def _goal(verdict: Verdict) -> dict[str, object]:
    return {
        "goal": verdict.goal.text,
        "unit": verdict.goal.unit,
        "ours": _kept(verdict.ours),
        "go": _kept(verdict.theirs),
        "ratio": None if verdict.ratio is None else round(verdict.ratio, 4),
        "limit": verdict.goal.limit,
        "relative": verdict.goal.relative,
        "met": None if verdict.judged is None else not verdict.missed,
    }


def _kept(measured: Measured | None) -> dict[str, object] | None:
    return None if measured is None else {"measured": round(measured.value, 3), "run": measured.run}
