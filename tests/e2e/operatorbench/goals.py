"""The goals, judged by all runs (pure): the least time and CPU of each operator, the most memory and writes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.e2e.operatorbench.measure import Kind, Sample, of

Figure = Callable[[Sample], float]


@dataclass(frozen=True, slots=True)
class Goal:
    """A figure of ours that mustn't be above *limit*: *relative*, divided by the Go operator's."""

    text: str
    unit: str
    figure: Figure
    limit: float
    relative: bool = True
    worst: bool = False
    """Take the highest of the runs: what others on the machine don't disturb."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A figure, and the number of the run that gave it."""

    value: float
    run: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a goal came to; None is what wasn't measured."""

    goal: Goal
    ours: Measured | None
    theirs: Measured | None

    @property
    def ratio(self) -> float | None:
        """Ours divided by theirs."""
        if self.ours is None or self.theirs is None or not self.theirs.value:
            return None
        return self.ours.value / self.theirs.value

    @property
    def judged(self) -> float | None:
        """What the limit is held against."""
        if self.goal.relative:
            return self.ratio
        return self.ours.value if self.ours else None

    @property
    def missed(self) -> bool:
        """Tell whether it was measured and is above the limit."""
        return self.judged is not None and self.judged > self.goal.limit


GOALS = (
    Goal("all StatefulSets made", "s", lambda sample: sample.made.seconds, 1 / 8),
    Goal("CPU a Service made", "ms", lambda sample: sample.cpu_ms, 1.2),
    Goal("all Services removed", "s", lambda sample: sample.removed.seconds, 1 / 10),
    Goal("API writes a Service made", "", lambda sample: sample.writes, 6, relative=False, worst=True),
    Goal("API writes when idle", "", lambda sample: sample.idle.counted, 0, relative=False, worst=True),
    Goal("memory with all of them", "MB", lambda sample: sample.rss_mb, 1.3, worst=True),
)


def judged(samples: Sequence[Sample], goals: Sequence[Goal] = GOALS) -> list[Verdict]:
    """Return the verdict on each goal."""
    ours, theirs = of(Kind.OURS, samples), of(Kind.GO, samples)
    return [Verdict(goal, _measured(goal, ours), _measured(goal, theirs)) for goal in goals]


def _measured(goal: Goal, runs: Sequence[Sample]) -> Measured | None:
    if not runs:
        return None
    figures = [Measured(goal.figure(run), run.run) for run in runs]
    choose = max if goal.worst else min
    return choose(figures, key=lambda measured: measured.value)
