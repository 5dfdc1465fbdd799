"""A program that runs the operator as ``python -m tsoperator`` does, and logs which callbacks block its event loop.

The file that ``LOOP_HOLDS`` names gets a line for each callback that takes `LEAST` seconds of CPU or more: the time of
its end (by `time.monotonic`, which all processes share), its seconds of CPU, and its name. Time in which the thread
waits for a core is no CPU time, so a busy machine changes the figures little. The time of a garbage collection is part
of the callback that it interrupts. The callbacks of transports are left out, because uvloop calls them from C.
"""

import asyncio
import os
import time
from collections.abc import Callable
from contextvars import Context
from pathlib import Path
from typing import Any, TextIO

import uvloop
from tsoperator.__main__ import main

LEAST = 0.005
"""A callback that takes at least this number of CPU seconds is logged."""


class WatchedLoop(uvloop.Loop):
    """The operator's event loop, which writes a line to *file* for each callback that blocks it."""

    file: TextIO

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """Call *callback* soon, and measure the time that it takes."""
        return super().call_soon(self._timed, callback, *args, context=context)

    def _timed(self, callback: Callable[..., object], *args: Any) -> None:
        start = time.thread_time()
        callback(*args)
        held = time.thread_time() - start
        if held >= LEAST:
            print(f"{time.monotonic():.3f} {held:.4f} {_what(callback)}", file=self.file, flush=True)


def _what(callback: Callable[..., object]) -> str:
    """Return the name of the task that *callback* resumes; if it resumes none, the name of the callback."""
    owner = getattr(callback, "__self__", None)
    return owner.get_name() if isinstance(owner, asyncio.Task) else repr(callback)


if __name__ == "__main__":
    with Path(os.environ["LOOP_HOLDS"]).open("w") as holds:
        WatchedLoop.file = holds
        uvloop.new_event_loop = WatchedLoop
        main()
