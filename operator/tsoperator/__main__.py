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
from tsoperator.check.command import add_arguments, run_check
from tsoperator.kube.errors import KubeError
from tsoperator.logs import start_logging
from tsoperator.runtime.leader import LeadershipLost
from tsoperator.runtime.serving import ListenError
from tsoperator.settings import InvalidSetting, Settings, read_settings
from tsoperator.variables import help_lines

_EPILOG = f"""\
environment (an empty variable counts as unset):
{help_lines()}

Requests to the control server go through a proxy if HTTPS_PROXY and NO_PROXY say so. HTTP_PROXY counts only outside of
the cluster, for the health checks of ProxyGroups. The TLS library trusts the certificates in SSL_CERT_FILE.

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
    add_arguments(parser.add_subparsers(dest="command", title="instead of running it"))
    arguments = parser.parse_args()
    if arguments.command:
        logging.getLogger("tsoperator").addHandler(logging.NullHandler())  # a check prints what it finds, and no log
        sys.exit(run_check(arguments))
    sys.exit(_run())


def _run() -> int:
    try:
        settings = read_settings(os.environ)
    except InvalidSetting as error:
        print(f"tsoperator: {error}", file=sys.stderr)
        return 2
    start_logging(settings.log_level, settings.log_format)
    for warning in settings.warnings:
        logging.getLogger("tsoperator").warning("%s", warning)
    # uvloop spends a third less CPU than asyncio's own loop on watches, because its TLS is compiled. But it loses the
    # end of a stream if the peer closes the connection while reading is paused. Only watches pause, and the next watch
    # resumes after the last event of the one that was cut.
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_until_stopped(settings))


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
