"""Lets long work share the event loop."""

import asyncio
from time import perf_counter
from typing import Final

SECONDS: Final = 0.005


class TimeSlice:
    """Measures for how long a task has held the event loop. The task may hold it for *seconds* at a time."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._end = perf_counter() + seconds

    async def pause(self) -> None:
        """Let other tasks run if this task has held the event loop for long enough.

        Call this between the steps of the work.
        """
        if perf_counter() >= self._end:
            await asyncio.sleep(0)
            self._end = perf_counter() + self._seconds
