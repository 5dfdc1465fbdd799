"""The testbed's command line: `python -m tests.e2e.testbed --help`."""

import argparse
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping

from tests.e2e.testbed import packages, parts, preflight, rootfs
from tests.e2e.testbed.bed import Bed
from tests.e2e.testbed.build import build, build_foreign_base, build_program
from tests.e2e.testbed.errors import BedError
from tests.e2e.testbed.lock import locked
from tests.e2e.testbed.paths import Paths
from tests.e2e.testbed.progress import Progress

EPILOG = """
A bed is a real Kubernetes cluster of one node and two tailnets in network namespaces (wan, node, peer, peer2, second)
that nothing leaves; a test may add a second node (node2) or another device (peer3). With --api-only it is etcd, the API
server and the controller manager on loopback, and both kinds can be up at once.

Built parts are kept in ${XDG_CACHE_HOME:-~/.cache}/tailnet-operator-testbed, one folder for each version of a part.
Files of a running bed, and the logs of the last one, are in ${TESTBED_WORK:-/var/tmp/tailnet-operator-testbed}.
"""


def parser() -> argparse.ArgumentParser:
    """Return the parser for the testbed's command line."""
    top = argparse.ArgumentParser(
        prog="python -m tests.e2e.testbed",
        description="A real Kubernetes cluster and tailnet on this machine, for the end-to-end tests.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = top.add_subparsers(dest="command", required=True)
    for name, text in (
        ("up", "build what is missing, and bring a bed up"),
        ("down", "take the bed down and see that nothing is left (both kinds, or with --api-only that one)"),
        ("status", "say what runs and what is built; exit with 1 when nothing runs"),
        ("build", "build the parts that are missing; all of them only where a bed can run"),
        ("program", "say where a program of the parts is, built if it isn't yet"),
        ("peers", "build or install the nameservers that `make bench` compares ours with; say where the Go one is"),
        ("shell", "start a shell (or the command that follows) with KUBECONFIG and PATH set for the bed"),
    ):
        command = commands.add_parser(name, help=text, description=text)
        if name not in {"build", "peers", "program"}:
            command.add_argument("--api-only", action="store_true", help="the API server alone, without a node")
    commands.choices["up"].add_argument(
        "--oldest", action="store_true", help=f"with an API server of Kubernetes {parts.OLDEST_KUBERNETES}"
    )
    words = f"default: all of {', '.join(_names())}, base. There is also {rootfs.FOREIGN.name}"
    commands.choices["build"].add_argument("part", nargs="*", help=words)
    commands.choices["program"].add_argument("name", help="such as helm or kubectl")
    commands.choices["shell"].add_argument("words", nargs=argparse.REMAINDER, help="a command to run instead")
    return top


def _names() -> list[str]:
    return [part.name for part in parts.ALL]


def up(paths: Paths, arguments: argparse.Namespace) -> int:
    """Build the missing parts, start a bed, and print the path of its kubeconfig."""
    progress = Progress()
    bed = Bed(paths, arguments.api_only, arguments.oldest)
    with locked(paths.work, "up"):
        bed.up(progress)
    progress.say(f"up. KUBECONFIG={bed.kubeconfig}")
    return 0


def down(paths: Paths, arguments: argparse.Namespace) -> int:
    """Stop both kinds of bed or, with `--api-only`, only the bed without a node.

    Print the leftovers, and return 1 if there are any.
    """
    progress = Progress()
    left: list[str] = []
    with locked(paths.work, "down"):
        for bed in _beds(paths, arguments):
            left += bed.down(progress)
    for line in left:
        progress.say(f"left behind: {line}")
    progress.say("down, but not clean" if left else f"down; logs: {paths.work / 'logs'}")
    return 1 if left else 0


def _beds(paths: Paths, arguments: argparse.Namespace) -> list[Bed]:
    whole = [] if arguments.api_only else [Bed(paths)]
    return [bed for bed in [*whole, Bed(paths, api_only=True)] if bed.folder.exists()]


def status(paths: Paths, arguments: argparse.Namespace) -> int:
    """Print which machines and programs of the beds run, and which parts are built. Return 1 if no bed runs."""
    beds = _beds(paths, arguments)
    for bed in beds:
        print(f"{bed.folder.name}: KUBECONFIG={bed.kubeconfig}")
        for machine in bed.machines.values():
            print(f"  namespace {machine.name:<26} {_state(machine.alive)} pid {machine.first.pid}")
        for daemon in bed.daemons.all():
            print(f"  {daemon.name:<36} {_state(daemon.process.alive)} pid {daemon.process.pid}  {daemon.log}")
    for part in parts.ALL:
        print(f"part {part.name:<33} {'built' if part.output(paths).exists() else 'not built'}")
    for base in (rootfs.OWN, rootfs.FOREIGN):
        print(f"part {base.name:<33} {'built' if rootfs.layout(paths, base).exists() else 'not built'}")
    return 0 if any(bed.runs for bed in beds) else 1


def _state(alive: bool) -> str:
    return "runs " if alive else "ENDED"


def build_parts(paths: Paths, arguments: argparse.Namespace) -> int:
    """Build the programs of the given parts, or of all parts."""
    names = [name for name in arguments.part if name != rootfs.FOREIGN.name]
    chosen = [parts.named(name) for name in names] if arguments.part else parts.ALL
    if not arguments.part and not Bed(paths).runs:
        preflight.check_cluster(paths.work)
    build(paths, Progress(), chosen, whole=not arguments.part)
    if rootfs.FOREIGN.name in arguments.part:
        build_foreign_base(paths, Progress())
    return 0


def peers(paths: Paths, _: argparse.Namespace) -> int:
    """Build or install the nameservers that `make bench` compares ours with, and print the path of the Go one."""
    progress = Progress()
    packages.install_peers(progress)
    print(build_program("k8s-nameserver", paths, progress))
    return 0


def say_program(paths: Paths, arguments: argparse.Namespace) -> int:
    """Print the path of a program. If the program isn't built, build it first."""
    print(build_program(arguments.name, paths, Progress()))
    return 0


def shell(paths: Paths, arguments: argparse.Namespace) -> int:
    """Run a shell or a given command with the environment of the bed, and return its exit code."""
    bed = Bed(paths, arguments.api_only)
    if not bed.runs:
        raise BedError("no bed is up: run `up` first")
    words = arguments.words or [os.environ.get("SHELL", "/bin/sh")]
    return subprocess.run(words, env=bed.environment(), check=False).returncode


COMMANDS: Mapping[str, Callable[[Paths, argparse.Namespace], int]] = {
    "up": up,
    "down": down,
    "status": status,
    "build": build_parts,
    "peers": peers,
    "program": say_program,
    "shell": shell,
}


def main() -> int:
    """Run the command that the command line names, and return its exit code."""
    arguments = parser().parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # SIGTERM takes the bed down as Ctrl-C does
    try:
        code = COMMANDS[arguments.command](Paths.from_environment(), arguments)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of the output has closed it, such as `head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except BedError as problem:
        print(f"testbed: {problem}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("testbed: interrupted", file=sys.stderr)
        return 130
    return code


if __name__ == "__main__":
    sys.exit(main())
