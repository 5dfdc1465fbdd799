"""Connections to recorders in the tailnet, and the limits for them."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tsoperator.apiproxy.errors import RecordingFailed
from tsoperator.apiproxy.stream import SocketStream

Dial = Callable[[str], Awaitable[tuple[SocketStream, bytes]]]
"""A function that opens a connection to an `ip:port` in the tailnet. It also returns the bytes that have come already.

Raises OSError and RecordingFailed.
"""


@dataclass(frozen=True, slots=True)
class RecorderLimits:
    """The limits for a recording or an event: of time, in seconds, and of memory, in bytes."""

    dial: float = 5.0
    probe: float = 10.0
    """The time within which a recorder must answer whether it supports recordings by HTTP/2, or events."""
    search: float = 30.0
    """The time within which one of the recorders must have begun a recording or accepted an event."""
    patience: float = 30.0
    """The longest time until a recorder reads our bytes, and between two of its acknowledgements."""
    size: float = 2.0
    """The time for which output waits for the size of the terminal, which the client sends."""
    gather: float = 0.05
    """The time for which small pieces of output wait for more output."""
    waiting: int = 64 << 20
    """The most bytes in all bodies that wait until their events are sent."""
    waiting_of_one: int = 16 << 20
    """The most bytes in the waiting bodies from one device, so that this device can't use up `waiting`."""


async def dialled(dial: Dial, address: str, limits: RecorderLimits) -> tuple[SocketStream, bytes]:
    """Return a connection to *address*. Raises OSError and RecordingFailed."""
    try:
        async with asyncio.timeout(limits.dial):
            return await dial(address)
    except TimeoutError:
        raise RecordingFailed(f"no connection within {limits.dial:g} s") from None


def words(error: BaseException) -> str:
    """Describe an error of a connection."""
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno)
    return str(error) or type(error).__name__


def one_line(text: str) -> str:
    """Return the beginning of a *text* that somebody else wrote, as one line for the log."""
    return "".join(each if each.isprintable() else " " for each in text[:200]).strip()
