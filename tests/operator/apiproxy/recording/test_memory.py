"""The memory that the parsers of sessions use for hostile bytes."""

import contextlib
import tracemalloc
from collections.abc import Callable

import pytest
from tsoperator.apiproxy.errors import BadFrames, RecordingFailed
from tsoperator.apiproxy.recording.cast import Cast
from tsoperator.apiproxy.recording.frames import PIECE
from tsoperator.apiproxy.recording.http2 import Acknowledgements
from tsoperator.apiproxy.recording.requestinfo import SessionRequest
from tsoperator.apiproxy.recording.source import UNKNOWN

from tests.operator.apiproxy.recording import test_spdy as spdy
from tests.operator.apiproxy.recording import test_websocket as websocket

MOST = 256 << 10


def opened(data: bytes) -> Callable[[], object]:
    """Return a function that feeds *data* to a parser of SPDY in whose session the streams are open already."""
    parser = spdy.client()
    parser.feed(spdy.OPENING)
    return lambda: parser.feed(data)


def many(one: bytes) -> bytes:
    return one * (PIECE // len(one))


CAST = Cast(UNKNOWN, SessionRequest("exec"), 0)
MANY = spdy.Opener().frame(*((b"%x" % number, b"") for number in range(1400)))
BOMB = spdy.Opener().frame((b"x", bytes(1_000_000)))
HOSTILE: dict[str, Callable[[], object]] = {
    "many headers": lambda: spdy.client().feed(MANY),
    "a few bytes that become many": lambda: spdy.client().feed(BOMB),
    "many sizes": opened(spdy.data_frame(5, b"{}" * 2000)),
    "nested sizes": opened(spdy.data_frame(5, b'{"a":' * 700)),
    "many frames of SPDY": lambda: spdy.server().feed(many(spdy.data_frame(1, b"x"))),
    "many frames of WebSocket": lambda: websocket.server().feed(many(websocket.frame(0x82, b"\1x"))),
    "base64": lambda: websocket.server().feed(websocket.frame(0x81, b"1" + b"A" * (PIECE - 8))),
    "many acknowledgements": lambda: Acknowledgements().feed(b"{}" * (PIECE // 2)),
    "a long acknowledgement": lambda: Acknowledgements().feed(b'{"a":[' + b"1," * (PIECE // 2)),
    "output that has to be escaped": lambda: CAST.output(0.1, 1, bytes(PIECE)),
    "output that isn't UTF-8": lambda: CAST.output(0.1, 1, b"\xff" * PIECE),
}


@pytest.mark.parametrize("use", HOSTILE.values(), ids=HOSTILE)
def test_a_parser_of_sessions_uses_little_memory_for_hostile_bytes(use: Callable[[], object]) -> None:
    tracemalloc.start()
    try:
        with contextlib.suppress(BadFrames, RecordingFailed):
            use()
        assert tracemalloc.get_traced_memory()[1] < MOST
    finally:
        tracemalloc.stop()
