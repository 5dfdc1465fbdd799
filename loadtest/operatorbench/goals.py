"""The goals for the operator, and the verdicts on them, from the figures of all runs.

For a time or a CPU time, the lowest figure of an operator's runs is judged, because other programs on the machine make
times longer. For memory, writes and requests, the highest figure is judged. The functions are pure.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic

from operatorbench.measure import AnyRun, Grouped, Hosting, Kind, Sample, Steady, of


@dataclass(frozen=True, slots=True)
class Goal(Generic[AnyRun]):
    """A figure of our operator that must not exceed *limit*.

    If the goal is *relative*, the limit is for the ratio of our figure to the Go operator's.
    """

    text: str
    unit: str
    figure: Callable[[AnyRun], float]
    limit: float
    relative: bool = True
    worst: bool = False
    """True if the highest figure of an operator's runs is judged; otherwise the lowest one is.

    Other programs on the machine make times longer, so the lowest time is the truest. They don't change memory and
    writes, whose highest figures are judged.
    """


@dataclass(frozen=True, slots=True)
class Measured:
    """A figure, and the number of the run in which it was measured."""

    value: float
    run: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judgement on a goal, with the figures of both operators; a figure that wasn't measured is None."""

    goal: Goal[Any]
    ours: Measured | None
    theirs: Measured | None

    @property
    def ratio(self) -> float | None:
        """Our operator's figure divided by the Go operator's; None if one wasn't measured or the Go operator's is 0."""
        if self.ours is None or self.theirs is None or not self.theirs.value:
            return None
        return self.ours.value / self.theirs.value

    @property
    def judged(self) -> float | None:
        """The value that is compared with the limit: the ratio or our operator's figure; None if it wasn't measured."""
        if self.goal.relative:
            return self.ratio
        return self.ours.value if self.ours else None

    @property
    def missed(self) -> bool:
        """True if the goal was measured and the value is above the limit."""
        return self.judged is not None and self.judged > self.goal.limit


GOALS: Sequence[Goal[Sample]] = (
    Goal("all StatefulSets made", "s", lambda sample: sample.made.seconds, 1 / 8),
    Goal("CPU a Service made", "ms", lambda sample: sample.cpu_ms, 1.2),
    Goal("all Services removed", "s", lambda sample: sample.removed.seconds, 1 / 10),
    Goal("API writes a Service made", "", lambda sample: sample.writes, 6, relative=False, worst=True),
    Goal(
        "API writes when idle",
        "",
        lambda sample: sample.idle.counted + sample.idle.touches,
        0,
        relative=False,
        worst=True,
    ),
    Goal("memory with all of them", "MB", lambda sample: sample.rss_mb, 1.3, worst=True),
)

STEADY_GOALS: Sequence[Goal[Steady]] = (
    Goal("one by one: leader's CPU a Service made", "ms", lambda run: run.cpu_ms, 15, relative=False),
    Goal("one by one: standby's CPU a Service made", "ms", lambda run: run.standby_cpu_ms, 3, relative=False),
)

GROUP_GOALS: Sequence[Goal[Grouped]] = (
    Goal("groups: all entries written", "s", lambda run: run.made.seconds, 0.15),
    Goal("groups: writes of a ConfigMap", "", lambda run: run.most_configmap_writes, 40, relative=False, worst=True),
    Goal("groups: CPU a Service made", "ms", lambda run: run.cpu_ms, 12, relative=False),
    Goal("groups: API writes a Service made", "", lambda run: run.writes, 7, relative=False, worst=True),
    Goal("groups: all Services removed", "s", lambda run: run.removed.seconds, 0.15),
    Goal(
        "groups: API writes when idle",
        "",
        lambda run: run.idle.counted + run.idle.touches,
        0,
        relative=False,
        worst=True,
    ),
    Goal("groups: entry of one Service, slowest", "s", lambda run: max(run.entry_seconds), 0.3, relative=False),
    Goal("groups: slice after a proxy's report, slowest", "s", lambda run: max(run.slice_seconds), 0.3, relative=False),
)


HOSTING_GOALS: Sequence[Goal[Hosting]] = (
    Goal("hosting: all statuses right", "s", lambda run: run.made.seconds, 0.15),
    Goal("hosting: CPU an object", "ms", lambda run: run.cpu_ms, 12, relative=False),
    Goal("hosting: API writes an object", "", lambda run: run.writes, 7, relative=False, worst=True),
    Goal("hosting: control-server calls an object", "", lambda run: run.calls_an_object, 3, False, worst=True),
    Goal("hosting: memory with all of them", "MB", lambda run: run.rss_mb, 130, relative=False, worst=True),
    Goal("hosting: API writes when idle", "", lambda run: run.idle.counted + run.idle.touches, 0, False, worst=True),
    Goal(
        "hosting: control-server calls when idle",
        "",
        lambda run: sum(run.idle_calls.values()),
        2,
        relative=False,
        worst=True,
    ),
)


def judged(samples: Sequence[AnyRun], goals: Sequence[Goal[AnyRun]]) -> list[Verdict]:
    """Return the verdict on each of *goals*, or an empty list if there are no *samples*."""
    if not samples:
        return []
    ours, theirs = of(Kind.OURS, samples), of(Kind.GO, samples)
    return [Verdict(goal, _measured(goal, ours), _measured(goal, theirs)) for goal in goals]


def _measured(goal: Goal[AnyRun], runs: Sequence[AnyRun]) -> Measured | None:
    if not runs:
        return None
    figures = [Measured(goal.figure(run), run.run) for run in runs]
    choose = max if goal.worst else min
    return choose(figures, key=lambda measured: measured.value)
