"""Lets a long computation share the event loop with other tasks."""

import asyncio
from time import perf_counter
from typing import Final

SECONDS: Final = 0.005


class TimeSlice:
    """Measures how long a task has blocked the event loop. The task is allowed to block it for *seconds* at a time."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._end = perf_counter() + seconds

    async def pause(self) -> None:
        """Let other tasks run if this task has blocked the event loop for its whole time slice.

        Call this between the steps of the computation.
        """
        if perf_counter() >= self._end:
            await asyncio.sleep(0)
            self._end = perf_counter() + self._seconds
