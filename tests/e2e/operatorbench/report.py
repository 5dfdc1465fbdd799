"""What is said of all runs: tables in Markdown, and the JSON that is kept (pure)."""

from collections.abc import Iterator, Mapping, Sequence

from dnsbench.report import table

from tests.e2e.operatorbench.goals import Measured, Verdict
from tests.e2e.operatorbench.measure import AnyRun, Grouped, Runs, Sample, Steady, Step


def runs(samples: Sequence[Sample]) -> str:
    """Return the table of all figures of the first scenario, a column a run."""
    head = ("", *(f"run {sample.run}: {sample.kind}" for sample in samples))
    return f"### {samples[0].services} egress Services\n\n{table(head, _lines(samples))}"


def steady(samples: Sequence[Steady]) -> str:
    """Return the table of all figures of the third scenario, a column a run."""
    head = ("", *(f"run {sample.run}: {sample.kind}" for sample in samples))
    what = f"{samples[0].services} egress Services, one every {samples[0].every_seconds:g} s, with a DNSConfig"
    return f"### {what}, leader and standby\n\n{table(head, _steady_lines(samples))}"


def _steady_lines(samples: Sequence[Steady]) -> Iterator[tuple[str, ...]]:
    for text, figures in (
        ("all names have addresses, s", [f"{each.made.seconds:.2f}" for each in samples]),
        ("leader: CPU, ms a Service made", [f"{each.cpu_ms:.1f}" for each in samples]),
        ("standby: CPU, ms a Service made", [f"{each.standby_cpu_ms:.1f}" for each in samples]),
        ("ConfigMap writes a Service made", [f"{each.configmap_writes:.2f}" for each in samples]),
        ("kB of ConfigMap written a Service made", [f"{each.configmap_kb:.1f}" for each in samples]),
        ("API writes a Service made", [f"{each.writes:.2f}" for each in samples]),
        ("API reads a Service made", [f"{each.made.reads / each.services:.2f}" for each in samples]),
        ("cores busy with other work meanwhile", [f"{each.made.others:.1f}" for each in samples]),
        ("leader: memory with all, MB", [f"{each.rss_mb:.0f}" for each in samples]),
        ("standby: memory with all, MB", [f"{each.standby_rss_mb:.0f}" for each in samples]),
    ):
        yield (text, *figures)


def groups(samples: Sequence[Grouped]) -> str:
    """Return the table of all figures of the second scenario, a column a run."""
    head = ("", *(f"run {sample.run}: {sample.kind}" for sample in samples))
    what = f"{samples[0].services} egress Services of {samples[0].groups} ProxyGroups"
    return f"### {what}\n\n{table(head, _group_lines(samples))}"


def _group_lines(samples: Sequence[Grouped]) -> Iterator[tuple[str, ...]]:
    for text, figures in (
        ("all entries written, s", [f"{each.made.seconds:.2f}" for each in samples]),
        ("CPU, ms a Service made", [f"{each.cpu_ms:.1f}" for each in samples]),
        ("API writes a Service made", [f"{each.writes:.2f}" for each in samples]),
        ("API reads a Service made", [f"{each.made.reads / each.services:.2f}" for each in samples]),
        ("writes of a ConfigMap, at most", [f"{each.most_configmap_writes}" for each in samples]),
        ("cores busy with other work meanwhile", [f"{each.made.others:.1f}" for each in samples]),
        ("all slices have all proxies, s after their reports", [f"{each.served.seconds:.2f}" for each in samples]),
        ("CPU, ms a Service served", [f"{1000 * each.served.cpu_seconds / each.services:.1f}" for each in samples]),
        ("API writes a Service served", [f"{each.served.counted / each.services:.2f}" for each in samples]),
        ("idle: seconds", [f"{each.idle.seconds:.0f}" for each in samples]),
        ("idle: API writes, leases apart", [f"{each.idle.counted}" for each in samples]),
        ("idle: CPU, ms a second", [f"{1000 * each.idle.cpu_seconds / each.idle.seconds:.1f}" for each in samples]),
        ("one Service more: entry written, s", [_spread(each.entry_seconds) for each in samples]),
        ("slice has a proxy, s after its report", [_spread(each.slice_seconds) for each in samples]),
        ("all Services removed, s", [f"{each.removed.seconds:.2f}" for each in samples]),
        ("CPU, ms a Service removed", [f"{each.removal_cpu_ms:.1f}" for each in samples]),
        ("API writes a Service removed", [f"{each.removal_writes:.2f}" for each in samples]),
        ("cores busy with other work meanwhile", [f"{each.removed.others:.1f}" for each in samples]),
        ("memory with all, MB", [f"{each.rss_mb:.0f}" for each in samples]),
    ):
        yield (text, *figures)


