"""Malformed answers of recorders and of tailscaled make a recording fail."""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from hypothesis import given
from hypothesis import strategies as st
from tsoperator.apiproxy.errors import RecordingFailed
from tsoperator.apiproxy.head import parse_request
from tsoperator.apiproxy.recording.dialling import Dial, RecorderLimits
from tsoperator.apiproxy.recording.events import RequestEvent, send_event
from tsoperator.apiproxy.recording.recorder import RecorderSearch
from tsoperator.apiproxy.recording.source import UNKNOWN
from tsoperator.apiproxy.stream import SocketStream

LIMITS = RecorderLimits(dial=5, probe=5, search=5, patience=5)


def by_http2() -> bytes:
    """Return the bytes that a recorder sends over HTTP/2 while it receives a recording."""
    http = H2Connection(H2Configuration(client_side=False))
    client = H2Connection(H2Configuration(client_side=True))
    client.initiate_connection()
    http.initiate_connection()
    for number, method in ((1, "HEAD"), (3, "POST")):
        pseudo = [(":method", method), (":scheme", "http"), (":authority", "a"), (":path", "/v2/record")]
        client.send_headers(number, pseudo, end_stream=method == "HEAD")
        http.receive_data(client.data_to_send())
        http.send_headers(number, [(":status", "200")], end_stream=method == "HEAD")
    http.send_data(3, b'{"ack":4}\n')
    return http.data_to_send()


HTTP2 = by_http2()
HTTP1 = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
EVENT = b"HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


def answering(raw: bytes) -> Dial:
    """Return a function that opens a connection, whose other end has sent *raw* and sends nothing more."""

    async def dial(_: str) -> tuple[SocketStream, bytes]:
        ours, theirs = socket.socketpair()
        with theirs:
            theirs.sendall(raw)
        return SocketStream(ours), b""

    return dial


async def record(dial: Dial) -> None:
    search = RecorderSearch(dial, ["192.0.2.1:80"], LIMITS)
    try:
        await search.reach()
        upload = await search.begin()
    finally:
        search.close()
    running = asyncio.ensure_future(upload.run())
    try:
        await upload.write(b"data")
        await upload.finish()
    finally:
        await running


async def tell(dial: Dial) -> None:
    head = parse_request(b"GET / HTTP/1.1\r\nHost: k8s\r\n\r\n")
    await send_event(RequestEvent(head, b"x" * 100_000, UNKNOWN, 0), dial, ["192.0.2.1:80"], LIMITS)


@given(
    st.sampled_from([(record, HTTP2), (record, HTTP1), (tell, EVENT)]),
    st.integers(0, 200),
    st.integers(0, 20),
    st.binary(max_size=40),
)
def test_a_random_answer_of_a_recorder_causes_no_other_error_than_a_failed_recording(
    case: tuple[Callable[[Dial], Awaitable[None]], bytes], at: int, removed: int, added: bytes
) -> None:
    use, raw = case

    async def run() -> None:
        with contextlib.suppress(RecordingFailed):
            async with asyncio.timeout(20):
                await use(answering(raw[:at] + added + raw[at + removed :]))

    asyncio.run(run())


@pytest.mark.parametrize(
    ("use", "raw"),
    [
        (record, b""),
        (record, HTTP2),
        (record, HTTP2[:30]),
        (record, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
        (record, b"HTTP/1.1 100 Continue\r\n\r\n"),
        (record, HTTP1.replace(b"200", b"500")),
        (record, HTTP1),  # the answer comes before the end of the recording
        (tell, b"HTTP/1.1 200 OK\r\n\r\n"),
        (tell, b"x" * 100_000),
    ],
)
async def test_a_cut_or_wrong_answer_of_a_recorder_makes_the_recording_fail(
    use: Callable[[Dial], Awaitable[None]], raw: bytes
) -> None:
    with pytest.raises(RecordingFailed):
        await use(answering(raw))


async def test_the_error_names_the_answer_of_a_recorder_that_has_closed_the_connection() -> None:
    answers = EVENT.replace(b"200 OK\r\nContent-Length: 0\r\n\r\n", b"507 Full\r\n\r\nno space left")
    with pytest.raises(RecordingFailed, match="status 507: no space left"):
        await tell(answering(answers))
