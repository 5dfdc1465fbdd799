"""Lets long work share the event loop."""

import asyncio
from time import perf_counter
from typing import Final

SECONDS: Final = 0.005


class TimeSlice:
    """Measures how long a task holds the event loop without waiting. It may do so for SECONDS at a time."""

    def __init__(self) -> None:
        self._end = perf_counter() + SECONDS

    async def pause(self) -> None:
        """Let other tasks run if the time is over; call this between the steps of the work."""
        if perf_counter() >= self._end:
            await asyncio.sleep(0)
            self._end = perf_counter() + SECONDS
