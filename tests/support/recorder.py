"""A recorder like tsrecorder: it takes recordings by HTTP/2 or HTTP/1.1, and events. A test chooses its faults."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import h11
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import DataReceived, RequestReceived, StreamEnded
from h2.settings import SettingCodes, Settings

_WINDOW = 1 << 20
"""The number of bytes that a client can send before the recorder has read them, as with Go's HTTP/2 server."""
_PREFACE = b"PRI * HTTP/2.0\r\n"


@dataclass
class Recorder:
    """A recorder that keeps all bytes that it gets. A test can set its faults at any time."""

    has_second_version: bool = True
    events_status: int = 200
    """The status of the answers to events; 404 if the recorder takes no events."""
    status: int = 200
    """The status of the answer to a recording."""
    acknowledges: bool = True
    hangs: bool = False
    """True if the recorder neither reads nor answers any more."""
    fails_after: int | None = None
    """The number of bytes of a recording after which the recorder reports an error."""
    ends_after: int | None = None
    """After this number of bytes, the recorder ends its answer, as if it had got the whole recording."""
    breaks_off_after: int | None = None
    """The number of bytes of a recording after which the recorder resets the stream."""
    babbles: bool = False
    """True if the recorder acknowledges again and again, even if no bytes come, and never ends its answer."""
    window: int = _WINDOW
    """The number of bytes that a client can send on a stream before the recorder has read them."""
    largest_frame: int = 1 << 20
    """The greatest number of bytes in one frame of HTTP/2 that the recorder takes, as with Go's server."""
    port: int = 0
    requests: list[str] = field(default_factory=list)
    """The method and the path of each request."""
    recordings: list[bytearray] = field(default_factory=list)
    complete: list[bytes] = field(default_factory=list)
    events: list[bytes] = field(default_factory=list)
    frames: list[int] = field(default_factory=list)
    """The length of each piece of a recording."""

    @asynccontextmanager
    async def listening(self) -> AsyncIterator["Recorder"]:
        """Listen while the context lasts, and end all connections at its end."""
        serving: set[asyncio.Task[None]] = set()

        def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.ensure_future(self._serve(reader, writer))
            serving.add(task)
            task.add_done_callback(serving.discard)

        async with await asyncio.start_server(serve, "127.0.0.1", self.port) as server:
            self.port = server.sockets[0].getsockname()[1]
            try:
                yield self
            finally:
                for task in [*serving]:
                    task.cancel()
                await asyncio.gather(*serving, return_exceptions=True)

    def lines(self, number: int = -1) -> list[Any]:
        """Return the lines of recording *number*, each parsed from JSON. The recording can be incomplete."""
        return [json.loads(line) for line in bytes(self.recordings[number]).splitlines()]

    def output(self, number: int = -1) -> str:
        """Return the output of the session in recording *number*."""
        return "".join(line[2] for line in self.lines(number)[1:] if line[1] == "o")

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with (
            contextlib.suppress(OSError, asyncio.IncompleteReadError, h11.RemoteProtocolError),
            contextlib.closing(writer),
        ):
            first = await reader.readexactly(len(_PREFACE))
            await self.wait_if_hanging()
            await (
                _Http2(self, reader, writer)
                if first == _PREFACE and self.has_second_version
                else _Http1(self, reader, writer)
            ).serve(first)

    async def wait_if_hanging(self) -> None:
        if self.hangs:
            await asyncio.get_running_loop().create_future()

    def begin(self, method: str, path: str) -> None:
        """Record the method and the path of a request."""
        self.requests.append(f"{method} {path}")
        if method == "POST" and path.endswith("record"):
            self.recordings.append(bytearray())

    def add(self, data: bytes) -> Iterator[object]:
        """Store *data*, a piece of a recording, and yield the JSON objects with which the recorder answers."""
        if not data:
            return  # the empty frame that ends a recording
        self.recordings[-1] += data
        self.frames.append(len(data))
        size = len(self.recordings[-1])
        if self.fails_after is not None and size >= self.fails_after:
            yield {"error": "the disk is {full}"}
        elif self.acknowledges:
            yield {"ack": size}


