"""Runs the operator as ``python -m tsoperator`` does, and logs which callbacks block its event loop.

The file that ``LOOP_HOLDS`` names gets a line for each callback that takes `LEAST` seconds of CPU or more: the time of
its end (by `time.monotonic`, which all processes share), its seconds of CPU, and its name. Time in which the thread
waits for a core is no CPU time, so a busy machine changes the figures little. The time of a garbage collection is part
of the callback that it interrupts.
"""

import asyncio
import os
import time
from pathlib import Path
from typing import TextIO

from tsoperator.__main__ import main

LEAST = 0.005
"""The seconds of CPU from which on a callback is logged."""


def watch(file: TextIO) -> None:
    """Write a line to *file* for each callback that blocks the event loop from now on."""
    run = asyncio.Handle._run

    def timed(handle: asyncio.Handle) -> None:
        start = time.thread_time()
        run(handle)
        held = time.thread_time() - start
        if held >= LEAST:
            print(f"{time.monotonic():.3f} {held:.4f} {_what(handle)}", file=file, flush=True)

    asyncio.Handle._run = timed  # type: ignore[method-assign, assignment]


def _what(handle: asyncio.Handle) -> str:
    """Return the name of the task that *handle* resumes, or else the name of its callback."""
    owner = getattr(handle._callback, "__self__", None)  # type: ignore[attr-defined]
    return owner.get_name() if isinstance(owner, asyncio.Task) else repr(handle)


if __name__ == "__main__":
    with Path(os.environ["LOOP_HOLDS"]).open("w") as holds:
        watch(holds)
        main()
