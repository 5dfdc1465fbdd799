"""The command line of the benchmark of the operators."""

import argparse
import json
import platform
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from importlib import metadata
from pathlib import Path
from typing import TypeVar

from dnsbench.errors import BenchError
from dnsbench.machine import facts
from dnsbench.progress import Progress

from operatorbench import burst, groups, hosting, operators, report, steady
from operatorbench.bench import Load
from operatorbench.goals import GOALS, GROUP_GOALS, HOSTING_GOALS, STEADY_GOALS, Verdict, judged
from operatorbench.ground import Ground
from operatorbench.measure import Kind, Runs

EPILOG = """
The scenarios are "burst", all Services made at once, left alone and removed at once; "groups", the same with Services
that two ProxyGroups serve, and some more one by one; "steady", one Service every quarter of a second with a DNSConfig,
which only ours runs, as a leader and a standby; and "hosting", run once, Ingresses and Services that two ProxyGroups
expose by Tailscale Services, made at once and left alone. Each run has an API server of its own, without a node:
StatefulSets and Secrets are made, and no Pod runs. In "groups" the benchmark makes the Pods and writes what their
proxies would report, and in "hosting" also their certificates; in "steady" it gives each proxy an address two seconds
after it was made. The control server is the same, and real enough for the Go operator's own device to log in. CPU is
counted until the operator has written nothing for two seconds; writes are those in the API server's audit log.
"""

Choice = TypeVar("Choice", bound=StrEnum)


class Scenario(StrEnum):
    """The scenarios: in each, the operators have different work to do."""

    BURST = "burst"
    GROUPS = "groups"
    STEADY = "steady"
    HOSTING = "hosting"


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    top = argparse.ArgumentParser(
        "operatorbench",
        description="Compare the operator with the Go one on a real API server, and measure it beside its standby.",
        epilog=EPILOG,
    )
    scenarios, kinds = _chosen("scenario", Scenario), _chosen("operator", Kind)
    top.add_argument(
        "--scenarios",
        type=scenarios,
        default=list(Scenario),
        metavar="NAMES",
        help="of burst,groups,steady,hosting; default: all",
    )
    top.add_argument("--operators", type=kinds, default=list(Kind), metavar="NAMES", help="of ours,go; default: both")
    top.add_argument("--services", type=int, default=200, metavar="N", help="default: %(default)s")
    top.add_argument("--grouped", type=int, default=500, metavar="N", help='Services of "groups"; default: %(default)s')
    top.add_argument("--hosted", type=int, default=500, metavar="N", help='objects of "hosting"; default: %(default)s')
    top.add_argument("--repeat", type=int, default=1, metavar="N", help="runs of each, in turn; default: %(default)s")
    top.add_argument("--idle", type=float, default=30, metavar="S", help="seconds left alone; default: %(default)s")
    top.add_argument(
        "--hosting-idle",
        type=float,
        default=300,
        metavar="S",
        help='the same for ours in "hosting"; default: %(default)s',
    )
    top.add_argument(
        "--profile",
        type=Path,
        metavar="FILE",
        help='run ours under cProfile, which writes FILE; in "steady" leader-FILE, standby-FILE',
    )
    top.add_argument("--no-goals", action="store_true", help="exit with 0 whether or not the goals are met")
    top.add_argument("--results", type=Path, metavar="DIR", help="where the JSON goes (default: nowhere)")
    return top


def _chosen(what: str, choices: type[Choice]) -> Callable[[str], list[Choice]]:
    """Return a function that parses names of *choices* separated by commas; *what* names a choice in its errors."""
    known = {choice.lower(): choice for choice in choices}

    def read(text: str) -> list[Choice]:
        try:
            return [known[name.strip().lower()] for name in text.split(",")]
        except KeyError as error:
            raise argparse.ArgumentTypeError(f"there is no {what} {error}: choose from {', '.join(known)}") from error

    return read


