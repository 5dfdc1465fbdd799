"""Restarts a part of the server after an unforeseen failure."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from tsnameserver.configmaps import Backoff

log = logging.getLogger(__name__)

_BACKOFF = Backoff(first=0.25, most=30.0)


class Restarts:
    """Runs the parts of the server independently, and counts the failures of each."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        """The number of failures of each part."""

    async def keep_running(self, part: str, work: Callable[[], Awaitable[None]]) -> None:
        """Run *work* until it returns; after an exception log its traceback, wait, and run *work* again."""
        loop = asyncio.get_running_loop()
        self.counts.setdefault(part, 0)
        in_a_row = 0
        while True:
            started = loop.time()
            try:
                return await work()
            except Exception:
                in_a_row = 1 if loop.time() - started > _BACKOFF.most else in_a_row + 1
                self.counts[part] += 1
                delay = _BACKOFF.delay(in_a_row)
                log.exception("%s failed unexpectedly and starts again in %.1f seconds", part, delay)
            await asyncio.sleep(delay)
