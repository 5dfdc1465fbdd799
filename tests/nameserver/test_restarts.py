"""Tests of the function that restarts failed tasks of the nameserver."""

import asyncio

import pytest
from tsnameserver.restarts import Restarts

from tests.support.virtual_time import in_virtual_time, now


class Part:
    """A task whose runs take the given *seconds*, one after another. Each run ends with an error, except the final run.

    *pauses* has the seconds before each run, counted from the end of the run before.
    """

    def __init__(self, *seconds: float) -> None:
        self._runs = list(seconds)
        self.pauses: list[float] = []
        self._ended = 0.0

    async def work(self) -> None:
        self.pauses.append(now() - self._ended)
        await asyncio.sleep(self._runs.pop(0))
        self._ended = now()
        if self._runs:
            raise ZeroDivisionError


@in_virtual_time
async def test_a_task_of_the_nameserver_that_fails_is_restarted_until_it_ends_normally() -> None:
    restarts = Restarts()
    for part in (Part(0, 0, 0), Part(0), Part(0, 0)):
        await restarts.keep_running("tcp", part.work)
    await restarts.keep_running("api", Part(0).work)
    assert restarts.counts == {"tcp": 3, "api": 0}


def test_the_pause_before_restarts_of_a_task_grows_until_the_task_has_run_for_half_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    part = Part(*[0] * 8, 29, 31, 0)
    in_virtual_time(lambda: Restarts().keep_running("tcp", part.work))()
    most = (0.25, 0.5, 1, 2, 4, 8, 16, 30, 30, 0.25)
    assert [limit / 2 <= pause <= limit for pause, limit in zip(part.pauses[1:], most, strict=True)] == [True] * 10
    assert caplog.messages[0].startswith("tcp failed unexpectedly and starts again in 0.")
    assert caplog.text.count("Traceback") == caplog.text.count("raise ZeroDivisionError") == 10
