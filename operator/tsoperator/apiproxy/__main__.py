"""The command line: reads the settings, runs the API server proxy, and returns an exit code."""

import argparse
import asyncio
import contextlib
import logging
import os
import signal
import sys
import textwrap

import uvloop
from tsnameserver import __version__

from tsoperator.apiproxy.app import CannotListen, run
from tsoperator.apiproxy.settings import PROXY_VARIABLES, InvalidProxySetting, ProxySettings, read_proxy_settings
from tsoperator.logs import start_logging

_NAME = "tsoperator.apiproxy"
_LINES = "\n".join(
    textwrap.fill(words, 110, initial_indent=f"  {name:<26}", subsequent_indent=" " * 28)
    for name, words in PROXY_VARIABLES.items()
)
_EPILOG = f"""\
environment (an empty variable counts as unset):
{_LINES}

exit status: 0 stopped by SIGTERM or SIGINT, 1 cannot go on, 2 a setting is wrong
"""


def main() -> None:
    """Run the API server proxy as a process."""
    parser = argparse.ArgumentParser(
        prog=_NAME,
        description="Forwards requests from a tailnet to the Kubernetes API. The operator runs it beside tailscaled.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"{_NAME} {__version__}")
    parser.parse_args()
    try:
        settings = read_proxy_settings(os.environ)
    except InvalidProxySetting as error:
        print(f"{_NAME}: {error}", file=sys.stderr)
        sys.exit(2)
    sys.exit(serve(settings))


def serve(settings: ProxySettings) -> int:
    """Run the proxy until a signal stops it, and return the exit code."""
    start_logging(settings.log_level, settings.log_format)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_until_stopped(settings))


async def _until_stopped(settings: ProxySettings) -> int:
    """Run until SIGTERM or SIGINT, or until an error; return the exit code."""
    log = logging.getLogger(_NAME)
    proxy = asyncio.create_task(run(settings))
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, proxy.cancel)
    failures: list[BaseException] = []
    try:
        with contextlib.suppress(asyncio.CancelledError):
            await proxy
    except* (CannotListen, OSError) as group:
        failures += group.exceptions
    for failure in failures:
        log.error("%s", failure)
    if not failures:
        log.info("stopped")
    return 1 if failures else 0


if __name__ == "__main__":
    main()
