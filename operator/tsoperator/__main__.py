"""The command line: reads the settings, runs the operator or a check, and returns an exit code."""

import argparse
import asyncio
import contextlib
import logging
import os
import signal
import sys

import uvloop
from tsnameserver import __version__

from tsoperator.app import run
from tsoperator.cli.check import Endpoint, Installation, check, endpoint, in_cluster
from tsoperator.cli.logs import start_logging
from tsoperator.kube.errors import KubeError
from tsoperator.runtime.health import ListenError
from tsoperator.runtime.leader import LeadershipLost
from tsoperator.settings import InvalidSetting, Settings, read_settings, resolv_conf
from tsoperator.variables import described

_EPILOG = f"""\
environment (empty counts as unset):
{described()}

Requests to the control server go through a proxy if HTTPS_PROXY and NO_PROXY say so.

exit status: 0 stopped by SIGTERM or SIGINT, 1 cannot go on, 2 a setting is wrong
"""


def main() -> None:
    """Run the operator as a process."""
    parser = argparse.ArgumentParser(
        prog="tsoperator",
        description="Kubernetes operator for tailnets. It takes its settings from the environment.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"tsoperator {__version__}")
    _add_check(parser.add_subparsers(dest="command", title="instead of running it"))
    arguments = parser.parse_args()
    sys.exit(_check(arguments) if arguments.command else _run())


def _run() -> int:
    try:
        settings = read_settings(os.environ)
    except InvalidSetting as error:
        print(f"tsoperator: {error}", file=sys.stderr)
        return 2
    start_logging(settings.log_level, settings.log_format)
    for warning in settings.warnings:
        logging.getLogger("tsoperator").warning("%s", warning)
    # uvloop spends a third less CPU than asyncio's own loop on watches, because its TLS is compiled.
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_until_stopped(settings))


def _add_check(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    text = "see whether an installed operator and its nameserver answer: what `helm test` does"
    parser = commands.add_parser(
        "check", help=text, description=text, epilog="exit status: 0 all is well, 1 something isn't"
    )
    parser.add_argument("--namespace", required=True, help="the operator's namespace, for what is said to do")
    parser.add_argument(
        "--operator",
        required=True,
        type=endpoint,
        metavar="HOST:PORT",
        help="the operator's probes; HOST may be a Service of that namespace",
    )
    parser.add_argument("--zone", required=True, help="a zone that the nameserver must serve")
    parser.add_argument(
        "--nameserver",
        type=endpoint,
        metavar="ADDRESS:PORT",
        help="the nameserver (default: that of NAMESERVER_SERVICE_HOST, which a cluster sets where it has one)",
    )
    parser.add_argument("--seconds", type=float, default=60, help="how long to look until all is well (default 60)")


def _check(arguments: argparse.Namespace) -> int:
    operator, nameserver = arguments.operator, arguments.nameserver
    if not {".", ":"} & {*operator.host}:
        operator = Endpoint(in_cluster(operator.host, arguments.namespace, resolv_conf()), operator.port)
    if nameserver is None and (host := os.environ.get("NAMESERVER_SERVICE_HOST")):
        nameserver = Endpoint(host, 53)
    installation = Installation(arguments.namespace, operator, nameserver, arguments.zone)
    findings = check(installation, arguments.seconds)
    for finding in findings:
        print(finding)
    return 0 if all(finding.good for finding in findings) else 1


async def _until_stopped(settings: Settings) -> int:
    """Run until SIGTERM or SIGINT, or until an error that the operator can't recover from; return the exit code."""
    log = logging.getLogger("tsoperator")
    operator = asyncio.create_task(run(settings))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, operator.cancel)
    failures: list[BaseException] = []
    try:
        with contextlib.suppress(asyncio.CancelledError):
            await operator
    except* (KubeError, ListenError, LeadershipLost) as group:
        failures += group.exceptions
    for failure in failures:
        log.error("%s", failure)
    if not failures:
        log.info("stopped")
    return 1 if failures else 0


if __name__ == "__main__":
    main()
