"""Makes the recordings that the tailnet's grants want: recordings of sessions, and an event for each request.

We send the event before we forward the request.
"""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from tsoperator.apiproxy.client import Client
from tsoperator.apiproxy.counts import RecordingCounts
from tsoperator.apiproxy.errors import ClientGone, RecordingFailed
from tsoperator.apiproxy.framing import Framing, RequestBody
from tsoperator.apiproxy.head import RequestHead
from tsoperator.apiproxy.impersonation import Denial, RecordingOrder
from tsoperator.apiproxy.recording.cast import Cast
from tsoperator.apiproxy.recording.dialling import Dial, RecorderLimits
from tsoperator.apiproxy.recording.events import MOST_BODY, RequestEvent, send_event
from tsoperator.apiproxy.recording.recorder import RecorderSearch
from tsoperator.apiproxy.recording.tap import SessionRecording, session_parsers

Note = Callable[[str], None]

_MOST_FRAMED: Final = MOST_BODY + (1 << 20)
"""The most bytes of a body that becomes part of an event, counted with the framing."""


@dataclass(slots=True)
class _Waiting:
    """Counts the bytes in bodies that wait until their events are sent: *size* for all devices, *of* by device."""

    limits: RecorderLimits
    size: int = 0
    of: Counter[str] = field(default_factory=Counter)

    def add(self, device: str, size: int) -> None:
        """Note that *size* more bytes wait, or fewer if it is negative."""
        self.size += size
        self.of[device] += size
        if not self.of[device]:
            del self.of[device]

    def are_too_many(self, device: str) -> bool:
        """Tell whether too many bytes wait to be sent: in all, or those of the caller *device*."""
        return self.size > self.limits.waiting or self.of[device] > self.limits.waiting_of_one


class _Unreadable(Exception):
    """An error: a body can't become part of an event. *status* is the HTTP status for the client."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class _Body:
    """The body of a request, which we read from *client* for an event. The bytes stay in *client*, to be forwarded."""

    def __init__(self, client: Client, head: RequestHead, device: str, waiting: _Waiting) -> None:
        self._client = client
        self._head = head
        self._device = device
        self._waiting = waiting
        self.taken = 0
        """The number of bytes of the body that have come, counted with the framing."""

    async def read(self) -> bytes:
        """Return the whole body without its framing. Raises _Unreadable, ClientGone and BadMessage."""
        received, kind = self._client.received, self._head.body
        reader, body = RequestBody(kind, is_plain=True), bytearray()
        if kind.framing is Framing.LENGTH and kind.length > MOST_BODY:
            raise _Unreadable(413, f"a body of more than {MOST_BODY >> 20} MiB can't be recorded")
        if not reader.is_complete and not received and _expects_continue(self._head):
            await self._client.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        while not reader.is_complete:
            if self.taken == len(received) and not await self._client.receive():
                raise ClientGone
            data, used = reader.feed(bytes(received[self.taken :]))
            self.taken += used
            self._waiting.add(self._device, used)
            body += data
            if len(body) > MOST_BODY or self.taken > _MOST_FRAMED:
                raise _Unreadable(413, f"a body of more than {MOST_BODY >> 20} MiB can't be recorded")
            if self._waiting.are_too_many(self._device):
                raise _Unreadable(503, "too many requests with long bodies are being recorded")
        return bytes(body)

    def forget(self) -> None:
        """Stop counting the bytes of the body as waiting: the event has been sent, or has failed."""
        self._waiting.add(self._device, -self.taken)


def _expects_continue(head: RequestHead) -> bool:
    return any(name.lower() == b"expect" and value.lower() == b"100-continue" for name, value in head.headers)


class Recordings:
    """Records requests and sessions in recorders that *dial* reaches."""

    def __init__(
        self,
        dial: Dial,
        counts: RecordingCounts,
        limits: RecorderLimits | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._dial = dial
        self._counts = counts
        self._limits = limits or RecorderLimits()
        self._clock = clock
        self._waiting = _Waiting(self._limits)

    async def record_event(self, client: Client, head: RequestHead, order: RecordingOrder, note: Note) -> Denial | None:
        """Record a request as an event, with the body that we read from *client*. The bytes of the body stay there.

        Return the refusal if the request must be recorded but can't be; else None. If the request needn't be recorded,
        call *note* with the reason why the request or its body isn't recorded. Raises ClientGone and BadMessage.
        """
        self._counts.events["attempted"] += 1
        body = _Body(client, head, order.device.stable_id, self._waiting)
        try:
            refusal = await self._record(body, head, order, note)
        finally:
            body.forget()
        self._counts.events["recorded" if refusal is None else "failed"] += 1
        if refusal is not None and not order.recorders.is_enforced:
            note(f"{head.method} {head.path} isn't recorded: {refusal.message}")
            return None
        return refusal

    async def _record(self, body: "_Body", head: RequestHead, order: RecordingOrder, note: Note) -> Denial | None:
        """Record a request; return the refusal if that fails, else None. Raises ClientGone and BadMessage."""
        try:
            data = await body.read()
        except _Unreadable as error:
            if order.recorders.is_enforced:
                return Denial(error.status, "event-body", str(error))
            note(f"{head.method} {head.path} is recorded without its body: {error}")
            data = b""
        event = RequestEvent(head, data, order.device, int(self._clock()))
        try:
            await send_event(event, self._dial, order.recorders.addresses, self._limits)
        except RecordingFailed as error:
            return Denial(502, "event", f"the request can't be recorded: {error}")
        return None

    def session(self, head: RequestHead, order: RecordingOrder, note: Note) -> SessionRecording | None:
        """Return the recording of the session that a request opens; None if there is no session to record."""
        if order.session is None:
            return None
        self._counts.sessions["attempted"] += 1
        return SessionRecording(
            RecorderSearch(self._dial, order.recorders.addresses, self._limits),
            Cast(order.device, order.session, int(self._clock())),
            session_parsers(head.upgrade, order.session.has_terminal),
            self._counts,
            is_enforced=order.recorders.is_enforced,
            note=note,
        )
