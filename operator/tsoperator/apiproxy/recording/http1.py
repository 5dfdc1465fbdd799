"""Requests to recorders by HTTP/1.1: events, and recordings (`/record`) for recorders of the first version.

A recorder of the first version acknowledges nothing until the end of a recording.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final

import h11

from tsoperator.apiproxy.errors import RecordingFailed
from tsoperator.apiproxy.stream import SocketStream

PATH: Final = "/record"
_READ: Final = 16 << 10
_MOST_BODY: Final = 1000
"""The most bytes of an answer's body that we keep, to quote them in an error message."""


class Http1Connection:
    """A connection to a recorder. One task can receive while another one sends."""

    def __init__(self, stream: SocketStream, first: bytes) -> None:
        self._stream = stream
        self._first = first
        self._http = h11.Connection(h11.CLIENT)

    async def send(self, event: h11.Request | h11.Data | h11.EndOfMessage) -> None:
        """Send a part of a request. Raises RecordingFailed."""
        try:
            data = self._http.send(event)
        except h11.ProtocolError as error:
            raise RecordingFailed("it has ended the request") from error
        # If the connection broke, the task that receives finds the answer that came before, or reports that none came.
        with contextlib.suppress(OSError):
            await self._stream.write(data or b"")

    async def receive(self) -> h11.InformationalResponse | h11.Response | h11.Data | h11.EndOfMessage:
        """Return the next part of the answer. Raises OSError and RecordingFailed."""
        try:
            while (event := self._http.next_event()) is h11.NEED_DATA:
                data, self._first = self._first or await self._stream.read(_READ), b""
                self._http.receive_data(data)
        except h11.ProtocolError as error:
            raise RecordingFailed("its answer is malformed, or it has closed the connection") from error
        match event:
            case h11.InformationalResponse() | h11.Response() | h11.Data() | h11.EndOfMessage():
                return event
        raise RecordingFailed("it has closed the connection")

    async def answer(self) -> tuple[int, bytes]:
        """Return the status of the answer, and the beginning of its body. Raises OSError and RecordingFailed."""
        status, body = 0, b""
        while not isinstance(event := await self.receive(), h11.EndOfMessage):
            if isinstance(event, h11.Data):
                body = (body + event.data)[:_MOST_BODY]
            else:
                status = event.status_code
        return status, body

    def begin_next(self) -> bool:
        """Prepare for the next request, and tell whether the connection can carry one."""
        try:
            self._http.start_next_cycle()
        except h11.ProtocolError:
            return False
        return True

    def close(self) -> None:
        """Close the connection."""
        self._stream.close()


class Http1Recorder:
    """A recording by HTTP/1.1. One task can call `watch` while another one calls `send`."""

    def __init__(self, connection: Http1Connection, address: str, patience: float) -> None:
        self._connection = connection
        self._address = address
        self._patience = patience
        self._has_ended = False
        self._is_answered = asyncio.Event()

    async def begin(self) -> None:
        """Begin a recording. Raises OSError and RecordingFailed."""
        headers = [("Host", self._address), ("Expect", "100-continue"), ("Transfer-Encoding", "chunked")]
        await self._connection.send(h11.Request(method="POST", target=PATH, headers=headers))
        event = await self._connection.receive()
        if not isinstance(event, h11.InformationalResponse) or event.status_code != 100:
            raise RecordingFailed(_refusal(event))

    async def send(self, data: bytes) -> None:
        """Send *data*, as fast as the recorder takes it. Raises RecordingFailed."""
        async with self._limit():
            await self._connection.send(h11.Data(data=data))

    async def end(self) -> None:
        """Say that the recording is complete, and wait for the answer. Raises RecordingFailed."""
        self._has_ended = True
        async with self._limit():
            await self._connection.send(h11.EndOfMessage())
            await self._is_answered.wait()

    async def watch(self) -> None:
        """Wait until the recorder has the whole recording. Raises OSError and RecordingFailed."""
        event = await self._connection.receive()
        if not isinstance(event, h11.Response) or event.status_code != 200 or not self._has_ended:
            raise RecordingFailed(_refusal(event))
        self._is_answered.set()

    @contextlib.asynccontextmanager
    async def _limit(self) -> AsyncIterator[None]:
        """Limit the time of a block of code to *patience* seconds. Raises RecordingFailed when the time is over."""
        try:
            async with asyncio.timeout(self._patience):
                yield
        except TimeoutError:
            raise RecordingFailed(f"it has been silent for {self._patience:g} s") from None

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def _refusal(event: object) -> str:
    if isinstance(event, h11.Response | h11.InformationalResponse):
        return f"it answers with status {event.status_code}"
    return "its answer has no status"