class _Http2:
    def __init__(self, recorder: Recorder, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._recorder = recorder
        self._reader = reader
        self._writer = writer
        self._http = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        self._recordings: set[int] = set()
        """The numbers of the HTTP/2 streams that are recordings."""

    async def serve(self, first: bytes) -> None:
        sizes = {
            SettingCodes.INITIAL_WINDOW_SIZE: self._recorder.window,
            SettingCodes.MAX_FRAME_SIZE: self._recorder.largest_frame,
        }
        self._http.local_settings = Settings(client=False, initial_values=sizes)
        self._http.max_inbound_frame_size = self._recorder.largest_frame
        self._http.initiate_connection()
        self._http.increment_flow_control_window(_WINDOW)
        babbling = asyncio.ensure_future(self._babble())
        try:
            while first:
                await self._recorder.wait_if_hanging()
                for event in self._http.receive_data(first):
                    self._take(event)
                self._writer.write(self._http.data_to_send())
                await self._writer.drain()
                first = await self._reader.read(1 << 16)
        finally:
            babbling.cancel()

    async def _babble(self) -> None:
        while self._recorder.babbles:
            for number in self._recordings:
                self._http.send_data(number, b'{"ack":1}\n')
            self._writer.write(self._http.data_to_send())
            await asyncio.sleep(0.05)

    def _take(self, event: object) -> None:
        recorder = self._recorder
        if isinstance(event, RequestReceived):
            headers = {str(name): str(value) for name, value in event.headers}
            recorder.begin(headers[":method"], headers[":path"])
            status = recorder.status if headers[":method"] == "POST" else 200
            is_last = headers[":method"] == "HEAD" or status != 200
            if not is_last:
                self._recordings.add(event.stream_id)
            self._http.send_headers(event.stream_id, [(":status", str(status))], end_stream=is_last)
            if status != 200:
                self._reset(event.stream_id)
        elif isinstance(event, DataReceived):
            self._http.acknowledge_received_data(event.flow_controlled_length or 0, event.stream_id)
            for each in recorder.add(event.data or b""):
                is_error = "error" in str(each)
                self._http.send_data(event.stream_id, json.dumps(each).encode() + b"\n", end_stream=is_error)
                if is_error:
                    self._reset(event.stream_id)
            size = len(recorder.recordings[-1])
            if recorder.breaks_off_after is not None and size >= recorder.breaks_off_after:
                self._http.reset_stream(event.stream_id)
            if recorder.ends_after is not None and len(recorder.recordings[-1]) >= recorder.ends_after:
                self._http.end_stream(event.stream_id)
        elif isinstance(event, StreamEnded) and event.stream_id in self._recordings:
            recorder.complete.append(bytes(recorder.recordings[-1]))
            if not recorder.babbles:
                self._http.end_stream(event.stream_id)

    def _reset(self, stream: int) -> None:
        """Refuse the rest of a request whose answer is complete, as Go's server does."""
        self._http.reset_stream(stream, ErrorCodes.NO_ERROR)


class _Http1:
    def __init__(self, recorder: Recorder, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._recorder = recorder
        self._reader = reader
        self._writer = writer
        self._http = h11.Connection(h11.SERVER)

    async def serve(self, first: bytes) -> None:
        recorder = self._recorder
        self._http.receive_data(first)
        while isinstance(request := await self._next(), h11.Request) and request.http_version == b"1.1":
            method, path = request.method.decode(), request.target.decode()
            recorder.begin(method, path)
            status, is_event = self._status(method, path)
            if status == 200 and self._http.they_are_waiting_for_100_continue:
                self._send(h11.InformationalResponse(status_code=100, headers=[]))
            elif self._http.they_are_waiting_for_100_continue:
                self._send(h11.Response(status_code=status, headers=[("Content-Length", "0")]))
                return
            body = b""
            while isinstance(event := await self._next(), h11.Data):
                body += bytes(event.data)
                if not is_event:
                    [*recorder.add(bytes(event.data))]
            if not isinstance(event, h11.EndOfMessage):
                return
            if method == "POST":
                (recorder.events if is_event else recorder.complete).append(body)
            text = b"" if method == "HEAD" or status == 200 else b"the disk is full\n"
            self._send(h11.Response(status_code=status, headers=[("Content-Length", str(len(text)))]))
            if text:
                self._send(h11.Data(data=text))
            self._send(h11.EndOfMessage())
            if self._http.our_state is not h11.DONE:
                return
            self._http.start_next_cycle()

    def _status(self, method: str, path: str) -> tuple[int, bool]:
        if path == "/v2/event":
            known = self._recorder.events_status != 404
            return (200 if known and method == "HEAD" else self._recorder.events_status), True
        if path == "/record":
            return self._recorder.status, False
        return 400, False

    async def _next(self) -> object:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            await self._recorder.wait_if_hanging()
            self._http.receive_data(await self._reader.read(1 << 16))
        return event

    def _send(self, event: Any) -> None:
        self._writer.write(self._http.send(event) or b"")
