"""One connection of a client: finds out who the caller is, and answers its requests one after another.

For the first request, we open a connection to the API server, which serves only this connection of a client. If the
API server has closed this connection, we open a new one for the next request.
"""

import asyncio
import contextlib
from dataclasses import dataclass, field

from tsoperator.apiproxy import proxyprotocol
from tsoperator.apiproxy.client import Client
from tsoperator.apiproxy.counts import ProxyCounts
from tsoperator.apiproxy.errors import (
    ApiServerUnreachable,
    BadFrames,
    BadMessage,
    BadWhoIs,
    CallerUnknown,
    ClientGone,
    MalformedProxyHeader,
    RecordingFailed,
)
from tsoperator.apiproxy.exchange import Exchange
from tsoperator.apiproxy.framing import Framing
from tsoperator.apiproxy.greeting import RecentCallers
from tsoperator.apiproxy.head import RequestHead, head_length, parse_request
from tsoperator.apiproxy.impersonation import AccessMode, Admission, Caller, Denial, RecordingOrder, caller, decide
from tsoperator.apiproxy.localapi import LocalApi
from tsoperator.apiproxy.notes import Notes
from tsoperator.apiproxy.recording.recordings import Recordings
from tsoperator.apiproxy.recording.tap import SessionRecording
from tsoperator.apiproxy.stream import SocketStream
from tsoperator.apiproxy.tls import ApiServer, TlsStream


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """The time limits for one connection of a client, in seconds. A watch or an upgraded connection has no limit."""

    header: float = 10.0
    head: float = 10.0
    """The time from the first byte of a head to its end, and from the PROXY header to the end of the first head."""
    idle: float = 120.0
    """The time between two requests.

    Clients made with client-go close a connection after 90 s without a request. We wait longer, so that no request
    comes to a connection that we are just closing.
    """
    half_closed: float = 30.0
    """The longest time without a byte after one side has said that it sends no more."""
    linger: float = 2.0
    """The time for which we read the bytes that a client still sends after the end of our answer."""
    whois: float = 1.0
    """The time after which we ask tailscaled again who the caller is."""


@dataclass(frozen=True, slots=True)
class Shared:
    """The parts of the proxy that all connections share."""

    mode: AccessMode
    local_api: LocalApi
    api_server: ApiServer
    counts: ProxyCounts
    limits: SessionLimits
    notes: Notes
    recordings: Recordings
    callers: RecentCallers = field(default_factory=RecentCallers)


