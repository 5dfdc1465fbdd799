"""One request and its answer, or the bytes of an upgraded connection.

While the proxy forwards the answer, a second task (the pump) reads from the client: first the rest of the request, and
after that the beginning of the next request. So the pump notices if a client closes its connection during a watch, and
the proxy ends the watch.
"""

import asyncio
from dataclasses import dataclass
from typing import Final

from tsoperator.apiproxy.client import MOST_AHEAD, Client
from tsoperator.apiproxy.counts import ProxyCounts
from tsoperator.apiproxy.errors import (
    ApiProxyError,
    ApiServerUnreachable,
    BadFrames,
    BadMessage,
    ClientGone,
    RecordingFailed,
)
from tsoperator.apiproxy.framing import UNTIL_CLOSE, AnswerBody, RequestBody
from tsoperator.apiproxy.head import AnswerHead, RequestHead, answer_length, answered, parse_answer
from tsoperator.apiproxy.recording.tap import SessionRecording
from tsoperator.apiproxy.tls import TlsStream

_PIECE: Final = 16 << 10
"""The most bytes of a body that are forwarded before other tasks get their turn. So many bytes can hold thousands of
chunks, which take a while to parse."""


@dataclass(frozen=True, slots=True)
class GoesOn:
    """Whether each of two connections can carry another request.

    *client* is about the connection of the client, and *server* about the connection to the API server.
    """

    client: bool
    server: bool


