"""Parts of the server that start again after a failure that nobody has foreseen."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from tsnameserver.configmaps import Backoff

log = logging.getLogger(__name__)

_BACKOFF = Backoff(first=0.25, most=30.0)


class Restarts:
    """Runs parts of the server, each apart from the others, and counts how often each has failed."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        """Failures by part."""

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
