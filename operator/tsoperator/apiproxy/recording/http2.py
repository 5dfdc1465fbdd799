"""A recording by HTTP/2 without TLS (`/v2/record`). The recorder acknowledges the bytes that it has got."""

import asyncio
import json
import math
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    RemoteSettingsChanged,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from h2.exceptions import H2Error
from h2.settings import SettingCodes

from tsoperator.apiproxy.errors import RecordingFailed
from tsoperator.apiproxy.recording.dialling import one_line
from tsoperator.apiproxy.recording.frames import Cutter, Frame
from tsoperator.apiproxy.stream import SocketStream

PATH: Final = "/v2/record"
FRAME: Final = 16 << 10
"""The size, in bytes, of the largest frame that every recorder accepts. We fill frames, since each one costs CPU."""
_READ: Final = 8 << 10
"""The most bytes from a recorder that h2 parses at once. It is small, because h2 makes an object of each frame, and
so many bytes can hold a thousand frames."""
_PAUSE: Final = 0.005
"""The seconds between two reads from a recorder. It sends a frame for every 16 KiB, and after a pause one read gets
several frames, which saves CPU."""
_MOST_ACK: Final = 4096
"""The most bytes of an object in an answer."""
_FRAME_HEADER: Final = 9
_DATA: Final = 0
_SETTINGS: Final = 4
_MOST_OTHER: Final = 2 << 10
"""The most bytes of a frame that isn't a DATA frame. h2 keeps up to 64 such frames in memory until a head ends."""
_MOST_SETTINGS: Final = 600
"""The most bytes of all settings that a recorder sends. A setting has six bytes, but h2 takes 800 to remember it."""
_LAST_PATIENCE: Final = 10
"""The time limit for the end of the answer, as a multiple of that for an acknowledgement. It begins when the recording
has ended."""


class Acknowledgements:
    """Parses the body of a recorder's answer: JSON objects with `ack`. The last one can have `error` instead."""

    def __init__(self) -> None:
        self._rest = b""
        self._decoder = json.JSONDecoder()

    def feed(self, data: bytes) -> int:
        """Parse *data*, and return how many acknowledgements it completes. Raises RecordingFailed."""
        text = (self._rest + data).decode("utf-8", "surrogateescape").lstrip()
        count = at = 0
        while at < len(text):
            try:
                value, end = self._decoder.raw_decode(text, at)
            except RecursionError as error:
                raise RecordingFailed("its answer is malformed") from error
            except ValueError:
                break  # the next data brings the rest of the object
            _look_at(value)
            count += 1
            at = end
            while text[at : at + 1].isspace():
                at += 1
        self._rest = text[at:].encode("utf-8", "surrogateescape")
        if len(self._rest) > _MOST_ACK or (self._rest and self._rest[:1] != b"{"):
            raise RecordingFailed("its answer is malformed")
        return count


def _look_at(value: object) -> None:
    """Raise RecordingFailed if *value*, a part of an answer, reports an error or isn't a JSON object."""
    if not isinstance(value, dict):
        raise RecordingFailed("its answer is malformed")
    if value.get("error"):
        raise RecordingFailed(f"it says: {one_line(str(value['error']))}")


class FrameLimits:
    """Refuses frames of a recorder that would cost h2 much memory."""

    def __init__(self) -> None:
        self._cutter = Cutter(self._begin, lambda _piece, _left: None)
        self._settings = 0
        """The number of bytes of all settings so far."""

    def check(self, data: bytes) -> None:
        """Check the next bytes of a recorder. Raises RecordingFailed if a frame in them is too long."""
        self._cutter.feed(data)

    def _begin(self, buffer: bytes, at: int) -> Frame | None:
        if len(buffer) < at + _FRAME_HEADER:
            return None
        length, kind = int.from_bytes(buffer[at : at + 3]), buffer[at + 3]
        self._settings += length if kind == _SETTINGS else 0
        if (length > _MOST_OTHER and kind != _DATA) or self._settings > _MOST_SETTINGS:
            raise RecordingFailed("its answer is too long")
        return Frame(_FRAME_HEADER, length)


