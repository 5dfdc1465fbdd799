"""The benchmark's command line: `python -m dnsbench --help`."""

import argparse
import json
import os
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from dnsload.client import compile_client
from dnsload.errors import ClientError
from tsnameserver.compiled import COMPILED

from dnsbench import plot, report, soak
from dnsbench.attacks import Attack
from dnsbench.bench import Bench
from dnsbench.client import Client
from dnsbench.dnsperf import Dnsperf
from dnsbench.errors import BenchError
from dnsbench.goals import Table, Verdict, judged
from dnsbench.machine import command_line, cores, facts
from dnsbench.measure import Row
from dnsbench.progress import Progress
from dnsbench.scenarios import SCENARIOS, Scenario
from dnsbench.servers import Installed, Kind


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    top = argparse.ArgumentParser("dnsbench", description="Compare the nameserver with its peers, on loopback.")
    top.add_argument("command", nargs="?", choices=("compare", "soak"), default="compare")
    top.add_argument(
        "--go-nameserver", type=Path, metavar="PATH", help="the program of tailscale.com/cmd/k8s-nameserver"
    )
    top.add_argument(
        "--servers", type=_kinds, default=set(Kind), metavar="NAMES", help=f"of {','.join(Kind)}; default: all"
    )
    top.add_argument(
        "--scenarios", type=_scenarios, default=SCENARIOS, metavar="NAMES", help=f"of {_names()}; default: all"
    )
    top.add_argument("--quick", action="store_true", help="one short round")
    top.add_argument("--no-goals", action="store_true", help="exit with 0 whether or not the goals are met")
    top.add_argument("--results", type=Path, metavar="DIR", help="where the JSON and the picture go (default: nowhere)")
    top.add_argument("--minutes", type=float, default=10, help="how long to soak; default: %(default)s")
    return top


def _names() -> str:
    return ",".join(scenario.name for scenario in SCENARIOS)


def _kinds(text: str) -> set[Kind]:
    known = {kind.lower(): kind for kind in Kind}
    try:
        return {known[name.strip().lower()] for name in text.split(",")}
    except KeyError as error:
        raise argparse.ArgumentTypeError(f"there is no server {error}: choose from {', '.join(known)}") from error


def _scenarios(text: str) -> tuple[Scenario, ...]:
    known = {scenario.name: scenario for scenario in SCENARIOS}
    try:
        return tuple(known[name.strip()] for name in text.split(","))
    except KeyError as error:
        raise argparse.ArgumentTypeError(f"there is no scenario {error}: choose from {_names()}") from error


def compare(bench: Bench, arguments: argparse.Namespace) -> list[Verdict]:
    """Measure the scenarios, print tables of the results, write the results to files, and return the verdicts."""
    chosen: list[Scenario] = [each.only(arguments.servers) for each in arguments.scenarios]
    if bench.dnsperf is None and any(each.by_dnsperf for each in chosen):
        bench.progress.say("dnsperf isn't here (apt-get install dnsperf): its scenario is left out")
        chosen = [each for each in chosen if not each.by_dnsperf]
    if os.geteuid() and any(each.attack is Attack.GONE for each in chosen):
        bench.progress.say("a network of its own needs root: the scenario with a neighbour that is gone is left out")
        chosen = [each for each in chosen if each.attack is not Attack.GONE]
    scenarios = [each.quick() if arguments.quick else each for each in chosen if each.contestants]
    rows: list[Row] = []
    for scenario in scenarios:
        rows += bench.run(scenario)
    verdicts = judged(Table(rows))
    for scenario in scenarios:
        print(f"{report.measurements(scenario, rows)}\n")
    print(f"{report.verdicts(verdicts)}\n")
    if arguments.results:
        kept = report.document(facts(bench.installed.programs, command_line(sys.argv[1:])), rows, verdicts)
        _write(arguments.results / "nameserver.json", kept)
        if drawn := [each for each in scenarios if each.attack is None]:
            plot.draw(arguments.results / "nameserver.svg", drawn, rows)
        bench.progress.say(f"written: {arguments.results}/nameserver.json and .svg; README's table is")
        print(report.summary(kept))
    return verdicts


def soak_it(bench: Bench, arguments: argparse.Namespace) -> list[Verdict]:
    """Run our server for a long time, print tables of the results, write them to a file, and return the verdicts."""
    soaked = soak.soak(bench, arguments.minutes)
    verdicts = soak.verdicts(soaked)
    print(f"{report.soaked(soaked)}\n\n{report.verdicts(verdicts)}\n")
    if arguments.results:
        kept = report.soak_document(facts(bench.installed.programs, command_line(sys.argv[1:])), soaked, verdicts)
        _write(arguments.results / "soak.json", kept)
    return verdicts


def _write(path: Path, kept: Mapping[str, object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")


def run(arguments: argparse.Namespace) -> int:
    """Run the command in *arguments*, and return the exit code. Raises BenchError."""
    kinds = {Kind.OURS} if arguments.command == "soak" else arguments.servers
    installed = Installed.find(kinds, arguments.go_nameserver)
    if Kind.OURS in kinds and not COMPILED:
        print("dnsbench: the compiled UDP loop isn't built, so `ours` is the loop in Python", file=sys.stderr)
    server_core, client_core = cores()
    with tempfile.TemporaryDirectory(prefix="dnsbench-") as name:
        folder = Path(name)
        client = Client(compile_client(folder), client_core)
        bench = Bench(installed, client, server_core, folder, Progress(), Dnsperf.find(client_core))
        verdicts = soak_it(bench, arguments) if arguments.command == "soak" else compare(bench, arguments)
        bench.progress.say("done")
    missed = sum(verdict.missed for verdict in verdicts)
    return 1 if missed and not arguments.no_goals else 0


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code.

    It is 1 if a goal is missed (unless ``--no-goals`` is given), 2 if the measurement failed, and 130 if it was
    interrupted.
    """
    arguments = parser().parse_args(words)
    try:
        return run(arguments)
    except (BenchError, ClientError) as problem:
        print(f"dnsbench: {problem}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("dnsbench: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # SIGTERM, like Ctrl-C, also ends the servers
    sys.exit(main())
