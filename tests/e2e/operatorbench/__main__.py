"""The benchmark's command line: `python -m tests.e2e.operatorbench --help`."""

import argparse
import json
import platform
import shlex
import signal
import sys
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path

from dnsbench.machine import facts

from tests.e2e.operatorbench import bench, burst, operators, report
from tests.e2e.operatorbench.goals import Verdict, judged
from tests.e2e.operatorbench.measure import Kind, Sample
from tests.e2e.testbed import preflight
from tests.e2e.testbed.bed import Bed
from tests.e2e.testbed.build import build, build_program
from tests.e2e.testbed.errors import BedError
from tests.e2e.testbed.parts import KUBERNETES, TAILSCALE, named
from tests.e2e.testbed.paths import Paths
from tests.e2e.testbed.progress import Progress

EPILOG = """
Each run has an API server of its own, without a node: StatefulSets and Secrets are made, and no Pod runs. The control
server is the same, and real enough for the Go operator's own device to log in. CPU is counted until the operator has
written nothing for two seconds; writes are those in the API server's audit log.
"""


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    top = argparse.ArgumentParser(
        "operatorbench",
        description="Compare the operator with the Go one on a real API server: egress Services made and removed.",
        epilog=EPILOG,
    )
    top.add_argument("--operators", type=_kinds, default=list(Kind), metavar="NAMES", help="of ours,go; default: both")
    top.add_argument("--services", type=int, default=200, metavar="N", help="default: %(default)s")
    top.add_argument("--repeat", type=int, default=1, metavar="N", help="runs of each, in turn; default: %(default)s")
    top.add_argument("--idle", type=float, default=30, metavar="S", help="seconds left alone; default: %(default)s")
    top.add_argument("--profile", type=Path, metavar="FILE", help="run ours under cProfile, which writes this file")
    top.add_argument("--no-goals", action="store_true", help="exit with 0 whether or not the goals are met")
    top.add_argument("--results", type=Path, metavar="DIR", help="where the JSON goes (default: nowhere)")
    return top


def _kinds(text: str) -> list[Kind]:
    known = {kind.lower(): kind for kind in Kind}
    try:
        return [known[name.strip().lower()] for name in text.split(",")]
    except KeyError as error:
        raise argparse.ArgumentTypeError(f"there is no operator {error}: choose from {', '.join(known)}") from error


def run(arguments: argparse.Namespace, paths: Paths, progress: Progress) -> list[Verdict]:
    """Measure, print tables, and keep the result.

    Raises:
        BedError: something can't be built or doesn't work.
    """
    build(paths, progress, [named(name) for name in ("kubernetes", "control")], whole=False)
    load = burst.Load(arguments.services, arguments.idle)
    samples: list[Sample] = []
    for kind in arguments.operators * arguments.repeat:
        operator = _operator(kind, arguments, paths, progress)
        samples.append(burst.run(Bed(paths, True, bench.CONTROLLERS), operator, load, len(samples) + 1, progress))
    verdicts = judged(samples)
    print(f"{report.runs(samples)}\n\n{report.writes(samples)}\n\n{report.verdicts(verdicts)}\n")
    if arguments.results:
        _write(arguments.results / "operator.json", report.document(_facts(), samples, verdicts))
        progress.say(f"written: {arguments.results}/operator.json")
    return verdicts


def _operator(kind: Kind, arguments: argparse.Namespace, paths: Paths, progress: Progress) -> operators.Operator:
    if kind is Kind.OURS:
        return operators.ours(arguments.profile)
    preflight.check_builds()  # go also says where its CRDs are
    return operators.theirs(build_program("k8s-operator", paths, progress))


def _facts() -> dict[str, object]:
    shown = [Path(word).name if Path(word).is_absolute() else word for word in sys.argv[1:]]
    versions = {
        "ours": f"tsoperator {metadata.version('tsoperator')}, Python {platform.python_version()}",
        "Go": f"k8s-operator {TAILSCALE}",
        "API server": KUBERNETES,
    }
    return {**facts({}, shlex.join(["python", "-m", "tests.e2e.operatorbench", *shown])), "versions": versions}


def _write(path: Path, kept: Mapping[str, object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")


def main(words: Sequence[str] | None = None) -> int:
    """Return the exit code: 1 where a goal is missed, 2 where nothing could be measured."""
    arguments = parser().parse_args(words)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # either way what runs is ended
    progress = Progress()
    try:
        verdicts = run(arguments, Paths.from_environment(), progress)
    except BedError as problem:
        print(f"operatorbench: {problem}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("operatorbench: interrupted", file=sys.stderr)
        return 130
    progress.say("done")
    return 1 if any(verdict.missed for verdict in verdicts) and not arguments.no_goals else 0


if __name__ == "__main__":
    sys.exit(main())
