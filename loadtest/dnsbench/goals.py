"""The goals for the nameserver, and the verdicts on them from a table of measurements (pure)."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from dnsbench.measure import Row, Sample
from dnsbench.queries import Hostile
from dnsbench.scenarios import LARGE, SMALL
from dnsbench.servers import Kind
from dnsbench.victims import Victim


@dataclass(frozen=True, slots=True)
class Table:
    """Measurements by scenario and contestant."""

    rows: Sequence[Row]

    def get(self, scenario: str, label: str) -> Sample | None:
        """Return the best figures of a contestant, or None if it wasn't measured."""
        found = (row.best for row in self.rows if (row.scenario, row.label) == (scenario, label))
        return next(found, None)


Judge = Callable[[Table], float | None]


@dataclass(frozen=True, slots=True)
class Goal:
    """A figure that must not exceed *limit*. Without a limit, the report shows the figure only for comparison."""

    text: str
    limit: float | None
    unit: str
    judge: Judge


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judgement on a goal; *figure* is None if it wasn't measured."""

    text: str
    limit: float | None
    unit: str
    figure: float | None
    rounds: Sequence[float] = ()
    """The figure of each single round. Their spread shows how reliable the figure is."""

    @property
    def missed(self) -> bool:
        """True if the figure was measured and exceeds a limit."""
        return self.figure is not None and self.limit is not None and self.figure > self.limit


def ratio(scenario: str, label: str, to: str, figure: str = "cpu_us") -> Judge:
    """Return a function that divides a *figure* of the contestant *label* by the same figure of the contestant *to*.

    By default, the figure is the CPU time per query.
    """

    def judge(table: Table) -> float | None:
        ours, theirs = table.get(scenario, label), table.get(scenario, to)
        least = float(getattr(theirs, figure)) if theirs else 0.0
        return float(getattr(ours, figure)) / least if ours and least else None

    return judge


def added_ms(scenario: str, label: str, to: str, figure: str) -> Judge:
    """Return a function that subtracts the *figure* of the contestant *to* from the same figure of *label*.

    Both figures are in µs, and the difference is in ms.
    """

    def judge(table: Table) -> float | None:
        ours, theirs = table.get(scenario, label), table.get(scenario, to)
        return (float(getattr(ours, figure)) - float(getattr(theirs, figure))) / 1000 if ours and theirs else None

    return judge


def milliseconds(scenario: str, label: str, figure: str) -> Judge:
    """Return a function that reads the *figure* of a contestant from a table, and converts it from µs to ms."""

    def judge(table: Table) -> float | None:
        found = table.get(scenario, label)
        return float(getattr(found, figure)) / 1000 if found else None

    return judge


def memory(label: str) -> Judge:
    """Return a function that reads the memory of the contestant *label* in the scenario ``sizes``, in megabytes."""

    def judge(table: Table) -> float | None:
        found = table.get("sizes", label)
        return found.rss_mb if found else None

    return judge


def lost_percent(scenario: str, label: str) -> Judge:
    """Return a function that reads from a table the percentage of a contestant's queries that got no answer."""

    def judge(table: Table) -> float | None:
        found = table.get(scenario, label)
        return found.lost_percent if found else None

    return judge


def wrong(table: Table) -> float | None:
    """Return the number of our server's wrong answers in all scenarios; None if it wasn't measured.

    The answers of the server without the compiled loop count as well.
    """
    ours = [row.best.wrong for row in table.rows if row.label.startswith(Kind.OURS)]
    return sum(ours) if ours else None


def _sorts(kind: Kind, *limits: tuple[str, float]) -> Iterator[Goal]:
    for sort, limit in limits:
        judge = ratio("flood", f"{kind}, {sort}", f"{kind}, hits")
        yield Goal(f"CPU a query, saturated, {kind}: {sort} / hits", limit, "x", judge)


def _floods(kind: Kind) -> Iterator[Goal]:
    for sort in Hostile:
        judge = lost_percent("hostile", f"{kind}, {sort}")
        yield Goal(f"answers lost among hostile packets, {kind}: {sort}", 0, "%", judge)


