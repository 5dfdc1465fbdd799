"""The recording of one session: records the bytes of the session before we forward them."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Protocol

from tsoperator.apiproxy.counts import RecordingCounts
from tsoperator.apiproxy.errors import RecordingFailed
from tsoperator.apiproxy.head import SPDY
from tsoperator.apiproxy.recording.cast import DEFAULT_SIZE, NO_TERMINAL, Cast
from tsoperator.apiproxy.recording.frames import PIECE, Cutter, Notice, Parsed, Size
from tsoperator.apiproxy.recording.recorder import RecorderSearch, Upload
from tsoperator.apiproxy.recording.spdy import SpdyClient, SpdyServer, SpdyStreams
from tsoperator.apiproxy.recording.websocket import WebSocketFrames

Send = Callable[[bytes], Awaitable[None]]


class _Parser(Protocol):
    """A parser of the bytes of one direction of a session."""

    cutter: Cutter

    def feed(self, data: bytes) -> Parsed: ...


class _ServerParser(_Parser, Protocol):
    def notice(self) -> Notice: ...


@dataclass(frozen=True, slots=True)
class SessionParsers:
    """The parsers of both directions of a session."""

    client: _Parser
    server: _ServerParser
    has_terminal: bool


def session_parsers(protocol: str, has_terminal: bool) -> SessionParsers:
    """Return the parsers for a session by *protocol*, the value of the header Upgrade.

    *has_terminal* says whether the session has a terminal, whose sizes are in the client's bytes.
    """
    if protocol == SPDY:
        streams = SpdyStreams()
        return SessionParsers(SpdyClient(streams, has_terminal), SpdyServer(streams), has_terminal)
    return SessionParsers(
        WebSocketFrames(is_client=True, has_terminal=has_terminal),
        WebSocketFrames(is_client=False, has_terminal=has_terminal),
        has_terminal,
    )


class SessionRecording:
    """The recording of one session. If the recording fails, the session ends if *is_enforced*, and else goes on.

    We call *note* with the reason why the recording fails.
    """

    def __init__(
        self,
        search: RecorderSearch,
        cast: Cast,
        parsers: SessionParsers,
        counts: RecordingCounts,
        *,
        is_enforced: bool,
        note: Callable[[str], None],
    ) -> None:
        self._search = search
        self._cast = cast
        self._client = parsers.client
        self._server = parsers.server
        self._has_terminal = parsers.has_terminal
        self._counts = counts
        self._is_enforced = is_enforced
        self._note = note
        self._upload: Upload | None = None
        self._is_running = False
        self._start = 0.0
        self._has_header = asyncio.Event()
        self._is_sending = False
        """Whether bytes are on their way to the client."""
        self._notice = self._server.notice()
        self._failure: RecordingFailed | None = None

    async def reach(self) -> None:
        """Find a recorder. Raises RecordingFailed if there is none and the recording is enforced."""
        try:
            await self._search.reach()
        except RecordingFailed as error:
            self._fail(error)
        except BaseException:
            self.close()
            raise

    async def begin(self) -> Upload | None:
        """Begin the recording, and return its upload; None if the recording has failed.

        Raises RecordingFailed instead if the recording fails now and is enforced.
        """
        if self._failure:
            return None
        try:
            self._upload = await self._search.begin()
        except RecordingFailed as error:
            self._fail(error)
            return None
        self._start = asyncio.get_running_loop().time()
        self._is_running = True
        self._counts.running += 1
        if not self._has_terminal:
            await self._write_header(NO_TERMINAL)
        return self._upload

    async def watch(self) -> None:
        """Wait until the recording fails. After that, raise RecordingFailed if the recording is enforced."""
        if self._upload is not None:
            self._fail(await self._upload.failed())

    async def from_client(self, data: bytes, send: Send) -> None:
        """Forward *data* of the client. Empty *data* means that the client sends no more.

        Raises BadFrames, the errors of *send*, and RecordingFailed if the recording fails and is enforced.
        """
        if not data or self._failure:
            await send(self._client.cutter.release() + data)
            return
        for piece in _pieces(data):
            parsed = self._client.feed(piece)
            for size in parsed.sizes:
                await self._resize(size)
            await send(parsed.forwarded)

    async def from_server(self, data: bytes, send: Send) -> None:
        """Record and forward *data* of the API server. Arguments and errors are those of `from_client`."""
        if not data or self._failure:
            forwarded = self._server.cutter.release() + data
        else:
            whole = self._server.cutter.held + data
            for piece in _pieces(data):
                await self._record(piece)
            forwarded = whole[: len(whole) - len(self._server.cutter.held)]
        self._is_sending = True
        await send(forwarded)
        self._is_sending = False
        self._notice = self._server.notice()

    async def _record(self, piece: bytes) -> None:
        """Record a piece of the API server's bytes. After that, we can forward all bytes but those in `cutter.held`."""
        if outputs := self._server.feed(piece).outputs:
            if not self._has_header.is_set():
                await self._wait_for_size()
            await self._write(self._lines(outputs))

    def notice(self, text: str) -> bytes:
        """Return bytes that show *text* to the user; empty if that is impossible."""
        return b"" if self._is_sending else self._notice(f"\r\n{text}\r\n".encode())

    async def finish(self) -> None:
        """Complete the recording, and wait until the recorder has it."""
        try:
            if self._upload is not None and not self._failure:
                if not self._has_header.is_set():
                    await self._write_header(DEFAULT_SIZE)
                await self._write(self._cast.end(self._seconds()))
                await self._upload.finish()
                self._counts.sessions["uploaded"] += 1
        except RecordingFailed as error:
            self._note_failure(error)
        finally:
            self.close()

    def close(self) -> None:
        """End the recording, even if it is incomplete."""
        self._search.close()
        if self._is_running:
            self._is_running = False
            self._counts.running -= 1

    def _lines(self, outputs: Sequence[tuple[int, bytes]]) -> bytes:
        """Return the lines of the recording for *outputs*. Successive outputs of one stream become one line."""
        seconds = self._seconds()
        if len(outputs) == 1:
            return self._cast.output(seconds, *outputs[0])
        return b"".join(
            self._cast.output(seconds, stream, b"".join([data for _, data in group]))
            for stream, group in groupby(outputs, itemgetter(0))
        )

    async def _wait_for_size(self) -> None:
        """Wait until the client's size comes and the header is written. After a time, write a usual size instead."""
        try:
            async with asyncio.timeout_at(self._start + self._search.limits.size):
                await self._has_header.wait()
        except TimeoutError:
            if not self._has_header.is_set():
                await self._write_header(DEFAULT_SIZE)

    async def _resize(self, size: Size) -> None:
        if self._has_header.is_set():
            await self._write(self._cast.resize(self._seconds(), size))
        else:
            await self._write_header(size)

    async def _write_header(self, size: Size) -> None:
        self._has_header.set()
        await self._write(self._cast.header(size))

    async def _write(self, lines: bytes) -> None:
        if self._upload is None or self._failure or not lines:
            return
        try:
            await self._upload.write(lines)
        except RecordingFailed as error:
            self._fail(error)

    def _fail(self, error: RecordingFailed) -> None:
        """Store and report that the recording has failed. Raises RecordingFailed if the recording is enforced."""
        self._note_failure(error)
        if self._is_enforced:
            raise error

    def _note_failure(self, error: RecordingFailed) -> None:
        if self._failure is None:
            self._failure = error
            self._counts.sessions["failed"] += 1
            self._note(f"the recording of a session has failed: {error}")

    def _seconds(self) -> float:
        return round(asyncio.get_running_loop().time() - self._start, 6)


def _pieces(data: bytes) -> Sequence[bytes]:
    return [data[start : start + PIECE] for start in range(0, len(data), PIECE)] if len(data) > PIECE else [data]