def _spread(seconds: Sequence[float]) -> str:
    return f"{min(seconds):.2f} to {max(seconds):.2f}"


def _lines(samples: Sequence[Sample]) -> Iterator[tuple[str, ...]]:
    for text, figures in (
        ("all StatefulSets made, s", [f"{each.made.seconds:.2f}" for each in samples]),
        ("all Services ready, s", [f"{each.ready_seconds:.2f}" for each in samples]),
        ("CPU, ms a Service made", [f"{each.cpu_ms:.1f}" for each in samples]),
        ("API writes a Service made", [f"{each.writes:.2f}" for each in samples]),
        ("API reads a Service made", [f"{each.made.reads / each.services:.2f}" for each in samples]),
        ("cores busy with other work meanwhile", [f"{each.made.others:.1f}" for each in samples]),
        ("all Services removed, s", [f"{each.removed.seconds:.2f}" for each in samples]),
        ("CPU, ms a Service removed", [f"{each.removal_cpu_ms:.1f}" for each in samples]),
        ("API writes a Service removed", [f"{each.removal_writes:.2f}" for each in samples]),
        ("cores busy with other work meanwhile", [f"{each.removed.others:.1f}" for each in samples]),
        ("idle: seconds", [f"{each.idle.seconds:.0f}" for each in samples]),
        ("idle: API writes, leases apart", [f"{each.idle.counted}" for each in samples]),
        ("idle: CPU, ms a second", [f"{1000 * each.idle.cpu_seconds / each.idle.seconds:.1f}" for each in samples]),
        ("memory with all, MB", [f"{each.rss_mb:.0f}" for each in samples]),
        ("memory at most, MB", [f"{each.peak_mb:.0f}" for each in samples]),
    ):
        yield (text, *figures)


def writes(samples: Sequence[AnyRun]) -> str:
    """Return the table of writes by verb and kind, per Service, in the making and, if there is one, in the removal."""
    head = ("writes a Service", *(f"run {sample.run}: {sample.kind}" for sample in samples))
    lines = [*_writes("made", samples, [each.made for each in samples])]
    removed = [each.removed for each in samples if isinstance(each, Sample | Grouped)]
    lines += _writes("removed", samples, removed) if removed else ()
    return table(head, lines)


def _writes(word: str, samples: Sequence[AnyRun], steps: Sequence[Step]) -> Iterator[tuple[str, ...]]:
    for write in sorted({write for step in steps for write in step.writes}):
        shares = (step.writes.get(write, 0) / sample.services for step, sample in zip(steps, samples, strict=True))
        yield (f"{word}: {write}", *(f"{share:.2f}" if share else "-" for share in shares))


def verdicts(all_: Sequence[Verdict]) -> str:
    """Return the table of goals; in brackets the run that gave the figure."""
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
    """Say in a word what a goal came to."""
    if verdict.judged is None:
        return "not measured"
    return "MISSED" if verdict.missed else "met"


def _figure(measured: Measured | None, unit: str) -> str:
    return "-" if measured is None else f"{measured.value:.2f} {unit}".rstrip() + f" (run {measured.run})"


def document(facts: Mapping[str, object], runs: Runs, all_: Sequence[Verdict]) -> dict[str, object]:
    """Return what is kept of the runs of all scenarios."""
    return {
        "machine": dict(facts),
        "note": "times and CPU are the least of all runs, memory and writes the most",
        "goals": [_goal(each) for each in all_],
        "runs": [sample.model_dump(mode="json") for sample in runs.burst],
        "steady": [sample.model_dump(mode="json") for sample in runs.steady],
        "groups": [sample.model_dump(mode="json") for sample in runs.groups],
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
