"""The clocks: the wall clock, and the clock of the event loop."""

import asyncio
from datetime import UTC, datetime


def utc_now() -> datetime:
    """Return the time of the wall clock, in UTC."""
    return datetime.now(UTC)


def loop_time() -> float:
    """Return the time of the running event loop's clock, which is monotonic, in seconds."""
    return asyncio.get_running_loop().time()
