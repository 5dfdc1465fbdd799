"""WebSocket sessions: the bytes that are forwarded, the output that is recorded, and the frames that are refused."""

from base64 import b64encode
from itertools import combinations
from random import Random
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tsoperator.apiproxy.errors import BadFrames
from tsoperator.apiproxy.recording.frames import PIECE, Size
from tsoperator.apiproxy.recording.websocket import WebSocketFrames

from tests.operator.apiproxy.recording.reading import Outputs, cut, read, splits, survives

MASK = bytes([1, 2, 3, 4])
SIZE = b'\x04{"width":10,"height":20}'


def frame(first: int, payload: bytes, mask: bytes = b"") -> bytes:
    """Return a frame with *payload*; *first* is its first byte."""
    length = len(payload)
    if length > 65535:
        wide = b"\x7f" + length.to_bytes(8)
    else:
        wide = bytes([length]) if length < 126 else b"\x7e" + length.to_bytes(2)
    masked = bytes(byte ^ mask[at % 4] for at, byte in enumerate(payload)) if mask else payload
    return bytes([first, wide[0] | (0x80 if mask else 0)]) + wide[1:] + mask + masked


def server(has_terminal: bool = False) -> WebSocketFrames:
    return WebSocketFrames(is_client=False, has_terminal=has_terminal)


def client() -> WebSocketFrames:
    return WebSocketFrames(is_client=True, has_terminal=True)


class Output(NamedTuple):
    writes: str
    outputs: Outputs = {}  # noqa: RUF012 (a named tuple)


BOTH = {1: b"\7\x08\1\1\2\3\4\5"}
OUTPUTS = [
    Output("82 03 01 07 08", {1: b"\7\x08"}),
    Output("82 03 02 07 08", {2: b"\7\x08"}),
    Output("82 03 00 07 08"),
    Output("82 03 03 07 08"),
    Output("82 01 01"),
    Output("88 00"),
    Output("02 03 01 07 08 | 80 06 01 01 02 03 04 05", BOTH),  # only the first frame of a message has the channel
    Output("02 03 01 07 08 | 80 06 01 01 02 03 | 04 05", BOTH),
    Output("02 03 01 07 08 | 80 00", {1: b"\7\x08"}),
    Output("02 03 01 07 08 80 00", {1: b"\7\x08"}),
    Output("82 03 01 07 08 88 00", {1: b"\7\x08"}),
    Output("82 03 01 07 08 82 03 01 09 0a", {1: b"\7\x08\x09\x0a"}),
    Output("02 02 01 07 89 02 0102 8a 00 80 01 08", {1: b"\7\x08"}),  # a ping within a message
    Output("82 83 01020304 00 05 0b", {1: b"\7\x08"}),
    Output(f"81 05 31 {b64encode(b'ls').hex()}", {1: b"ls"}),
    Output("01 04 31 614756 80 05 7362473876", {1: b"hello/"}),  # base64 that is cut
    Output("81 02 30 61"),  # input isn't looked at
    Output("82 02 ff 01"),  # the end of a channel, in version 5
]


def pieces(text: str) -> list[bytes]:
    return [bytes.fromhex(piece) for piece in text.split("|")]


@pytest.mark.parametrize("case", OUTPUTS, ids=lambda case: case.writes)
def test_all_bytes_of_a_session_are_forwarded_and_its_output_is_recorded(case: Output) -> None:
    sent = pieces(case.writes)
    assert read(server(), sent) == (b"".join(sent), case.outputs, [])


@pytest.mark.parametrize("case", OUTPUTS, ids=lambda case: case.writes)
@given(data=st.data())
def test_the_parser_finds_the_same_output_however_the_bytes_are_cut(case: Output, data: st.DataObject) -> None:
    whole = b"".join(pieces(case.writes))
    parser = server()
    forwarded, outputs, _ = read(parser, data.draw(splits(whole)))
    assert (forwarded + parser.cutter.held, outputs) == (whole, case.outputs)


SIZES = [
    (frame(0x82, SIZE), 1),
    (frame(0x82, SIZE) * 2, 2),
    (frame(0x88, b"") + frame(0x82, SIZE), 1),
    (frame(0x02, SIZE[:9]) + frame(0x80, SIZE[9:]), 1),
    (frame(0x02, SIZE[:9]) + frame(0x00, SIZE[9:18]) + frame(0x80, SIZE[18:]), 1),
    (frame(0x02, SIZE) + frame(0x80, b""), 1),
    (frame(0x02, SIZE[:9], MASK) + frame(0x80, SIZE[9:], MASK), 1),
    (frame(0x82, SIZE, MASK), 1),
    (frame(0x81, b"4" + b64encode(SIZE[1:])), 1),
    (frame(0x82, b"\x04"), 0),
    (frame(0x82, b"\0" + SIZE[1:], MASK), 0),
]


