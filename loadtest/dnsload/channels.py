"""The channels of the asyncio engine: UDP sockets (asyncio-dgram), and TCP connections for one query or for many."""

import asyncio
import contextlib
import struct
from collections.abc import Callable
from typing import Any, Protocol

import asyncio_dgram

from dnsload.exchange import Exchange
from dnsload.session import Session, clock
from dnsload.targets import Target, receive_drops, udp_socket

_ID = struct.Struct("!H")
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0
"""The first and the longest pause between two attempts to connect, in seconds."""


class Channel(Protocol):
    """A socket, or TCP connections, on which the engine sends queries to one target."""

    exchange: Exchange
    ready: asyncio.Event
    """An event that is set while the channel can send queries."""

    async def serve(self) -> None:
        """Open the channel and receive answers, until cancelled."""

    async def send(self, message: bytes) -> None:
        """Send one query. A failure raises nothing, but is counted."""

    def new_drops(self) -> int:
        """Return how many answers the kernel has dropped since the last call."""


class Alone:
    """Opens a new TCP connection for each query."""

    def __init__(self, session: Session, target: Target, wake: Callable[[], None]) -> None:
        self.exchange = session.exchange(target)
        self.ready = asyncio.Event()
        self._session = session
        self._wake = wake
        self._asking: set[asyncio.Task[None]] = set()

    async def serve(self) -> None:
        """Let the engine send queries until cancelled, and then abandon the queries that have no answer yet."""
        self.ready.set()
        try:
            await asyncio.Event().wait()
        finally:
            await self.end_all()

    async def end_all(self) -> None:
        """Abandon the queries that wait for an answer."""
        for asking in self._asking:
            asking.cancel()
        await asyncio.gather(*self._asking, return_exceptions=True)

    async def send(self, message: bytes) -> None:
        """Begin to send one query on a new connection."""
        self.ask(message, again=False)

    def ask(self, message: bytes, *, again: bool) -> None:
        """Begin to send a query on a new connection. *again* is True if the query was sent by UDP before."""
        asking = asyncio.create_task(self._ask(message, again))
        self._asking.add(asking)
        asking.add_done_callback(self._asking.discard)

    async def _ask(self, message: bytes, again: bool) -> None:
        try:
            async with asyncio.timeout(self._session.timeout):
                answer = await _asked(self.exchange.target, self._session.local, message)
        except TimeoutError:  # the query is lost
            return
        except (OSError, asyncio.IncompleteReadError):
            self._session.recording.tally.connections_failed += 1
            return
        if len(answer) >= 2:
            tally = self._session.recording.tally
            self.exchange.close(tally, _ID.unpack_from(answer)[0], answer[2:], clock(), again=again)
            self._wake()

    def new_drops(self) -> int:
        """Return 0: TCP drops nothing."""
        return 0


async def _asked(target: Target, local: tuple[str, int] | None, message: bytes) -> bytes:
    """Send the query *message* on a new connection, and return the answer. Raises OSError and IncompleteReadError."""
    reader, writer = await asyncio.open_connection(*target, local_addr=local)
    try:
        writer.write(_ID.pack(len(message)) + message)
        (length,) = _ID.unpack(await reader.readexactly(2))
        return await reader.readexactly(length)
    finally:
        writer.close()


class Datagrams:
    """A connected UDP socket. With `Session.retry`, a query with a truncated answer is sent again by TCP."""

    def __init__(self, session: Session, target: Target, wake: Callable[[], None]) -> None:
        self._alone = Alone(session, target, wake)
        self.exchange = self._alone.exchange
        if session.retry:
            self.exchange.retry = lambda number, query: self._alone.ask(_ID.pack(number) + query, again=True)
        self.ready = asyncio.Event()
        self._recording = session.recording
        self._wake = wake
        self._socket = udp_socket(target, session.source)
        self._stream: Any = None
        self._drops = 0

    async def serve(self) -> None:
        """Receive answers, until cancelled."""
        self._stream = await asyncio_dgram.from_socket(self._socket)
        self.ready.set()
        try:
            while True:
                try:
                    answer, _ = await self._stream.recv()
                except OSError:  # the port is unreachable
                    self._recording.tally.refused += 1
                else:
                    self._take(answer)
        finally:
            self._stream.close()
            await self._alone.end_all()
            await asyncio.sleep(0)  # the event loop closes the socket in its next turn

    def _take(self, answer: bytes) -> None:
        if len(answer) >= 2:
            self.exchange.close(self._recording.tally, _ID.unpack_from(answer)[0], answer[2:], clock())
            self._wake()

    async def send(self, message: bytes) -> None:
        """Send one query."""
        try:
            await self._stream.send(message)
        except OSError:  # the socket has reported the error of an earlier query; now it can send this query
            self._recording.tally.refused += 1
            with contextlib.suppress(OSError):  # the query is lost
                await self._stream.send(message)

    def new_drops(self) -> int:
        """Return how many answers the kernel has dropped since the last call."""
        before, self._drops = self._drops, receive_drops(self._socket)
        return (self._drops - before) & 0xFFFFFFFF


class Connection:
    """A TCP connection for many queries. When it ends, a new connection replaces it."""

    def __init__(self, session: Session, target: Target, wake: Callable[[], None]) -> None:
        self.exchange = session.exchange(target)
        self.ready = asyncio.Event()
        self._target = target
        self._local = session.local
        self._recording = session.recording
        self._timeout = session.timeout
        self._wake = wake
        self._writer: asyncio.StreamWriter | None = None

    async def serve(self) -> None:
        """Connect and receive answers, again and again, until cancelled."""
        pause = _FIRST_PAUSE
        while True:
            try:
                async with asyncio.timeout(self._timeout):
                    reader, self._writer = await asyncio.open_connection(*self._target, local_addr=self._local)
            except OSError:  # the target refuses, is unreachable, or is too slow
                self._recording.tally.connections_failed += 1
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
                continue
            pause = _FIRST_PAUSE
            self.ready.set()
            try:
                await self._take_answers(reader)
            finally:
                self.ready.clear()
                await self._hang_up(self._writer)
            if self.exchange.outstanding:
                self._recording.tally.connections_failed += 1
                self.exchange.abandon(self._recording.tally)
                self._wake()
                await asyncio.sleep(pause)

    async def _take_answers(self, reader: asyncio.StreamReader) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):  # the server has closed the connection
            while True:
                (length,) = _ID.unpack(await reader.readexactly(2))
                answer = await reader.readexactly(length)
                if length >= 2:
                    self.exchange.close(self._recording.tally, _ID.unpack_from(answer)[0], answer[2:], clock())
                    self._wake()

    async def _hang_up(self, writer: asyncio.StreamWriter) -> None:
        writer.close()
        with contextlib.suppress(OSError):  # the connection broke
            async with asyncio.timeout(self._timeout):
                await writer.wait_closed()

    async def send(self, message: bytes) -> None:
        """Send one query. A failure raises nothing, because `serve` abandons all queries of a broken connection."""
        if self._writer is None:
            return
        with contextlib.suppress(OSError):  # `serve` gets the error too
            self._writer.write(_ID.pack(len(message)) + message)
            await self._writer.drain()

    def new_drops(self) -> int:
        """Return 0: TCP drops nothing."""
        return 0