def _attacks() -> Iterator[Goal]:
    flood, gone = "during a flood by TCP", "while a neighbour is gone"
    for scenario, attack, label, (what, figure), limit in (
        ("tcp-flood", flood, f"{Kind.OURS}, {Victim.PROBE}", ("p99", "p99_us"), 50),
        ("tcp-flood", flood, f"{Kind.OURS}, {Victim.TCP}", ("p99", "p99_us"), 100),
        ("gone", gone, f"{Kind.OURS}, {Victim.UDP}", ("longest stall", "stall_us"), 100),
        ("gone", gone, f"{Kind.PYTHON}, {Victim.UDP}", ("longest stall", "stall_us"), 100),
    ):
        yield Goal(f"{what} {attack}: {label}", limit, "ms", milliseconds(scenario, label, figure))
        yield Goal(f"answers lost {attack}: {label}", 0, "%", lost_percent(scenario, label))


_SMALL, _LARGE = f"ours, {SMALL:,} names", f"ours, {LARGE:,} names"
_CHANGES = ("reload", "ours, changes", "ours, no changes")
GOALS = (
    Goal("CPU a query, saturated: ours / Go", 0.38, "x", ratio("saturated", "ours", "Go")),
    Goal("CPU a query, saturated: a bare echo / Go", None, "x", ratio("saturated", Kind.ECHO, "Go")),
    Goal("CPU a query, saturated: ours / Knot", 1.0, "x", ratio("saturated", "ours", "Knot")),
    Goal("CPU a query at 10,000 q/s: ours / Go", 0.40, "x", ratio("paced", "ours", "Go")),
    Goal("CPU a query at 10,000 q/s: a bare echo / Go", None, "x", ratio("paced", Kind.ECHO, "Go")),
    Goal("median latency at 10,000 q/s: ours / Go", 1.5, "x", ratio("paced", "ours", "Go", "p50_us")),
    Goal(f"CPU a query, saturated: {LARGE:,} names / {SMALL:,}", 1.1, "x", ratio("sizes", _LARGE, _SMALL)),
    *_sorts(Kind.OURS, ("misses", 1.1), ("deep names", 2), ("cookies", 1.2), ("names outside", 2)),
    Goal("CPU a query by TCP, saturated: ours / Go", 0.6, "x", ratio("tcp", "ours", "Go")),
    Goal("CPU a query by TCP, a connection each: ours / Go", 1.0, "x", ratio("tcp-new", "ours", "Go")),
    *_floods(Kind.OURS),
    *_attacks(),
    Goal(f"memory with {SMALL:,} names", 40, "MB", memory(_SMALL)),
    Goal(f"memory with {LARGE:,} names", 110, "MB", memory(_LARGE)),
    Goal("what changes add to p99.99", 10, "ms", added_ms(*_CHANGES, "p9999_us")),
    Goal("what changes add to the longest stall", 1, "ms", added_ms(*_CHANGES, "stall_us")),
    Goal("CPU a query, saturated: ours/Python / Go", 1.0, "x", ratio("saturated", Kind.PYTHON, "Go")),
    Goal("CPU a query at 10,000 q/s: ours/Python / Go", 1.0, "x", ratio("paced", Kind.PYTHON, "Go")),
    *_sorts(Kind.PYTHON, ("misses", 1.2), ("deep names", 2), ("cookies", 1.5), ("names outside", 2)),
    *_floods(Kind.PYTHON),
    Goal("wrong answers of ours", 0, "", wrong),
)


def judged(table: Table, goals: Sequence[Goal] = GOALS) -> list[Verdict]:
    """Return the verdict on each goal, with the figure from the best values of all rounds, and that of each round."""
    most = max((len(row.rounds) for row in table.rows), default=0)
    tables = [
        Table([_of_round(row, number) for row in table.rows if number < len(row.rounds)]) for number in range(most)
    ]
    verdicts = []
    for goal in goals:
        figures = (goal.judge(each) for each in tables)
        rounds = tuple(figure for figure in figures if figure is not None)
        verdicts.append(Verdict(goal.text, goal.limit, goal.unit, goal.judge(table), rounds))
    return verdicts


def _of_round(row: Row, number: int) -> Row:
    return row.model_copy(update={"best": row.rounds[number]})
