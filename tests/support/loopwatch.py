"""Run the operator as ``python -m tsoperator`` does, and note which callbacks hold its event loop.

Each callback that takes `LEAST` seconds of CPU or more is a line of the file that ``LOOP_HOLDS`` names: when it ended
(by `time.monotonic`, which all processes share), its seconds of CPU, and what it was. CPU does not count how long the
thread waited for a core, so a busy machine changes little. A garbage collection counts with the callback that it
interrupts.
"""

import asyncio
import os
import time
from pathlib import Path
from typing import TextIO

from tsoperator.__main__ import main

LEAST = 0.005
"""Seconds of CPU from which a callback is noted."""


def watch(file: TextIO) -> None:
    """Write to *file* what holds the event loop from now on."""
    run = asyncio.Handle._run

    def timed(handle: asyncio.Handle) -> None:
        start = time.thread_time()
        run(handle)
        held = time.thread_time() - start
        if held >= LEAST:
            print(f"{time.monotonic():.3f} {held:.4f} {_what(handle)}", file=file, flush=True)

    asyncio.Handle._run = timed  # type: ignore[method-assign, assignment]


def _what(handle: asyncio.Handle) -> str:
    """Return the name of the task that *handle* lets go on, or the callback itself."""
    owner = getattr(handle._callback, "__self__", None)  # type: ignore[attr-defined]
    return owner.get_name() if isinstance(owner, asyncio.Task) else repr(handle)


if __name__ == "__main__":
    with Path(os.environ["LOOP_HOLDS"]).open("w") as holds:
        watch(holds)
        main()
