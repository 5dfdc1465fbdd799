"""The operator as a process: reads the settings, runs until a signal, and returns an exit code."""

import asyncio
import contextlib
import gc
import logging
import os
import signal
import sys

import uvloop

from tsoperator.app import run
from tsoperator.kube.errors import KubeError
from tsoperator.logs import start_logging
from tsoperator.runtime.leader import LeadershipLost
from tsoperator.runtime.serving import ListenError
from tsoperator.settings import InvalidSetting, Settings, read_settings

_YOUNG = 10_000
"""The number of new objects after which Python looks for cycles among them.

Nearly all objects of the operator end without that. With Python's own number, 700, it would use 2 % of the CPU.
"""


def run_operator() -> int:
    """Run the operator with the settings in the environment, and return the exit code."""
    try:
        settings = read_settings(os.environ)
    except InvalidSetting as error:
        sys.stderr.write(f"tsoperator: {error}\n")
        return 2
    start_logging(settings.log_level, settings.log_format)
    for warning in settings.warnings:
        logging.getLogger("tsoperator").warning("%s", warning)
    gc.set_threshold(_YOUNG)
    # uvloop spends a third less CPU than asyncio's own loop on watches, because its TLS is compiled. But it loses the
    # end of a stream if the peer closes the connection while reading is paused. Only watches pause, and after a loss,
    # the next watch goes on from the last event that came.
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