class Exchange:
    """Forwards one *request* of *client* to the API *server*, and the answer back to the client.

    After one side has said that it sends no more, the exchange ends as soon as the other side has been silent for
    *patience* seconds. *recording* is that of the session which the request opens; None if we record no session.
    """

    def __init__(
        self,
        client: Client,
        server: TlsStream,
        request: RequestHead,
        patience: float,
        counts: ProxyCounts,
        recording: SessionRecording | None = None,
    ) -> None:
        self._client = client
        self._server = server
        self._request = request
        self._patience = patience
        self._counts = counts
        self._recording = recording
        self._body = RequestBody(request.body)
        self._is_sent = False
        """Whether the API server has got the whole request."""
        self._is_half_closed = False
        self._limit = asyncio.timeout(None)
        self._fault: ApiProxyError = ClientGone()
        """The error with which the exchange ends when *patience* runs out, or when a task stops the exchange."""
        self._from_server = bytearray()
        """The bytes from the API server that wait until the head of its answer is complete."""
        self._watching: asyncio.Task[None] | None = None
        """The task that waits until the recording fails."""
        self.has_begun = False
        """Whether the client has got the beginning of the answer."""

    async def run(self, head: bytes) -> GoesOn:
        """Send the *head* of the request and its body, and forward the answer.

        Raises ApiServerUnreachable and BadMessage. Raises ClientGone if the client has gone, or if one side has ended
        and the other side has been silent for *patience* seconds. Raises RecordingFailed if a session must be recorded
        but can't be, and BadFrames if the frames of a recorded session are malformed.
        """
        await self._to_server(head)
        failure: ApiProxyError | None = None
        async with asyncio.TaskGroup() as group:
            pump = group.create_task(self._pump())
            try:
                async with self._limit:
                    result = await self._forward_answer(pump, group)
            except TimeoutError:
                failure = self._fault
            except ApiProxyError as error:
                failure = error
            finally:
                pump.cancel()
            if self._recording is not None and self._watching is not None:
                await self._recording.finish()
                self._watching.cancel()
        if failure:
            raise failure
        return result

    async def _pump(self) -> None:
        """Forward the body of the request. Then read ahead, up to a limit, until the client sends no more."""
        try:
            await self._forward_body()
            while not self._client.has_ended and len(self._client.received) < MOST_AHEAD:
                await self._client.receive()
        except (BadMessage, ClientGone) as error:
            self._stop(error)
        if self._client.has_ended:
            self._note_end()

    async def _forward_body(self) -> None:
        """Forward the body of the request to the API server. Raises ClientGone and BadMessage."""
        while not self._body.is_complete:
            if not self._client.received and not await self._client.receive():
                raise ClientGone
            data, used = self._body.feed(bytes(self._client.received[:_PIECE]))
            del self._client.received[:used]
            try:
                await self._to_server(data)
            except ApiServerUnreachable:
                return  # perhaps the API server answered before it closed the connection: _forward_answer finds out
            if not self._body.is_complete:
                await asyncio.sleep(0)
        self._is_sent = True

    async def _forward_answer(self, pump: "asyncio.Task[None]", group: asyncio.TaskGroup) -> GoesOn:
        """Forward all interim answers, and after them the answer, or the bytes of an upgraded connection.

        *pump* reads from the client until the connection is upgraded. The tasks for an upgraded connection are added
        to *group*. Raises the errors that `run` raises.
        """
        while (answer := await self._answer_head()).is_interim:
            await self._client.send(answered(answer, closes=False))
            await asyncio.sleep(0)  # many interim answers at once mustn't keep other tasks waiting
        if answer.is_upgrade:
            pump.cancel()
            await asyncio.wait([pump])
            await self._begin_recording(group)
            await self._forward_upgraded(answer, group)
            return GoesOn(client=False, server=False)
        closes = self._request.closes or answer.body == UNTIL_CLOSE or not self._is_sent
        is_exact = await self._forward_answer_body(answer, closes=closes)
        return GoesOn(client=not closes, server=is_exact and not answer.closes)

    async def _answer_head(self) -> AnswerHead:
        seen = 0
        while not (length := answer_length(self._from_server, seen)):
            seen = len(self._from_server)
            if not (data := await self._receive()):
                raise ApiServerUnreachable("it closed the connection without an answer")
            self._from_server += data
        raw = bytes(self._from_server[:length])
        del self._from_server[:length]
        return parse_answer(raw, self._request.method, self._request.upgrade)

    async def _forward_answer_body(self, answer: AnswerHead, *, closes: bool) -> bool:
        """Forward the head and the body of the answer, and tell whether the API server sent nothing after the body.

        With *closes*, the head tells the client that the connection ends with this answer.
        """
        body = AnswerBody(answer.body)
        data, self._from_server = bytes(self._from_server), bytearray()
        used = body.feed(data[:_PIECE])
        self.has_begun = True
        await self._client.send(answered(answer, closes=closes) + data[:used])
        while not body.is_complete:
            await asyncio.sleep(0)
            if used < len(data):
                data = data[used:]
            elif not (data := await self._receive()):
                if answer.body == UNTIL_CLOSE:
                    break
                raise ApiServerUnreachable("it closed the connection within an answer")
            used = body.feed(data[:_PIECE])
            await self._client.send(data[:used])
        return used == len(data)

    async def _forward_upgraded(self, answer: AnswerHead, group: asyncio.TaskGroup) -> None:
        """Forward all bytes in both directions until both sides send no more."""
        self.has_begun = True
        data, self._from_server = bytes(self._from_server), bytearray()
        to_server = group.create_task(self._forward_client())
        try:
            await self._client.send(answered(answer, closes=False))
            if data:
                await self._to_client(data)
            while data := await self._receive():
                await self._to_client(data)
            await self._to_client(b"")
            self._client.end()
            self._note_end()
            await to_server
        finally:
            to_server.cancel()

    async def _forward_client(self) -> None:
        """Forward all bytes of the client to the API server until the client sends no more."""
        try:
            while self._client.received or await self._client.receive():
                data, self._client.received = bytes(self._client.received), bytearray()
                await self._upgraded_to_server(data)
                self._note_bytes()
            await self._upgraded_to_server(b"")
            self._note_end()
            await self._server.end()
        except (BadFrames, ClientGone, RecordingFailed) as error:
            self._stop(error)
        except ApiServerUnreachable:
            return  # the API server is gone; bytes that it sent before are still forwarded

    async def _begin_recording(self, group: asyncio.TaskGroup) -> None:
        """Begin the recording, if the session has one, with its tasks in *group*. Raises RecordingFailed."""
        if self._recording is not None and (upload := await self._recording.begin()):
            group.create_task(upload.run())
            self._watching = group.create_task(self._watch_recording(self._recording))

    async def _watch_recording(self, recording: SessionRecording) -> None:
        try:
            await recording.watch()
        except RecordingFailed as error:
            self._stop(error)

    async def _to_client(self, data: bytes) -> None:
        """Forward *data* of an upgraded connection to the client, and record it if the session is recorded.

        Empty *data* means that the API server sends no more. Raises the errors that `run` raises.
        """
        if self._recording is not None:
            await self._recording.from_server(data, self._client.send)
        else:
            await self._client.send(data)

    async def _upgraded_to_server(self, data: bytes) -> None:
        """Forward *data* of an upgraded connection to the API server.

        If the session is recorded, also record the sizes of the terminal that are in *data*. Empty *data* means that
        the client sends no more. Raises the errors that `run` raises.
        """
        if self._recording is not None:
            await self._recording.from_client(data, self._to_server)
        else:
            await self._to_server(data)

    async def _receive(self) -> bytes:
        """Return some bytes of the API server; empty if it sends no more. Raises ApiServerUnreachable."""
        try:
            data = await self._server.read()
        except OSError as error:
            raise ApiServerUnreachable("the connection broke") from error
        self._note_bytes()
        return data

    async def _to_server(self, data: bytes) -> None:
        try:
            await self._server.write(data)
        except OSError as error:
            raise ApiServerUnreachable("the connection broke") from error
        self._counts.sent["to_api_server"] += len(data)

    def _note_end(self) -> None:
        self._is_half_closed = True
        self._note_bytes()

    def _note_bytes(self) -> None:
        """Restart the timer that ends the exchange when one side sends no more and the other side is silent."""
        if self._is_half_closed and not self._limit.expired():
            self._limit.reschedule(asyncio.get_running_loop().time() + self._patience)

    def _stop(self, error: ApiProxyError) -> None:
        """End the exchange with *error*."""
        if not self._limit.expired():
            self._fault = error
            self._limit.reschedule(asyncio.get_running_loop().time())
