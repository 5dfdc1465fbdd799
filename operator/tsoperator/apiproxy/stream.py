"""A stream of bytes over a socket. It reads no bytes ahead.

A transport of asyncio can lose bytes: if the peer has closed the connection, a write fails, and after that, the
transport drops the bytes that it hasn't read yet. From this stream, all bytes that the peer sent before it closed the
connection can still be read. Bytes are read only on request, so a slow reader slows down the peer.
"""

import asyncio
import contextlib
import socket
from collections.abc import Callable
from typing import Any, Final

READ_SIZE: Final = 64 << 10


class SocketStream:
    """The stream of bytes from a connected socket and to it. One task can read while another one writes."""

    __slots__ = ("_loop", "_socket")

    def __init__(self, connected: socket.socket) -> None:
        connected.setblocking(False)
        self._loop = asyncio.get_running_loop()
        self._socket = connected

    async def read(self, limit: int = READ_SIZE) -> bytes:
        """Return some bytes; empty at the end of the stream. Raises OSError. A cancelled read loses no bytes."""
        await asyncio.sleep(0)  # a peer that always has bytes mustn't keep other tasks waiting
        while (data := self.read_now(limit)) is None:
            await self._wait(self._loop.add_reader, self._loop.remove_reader)
        return data

    def read_now(self, limit: int = READ_SIZE) -> bytes | None:
        """Return the bytes that have come; b"" at the end of the stream, None if no bytes wait. Raises OSError."""
        try:
            return self._socket.recv(limit)
        except BlockingIOError:
            return None

    async def write(self, data: bytes | memoryview) -> None:
        """Send *data*, as fast as the peer takes it. Raises OSError."""
        unsent = memoryview(data)
        while unsent:
            try:
                unsent = unsent[self._socket.send(unsent) :]
            except BlockingIOError:
                await self._wait(self._loop.add_writer, self._loop.remove_writer)

    def end(self) -> None:
        """Tell the peer that no more bytes come. The peer can still send."""
        with contextlib.suppress(OSError):  # the peer has closed the connection already
            self._socket.shutdown(socket.SHUT_WR)

    def close(self, last: bytes = b"") -> None:
        """Close the connection. The kernel still sends all written bytes, and *last* if its buffer has room for it."""
        with contextlib.suppress(OSError):
            if last:
                self._socket.send(last)
        self._socket.close()

    async def _wait(self, watch: Callable[..., Any], forget: Callable[[int], Any]) -> None:
        ready = self._loop.create_future()
        descriptor = self._socket.fileno()
        watch(descriptor, _set, ready)
        try:
            await ready
        finally:
            forget(descriptor)


def _set(ready: "asyncio.Future[None]") -> None:
    if not ready.done():
        ready.set_result(None)