class Session:
    """Serves one connection of a client, which begins with a PROXY header.

    *is_plain* says that the connection has no TLS.
    """

    def __init__(self, stream: SocketStream, shared: Shared, *, is_plain: bool = False) -> None:
        self._client = Client(stream, shared.counts.note_sent)
        self._shared = shared
        self._is_plain = is_plain
        self._limits = shared.limits
        self._source = ""
        self._caller: tuple[Caller, float] | None = None
        """The caller, and the time until which we don't ask tailscaled again who it is."""
        self._server: TlsStream | None = None
        self._recording: SessionRecording | None = None
        """The recording of the session that the current request opens."""
        self._has_begun = False
        """Whether the client has got the beginning of the answer to the current request."""

    async def source(self) -> str:
        """Read the PROXY header, and return the caller's `ip:port`; empty if the connection has to be closed."""
        received = self._client.received
        try:
            async with asyncio.timeout(self._limits.header):
                while (header := proxyprotocol.parse(received)) is None:
                    if not await self._client.receive(proxyprotocol.MOST_BYTES):
                        return ""
        except MalformedProxyHeader as error:
            self._note_refusal(f"proxy-{error.reason}", f"no PROXY header that this proxy accepts: {error}")
            return ""
        except (TimeoutError, ClientGone):
            return ""
        del received[: header.length]
        self._source = header.source
        return header.source

    async def serve(self) -> None:
        """Answer requests until the client sends no more, or until the connection can carry no other request."""
        seconds = self._limits.head
        try:
            while (length := await self._next_head(seconds)) and await self._answer(length):
                seconds = self._limits.idle
                await asyncio.sleep(0)  # many requests at once mustn't keep other connections waiting
            await self._client.linger(self._limits.linger)
        except BadMessage as error:
            self._shared.counts.requests["failed" if error.status == 502 else "refused"] += 1
            self._note_refusal(error.reason, str(error))
            await self._end_with(error.status, str(error))
        except ClientGone:
            return
        finally:
            self._close_server()

    async def turn_away(self, message: str, *, lingers: bool) -> None:
        """Refuse the connection because the client has too many connections: send *message* with status 503.

        With *lingers*, the connection stays open until the client has got the answer.
        """
        await self._end_with(503, message, lingers=lingers)

    async def _end_with(self, status: int, message: str, *, lingers: bool = True) -> None:
        if self._has_begun:
            return
        with contextlib.suppress(ClientGone):
            await self._client.send_error(status, message, closes=True)
            if lingers:
                await self._client.linger(self._limits.linger)

    async def _next_head(self, seconds: float) -> int:
        """Wait for a whole head; return its length, or 0 if the client sends no more. Raises ClientGone, BadMessage.

        The head must begin within *seconds*.
        """
        received, loop = self._client.received, asyncio.get_running_loop()
        seen = 0
        try:
            async with asyncio.timeout(self._limits.head if received else seconds) as limit:
                while not (length := head_length(received, seen)):
                    seen = len(received)
                    if self._client.has_ended or not await self._client.receive():
                        return 0
                    if not seen:
                        limit.reschedule(loop.time() + self._limits.head)
        except TimeoutError:
            raise ClientGone from None
        return length

    async def _answer(self, length: int) -> bool:
        """Answer the request whose head has *length* bytes; return whether the client can send another one.

        Raises ClientGone, and BadMessage for a message after which no byte of the connection can be trusted.
        """
        self._has_begun = False
        head = parse_request(self._client.received[:length])
        del self._client.received[:length]
        admission = await self._admission(head)
        if isinstance(admission, Admission) and admission.recording:
            admission = await self._record_event(head, admission.recording) or admission
        if isinstance(admission, Denial):
            return await self._refuse(head, admission)
        try:
            goes_on = await self._forward(head, admission)
        except ApiServerUnreachable as error:
            return await self._answer_unreachable(head, error)
        except RecordingFailed as error:
            return await self._end_unrecorded(head, error)
        except BadFrames as error:
            self._shared.counts.requests["refused"] += 1
            self._note_refusal(f"frames-{error.reason}", f"the session has ended: {error}")
            return False
        self._shared.counts.requests["forwarded"] += 1
        return goes_on

    async def _admission(self, head: RequestHead) -> Admission | Denial:
        """Decide whether to admit the request with *head*.

        Ask tailscaled who the caller is, unless its latest answer about this connection is younger than the limit
        `whois`.
        """
        now = asyncio.get_running_loop().time()
        try:
            if self._caller is None or self._caller[1] <= now:
                self._shared.callers.note(self._source.rpartition(":")[0].strip("[]"), now)
                answer = await self._shared.local_api.who_is(self._source)
                self._caller = caller(answer), now + self._limits.whois
        except CallerUnknown as error:
            return Denial(500, f"whois-{error.reason}", f"the caller could not be authenticated: {error}")
        except BadWhoIs as error:
            return Denial(500, "whois-answer", f"the caller could not be authenticated: {error}")
        return decide(self._caller[0], self._shared.mode, head, is_plain=self._is_plain)

    async def _record_event(self, head: RequestHead, order: RecordingOrder) -> Denial | None:
        """Record a request if grants want it; return a refusal if the request must be recorded but can't be."""
        if order.unrecordable:
            wanted = f"its grants want {head.method} {head.path} recorded if possible"
            self._shared.notes.once(self._address, f"{wanted}, and this proxy can't record {order.unrecordable}")
        if not order.recorders.has_events:
            return None
        return await self._shared.recordings.record_event(self._client, head, order, self._note)

    async def _forward(self, head: RequestHead, admission: Admission) -> bool:
        """Send a request to the API server, and its answer to the client; return whether the client can send another.

        Raises ApiServerUnreachable, BadMessage and ClientGone. Raises RecordingFailed if a session must be recorded
        but can't be, and BadFrames if the frames of a recorded session are malformed.
        """
        order = admission.recording
        self._recording = self._shared.recordings.session(head, order, self._note) if order else None
        if self._recording is None:
            return await self._forward_to_server(head, admission)
        try:
            await self._recording.reach()
            return await self._forward_to_server(head, admission)
        finally:
            self._recording.close()

    async def _forward_to_server(self, head: RequestHead, admission: Admission) -> bool:
        sent = admission.head(head, self._shared.api_server.token())
        if self._server is not None and self._server.is_idle():
            try:
                return await self._exchange(head, sent, self._server)
            except ApiServerUnreachable:
                # The API server closed the idle connection, perhaps before it saw the request. So we try again.
                if self._has_begun or not head.is_safe or head.body.framing is not Framing.NONE:
                    raise
        self._close_server()
        self._server = await self._shared.api_server.connect()
        return await self._exchange(head, sent, self._server)

    async def _exchange(self, head: RequestHead, sent: bytes, server: TlsStream) -> bool:
        patience, counts = self._limits.half_closed, self._shared.counts
        exchange = Exchange(self._client, server, head, patience, counts, self._recording)
        try:
            goes_on = await exchange.run(sent)
        except ClientGone:
            self._shared.counts.requests["forwarded"] += 1  # no failure: many clients end a watch by going away
            raise
        finally:
            self._has_begun = exchange.has_begun
        if not goes_on.server:
            self._close_server()
        return goes_on.client

    async def _refuse(self, head: RequestHead, denial: Denial) -> bool:
        self._shared.counts.requests["refused"] += 1
        self._note_refusal(denial.reason, denial.message)
        return await self._answer_error(head, denial.status, denial.message)

    async def _end_unrecorded(self, head: RequestHead, error: RecordingFailed) -> bool:
        """End a session that must be recorded but can't be, and show the user why.

        Return whether the client can send another request.
        """
        self._close_server()
        message = f"this session must be recorded, and that has failed: {error}"
        if not self._has_begun:
            return await self._refuse(head, Denial(403, "recorder", message))
        self._shared.counts.requests["refused"] += 1
        self._note_refusal("recorder", message)
        if self._recording is not None and (notice := self._recording.notice(message)):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._limits.linger):
                    await self._client.send(notice)
        return False

    async def _answer_unreachable(self, head: RequestHead, error: ApiServerUnreachable) -> bool:
        self._close_server()
        self._shared.counts.requests["failed"] += 1
        self._shared.notes.note(self._source, f"the API server can't be reached: {error}")
        if self._has_begun:
            return False
        return await self._answer_error(head, 502, f"the API server can't be reached: {error}")

    async def _answer_error(self, head: RequestHead, status: int, message: str) -> bool:
        closes = head.closes or head.body.framing is not Framing.NONE or bool(head.upgrade)
        await self._client.send_error(status, message, closes=closes, with_body=head.method != "HEAD")
        return not closes

    @property
    def _address(self) -> str:
        """Return the caller's address without its port."""
        return self._source.rpartition(":")[0]

    def _note_refusal(self, reason: str, message: str) -> None:
        self._shared.counts.refusals[reason] += 1
        self._note(f"refused: {message}")

    def _note(self, message: str) -> None:
        self._shared.notes.note(self._source or "a client without a PROXY header", message)

    def _close_server(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