def run(arguments: argparse.Namespace, ground: Ground, progress: Progress) -> list[Verdict]:
    """Run the scenarios, print tables of the results, write the results to a file, and return the verdicts.

    Raises:
        BenchError: an operator didn't do its work.
    """
    runs = Runs()
    load = Load(arguments.services, arguments.idle)
    for kind in arguments.operators * arguments.repeat if Scenario.BURST in arguments.scenarios else ():
        operator = _operator(kind, arguments, ground)
        runs.burst.append(burst.run(ground, operator, load, runs.next_number, progress))
    load = Load(arguments.grouped, arguments.idle)
    for kind in arguments.operators * arguments.repeat if Scenario.GROUPS in arguments.scenarios else ():
        operator = _operator(kind, arguments, ground)
        runs.groups.append(groups.run(ground, operator, load, runs.next_number, progress))
    for _ in range(arguments.repeat if Scenario.STEADY in arguments.scenarios else 0):
        runs.steady.append(steady.run(ground, arguments.services, arguments.profile, runs.next_number, progress))
    for kind in arguments.operators if Scenario.HOSTING in arguments.scenarios else ():
        operator = _operator(kind, arguments, ground)
        load = Load(arguments.hosted, arguments.hosting_idle if kind is Kind.OURS else arguments.idle)
        runs.hosting.append(hosting.run(ground, operator, load, runs.next_number, progress))
    verdicts = [
        *judged(runs.burst, GOALS),
        *judged(runs.groups, GROUP_GOALS),
        *judged(runs.steady, STEADY_GOALS),
        *judged(runs.hosting, HOSTING_GOALS),
    ]
    print("\n\n".join(_tables(runs, verdicts)) + "\n")
    if arguments.results:
        _write(arguments.results / "operator.json", report.document(_facts(ground), runs, verdicts))
        progress.say(f"written: {arguments.results}/operator.json")
    return verdicts


def _tables(runs: Runs, verdicts: Sequence[Verdict]) -> Iterator[str]:
    """Yield the tables of the scenarios that were run, and the table of all goals."""
    if runs.burst:
        yield report.runs(runs.burst)
        yield report.writes(runs.burst)
    if runs.groups:
        yield report.groups(runs.groups)
        yield report.writes(runs.groups)
    if runs.steady:
        yield report.steady(runs.steady)
        yield report.writes(runs.steady)
    if runs.hosting:
        yield report.hosting(runs.hosting)
        yield report.writes(runs.hosting)
    yield report.verdicts(verdicts)


def _operator(kind: Kind, arguments: argparse.Namespace, ground: Ground) -> operators.Operator:
    return (
        operators.ours(ground.crds, arguments.profile) if kind is Kind.OURS else operators.theirs(ground.go_operator())
    )


def _facts(ground: Ground) -> dict[str, object]:
    shown = [Path(word).name if Path(word).is_absolute() else word for word in sys.argv[1:]]
    ours = f"tsoperator {metadata.version('tsoperator')}, Python {platform.python_version()}"
    command = shlex.join(["python", "-m", "tests.e2e.benchground", *shown])
    return {**facts({}, command), "versions": {"ours": ours, **ground.versions}}


def _write(path: Path, kept: Mapping[str, object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")


def main(ground: Ground, words: Sequence[str] | None = None) -> int:
    """Run the benchmark and return the exit code.

    It is 1 if a goal is missed (unless ``--no-goals`` is given), 2 if the measurement failed, and 130 if it was
    interrupted.
    """
    arguments = parser().parse_args(words)
    progress = Progress()
    try:
        verdicts = run(arguments, ground, progress)
    except BenchError as problem:
        print(f"operatorbench: {problem}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("operatorbench: interrupted", file=sys.stderr)
        return 130
    progress.say("done")
    return 1 if any(verdict.missed for verdict in verdicts) and not arguments.no_goals else 0