@pytest.mark.parametrize(("sent", "number"), SIZES)
@given(data=st.data())
def test_the_parser_finds_the_same_terminal_sizes_however_the_bytes_are_cut(
    sent: bytes, number: int, data: st.DataObject
) -> None:
    parser = client()
    forwarded, _, sizes = read(parser, data.draw(splits(sent)))
    assert (forwarded + parser.cutter.held, sizes) == (sent, [Size(10, 20)] * number)


@pytest.mark.parametrize("size", [100, 300, 70000])
@pytest.mark.parametrize(("mask", "first"), [(MASK, 18), (b"", 14)])
def test_a_frame_is_forwarded_however_its_header_is_cut(size: int, mask: bytes, first: int) -> None:
    sent = frame(0x82, bytes(size), mask) + frame(0x88, b"")
    for places in (*combinations(range(1, first), 1), *combinations(range(1, first), 2)):
        parser = WebSocketFrames(is_client=bool(mask), has_terminal=False)
        assert read(parser, cut(sent, places))[0] == sent


def test_a_long_input_is_forwarded_whatever_the_sizes_of_the_pieces_in_which_it_comes() -> None:
    random = Random(1)
    sent = b"".join(frame(0x82, b"\0" + bytes(32767), MASK) for _ in range(16)) * 16
    parser, at, forwarded = client(), 0, bytearray()
    while at < len(sent):
        step = random.randint(1, PIECE)
        forwarded += parser.feed(sent[at : at + step]).forwarded
        at += step
    assert forwarded == sent


@pytest.mark.parametrize(
    "sent",
    [
        "82 00",
        "02 00",
        "80 01 01",  # continues no message
        "02 02 01 61 82 02 01 61",  # a message within a message
        "83 01 00",
        "8b 00",
        "c2 02 01 61",  # compressed
        "82 7f 0000000002000001",  # more than 32 MiB
        "81 04 31 2a2a2a",
        "81 06 31 4141 3d3d41",
        "81 03 31 4141",
    ],
)
def test_malformed_frames_are_refused(sent: str) -> None:
    with pytest.raises(BadFrames):
        server().feed(bytes.fromhex(sent))


@pytest.mark.parametrize("size", [b"x", b'{"width":1', b'{"width":-1}', b"{}" + b" " * 5000, b"[]", b"1" * 4000])
def test_malformed_terminal_sizes_are_refused(size: bytes) -> None:
    with pytest.raises(BadFrames):
        client().feed(frame(0x82, b"\x04" + size))


STARTS = st.sampled_from([b"", frame(0x82, SIZE, MASK), b"\x82\xfe\0", b"\x02\5\1", b"\x81\x7f", b"\x81\5\x31"])


@given(STARTS, st.lists(st.binary(max_size=300), max_size=8))
def test_the_parser_forwards_random_bytes_unchanged_or_refuses_them(start: bytes, came: list[bytes]) -> None:
    survives(client, [start, *came])
    survives(server, [start, *came])


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("", frame(0x82, b"\2end")),
        ("82 03 01 61 62", frame(0x82, b"\2end")),
        ("82 06 01 61 62", b"end"),
        ("82 07 01 61 62", b"end "),
        ("82 04 01 61 62", b"e" + frame(0x82, b"\2nd")),
        ("02 03 01 61 62", frame(0x80, b"end")),  # the message that has begun goes on
        ("02 04 01 61 62", b"e" + frame(0x80, b"nd")),
        ("82 08 03 61 62", b""),
        ("89 04 61", b""),
    ],
)
def test_a_notice_to_the_user_is_written_into_an_unfinished_frame_or_else_into_a_frame_of_its_own(
    before: str, expected: bytes
) -> None:
    parser = server()
    parser.feed(bytes.fromhex(before))
    assert parser.notice()(b"end") == expected


def test_a_notice_to_the_user_is_sent_on_stdout_if_there_is_a_terminal_or_else_on_stderr() -> None:
    assert server(has_terminal=True).notice()(b"end") == frame(0x82, b"\1end")
    assert server().notice()(b"x" * 200) == frame(0x82, b"\2" + b"x" * 200)