class Http2Recorder:
    """A connection to a recorder by HTTP/2. One task can receive while another one sends."""

    def __init__(self, stream: SocketStream, first: bytes, address: str, patience: float) -> None:
        self._stream = stream
        self._first = first
        self._address = address
        self._patience = patience
        self._http = H2Connection(H2Configuration(client_side=True, header_encoding=None))
        self._limits = FrameLimits()
        self._writing = asyncio.Lock()
        self._has_room = asyncio.Event()
        """The event that is set when the recorder has possibly made room for more bytes."""
        self._id = 0
        """The number of the current request's stream."""
        self._early: list[Event] = []
        """The events that came with the head of the answer, until they are processed."""
        self._has_ended = False
        self._until = math.inf
        """The time at which the answer must have ended, by the loop's clock."""

    async def is_supported(self) -> bool:
        """Tell whether the recorder knows recordings by HTTP/2."""
        self._http.local_settings[SettingCodes.ENABLE_PUSH] = 0
        self._http.initiate_connection()
        try:
            return await self._ask("HEAD") == 200
        except (OSError, RecordingFailed):
            return False

    async def begin(self) -> None:
        """Begin a recording. Raises OSError and RecordingFailed."""
        self._early.clear()
        if (status := await self._ask("POST")) != 200:
            raise RecordingFailed(f"it answers with status {status}")

    async def send(self, data: bytes) -> None:
        """Send *data*, as fast as the recorder takes it. Raises OSError and RecordingFailed."""
        loop = asyncio.get_running_loop()
        async with self._limited("it has taken nothing") as limit:
            while data:
                self._has_room.clear()
                if taken := self._frame(data):
                    data = data[taken:]  # h2 has a copy of these bytes, so we forget ours before we wait
                    limit.reschedule(loop.time() + self._patience)
                await self._flush()
                if data:
                    await self._has_room.wait()

    async def end(self) -> None:
        """Say that the recording is complete. Raises OSError and RecordingFailed."""
        self._has_ended = True
        self._until = asyncio.get_running_loop().time() + _LAST_PATIENCE * self._patience
        try:
            self._http.end_stream(self._id)
        except H2Error as error:
            raise RecordingFailed("it has ended the recording") from error
        async with self._limited("it has taken nothing"):
            await self._flush()

    async def watch(self) -> None:
        """Read acknowledgements until the recorder has the whole recording. Raises OSError and RecordingFailed."""
        acknowledgements = Acknowledgements()
        loop = asyncio.get_running_loop()
        async with self._limited("it has acknowledged nothing") as limit:
            while not await self._take(acknowledgements):
                if loop.time() > self._until:
                    raise RecordingFailed("its answer doesn't end")
                limit.reschedule(loop.time() + self._patience)

    @asynccontextmanager
    async def _limited(self, problem: str) -> AsyncIterator[asyncio.Timeout]:
        """Limit the time of a block of code to *patience* seconds. The block can put off the limit.

        When the time is over, raises RecordingFailed with the *problem*.
        """
        try:
            async with asyncio.timeout(self._patience) as limit:
                yield limit
        except TimeoutError:
            raise RecordingFailed(f"{problem} for {self._patience:g} s") from None

    def close(self) -> None:
        """Close the connection."""
        self._stream.close()

    def _frame(self, data: bytes) -> int:
        """Make frames of as much of *data* as flow control allows now, and return the number of these bytes."""
        at = 0
        try:
            room = min(self._http.local_flow_control_window(self._id), len(data))
            while at < room:
                size = min(room - at, self._http.max_outbound_frame_size)
                self._http.send_data(self._id, data[at : at + size])
                at += size
        except H2Error as error:
            raise RecordingFailed("it has ended the recording") from error
        return at

    async def _take(self, acknowledgements: Acknowledgements) -> bool:
        """Wait for an acknowledgement or the end of the answer, and tell whether the answer has ended."""
        count = 0
        while not count:
            await asyncio.sleep(_PAUSE)
            events, self._early = self._early or await self._receive(), []
            for event in events:
                if isinstance(event, DataReceived) and event.stream_id == self._id:
                    count += acknowledgements.feed(event.data or b"")
                elif isinstance(event, StreamEnded) and event.stream_id == self._id:
                    if self._has_ended:
                        return True
                    raise RecordingFailed("it has ended the recording")
                self._check(event)
        return False

    async def _ask(self, method: str) -> int:
        """Send the head of a request, and return the status of the answer. Raises OSError and RecordingFailed."""
        pseudo = [(":method", method), (":scheme", "http"), (":authority", self._address), (":path", PATH)]
        try:
            self._id = self._http.get_next_available_stream_id()
            self._http.send_headers(self._id, pseudo, end_stream=method == "HEAD")
        except H2Error as error:
            raise RecordingFailed("it has ended the connection") from error
        await self._flush()
        while True:
            events = await self._receive()
            for at, event in enumerate(events):
                if isinstance(event, ResponseReceived) and event.stream_id == self._id:
                    self._early = [*events[at + 1 :]]
                    return _status(event)
                self._check(event)

    async def _receive(self) -> Sequence[Event]:
        """Read bytes of the recorder, and return the events that h2 finds in them. Raises OSError, RecordingFailed."""
        data = self._first or await self._stream.read(_READ)
        data, self._first = data[:_READ], data[_READ:]
        if not data:
            raise RecordingFailed("it has closed the connection")
        self._limits.check(data)
        try:
            events = self._http.receive_data(data)
            for event in events:
                if isinstance(event, DataReceived) and event.flow_controlled_length:
                    self._http.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        except (H2Error, ValueError, KeyError, IndexError) as error:
            raise RecordingFailed("it doesn't speak HTTP/2") from error
        await self._flush()
        for event in events:
            if isinstance(event, WindowUpdated | RemoteSettingsChanged):
                self._has_room.set()
        return events

    def _check(self, event: Event) -> None:
        """Raise RecordingFailed if the recorder ends the recording with *event*."""
        if isinstance(event, StreamReset) and event.stream_id == self._id:
            raise RecordingFailed(f"it has broken off the recording (error {_name(event.error_code)})")
        if isinstance(event, ConnectionTerminated):
            raise RecordingFailed(f"it has ended the connection (error {_name(event.error_code)})")

    async def _flush(self) -> None:
        async with self._writing:
            if data := self._http.data_to_send():
                await self._stream.write(data)


def _status(event: ResponseReceived) -> int:
    """Return the status of the answer whose head is *event*. Raises RecordingFailed."""
    for name, value in event.headers or ():
        if bytes(name) == b":status" and bytes(value).isdigit():
            return int(value)
    raise RecordingFailed("its answer has no status")


def _name(code: ErrorCodes | int | None) -> str:
    return code.name if isinstance(code, ErrorCodes) else str(code)
