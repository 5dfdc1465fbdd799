"""SPDY sessions: the bytes that are forwarded, the output that is recorded, and the frames that are refused."""

import zlib
from collections.abc import Sequence
from hashlib import sha256
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tsoperator.apiproxy.errors import BadFrames
from tsoperator.apiproxy.recording.frames import Size
from tsoperator.apiproxy.recording.spdy import DICTIONARY, SpdyClient, SpdyServer, SpdyStreams

from tests.operator.apiproxy.recording.reading import Outputs, read, splits, survives

STDOUT = "800300010000002a0000000100000000000078f9e3c6a7c202a62346703a2b294a4dcc851625c0149b925f5a02000000ffff"
STDERR = "800300010000001500000003000000000000c229975a5404000000ffff"
RESIZE = "800300010000001700000005000000000000c22e072c6480b10a000000ffff"
"""Frames that open the streams 1, 3 and 5. The headers of all three frames are compressed as one zlib stream."""
OPENING = bytes.fromhex(STDOUT + STDERR + RESIZE)
SIZE = b'{"Width":10,"Height":20}\n'


class Output(NamedTuple):
    writes: str
    outputs: Outputs = {}  # noqa: RUF012 (a named tuple)
    kept: str = ""


DATA = "0102030405"
OUTPUTS = [
    Output("80030001 00000001 05"),
    Output("80030001 | 00000001 05 8003", kept="8003"),
    Output("00000001 00000000"),
    Output(f"00000001 00000005 {DATA}", {1: b"\1\2\3\4\5"}),
    Output(f"00000002 00000005 {DATA}", {2: b"\1\2\3\4\5"}),
    Output(f"00000007 00000005 {DATA}"),
    Output(f"80030001 00000000 00000001 | 00000005 {DATA}", {1: b"\1\2\3\4\5"}),
    Output("00000001 00000002 6162 00000002 00000001 63 80030006 00000004 00000001", {1: b"ab", 2: b"c"}),
    Output("00000001 01000003 616263", {1: b"abc"}),  # the last frame of its stream
    Output("80030002 00000000 80030008 00000000"),
    Output("01000000 00000001 61"),  # a stream has a number of 31 bits
]  # fmt: skip


def pieces(text: str) -> list[bytes]:
    return [bytes.fromhex(piece) for piece in text.split("|")]


def server() -> SpdyServer:
    return SpdyServer(SpdyStreams({1}, {2}))


def client(has_terminal: bool = True) -> SpdyClient:
    return SpdyClient(SpdyStreams(), has_terminal)


def data_frame(stream: int, payload: bytes) -> bytes:
    return stream.to_bytes(4) + len(payload).to_bytes(4) + payload


class Opener:
    """A builder of frames with headers. It compresses the headers of all its frames as one zlib stream."""

    def __init__(self) -> None:
        self._packer = zlib.compressobj(zdict=DICTIONARY)

    def frame(self, *headers: tuple[bytes, bytes], stream: int = 1, rest: bytes = b"", kind: int = 1) -> bytes:
        words = [word for header in headers for word in header]
        block = len(headers).to_bytes(4) + b"".join(len(word).to_bytes(4) + word for word in words) + rest
        before = stream.to_bytes(4) + (bytes(6) if kind == 1 else b"")
        payload = before + self._packer.compress(block) + self._packer.flush(zlib.Z_SYNC_FLUSH)
        return b"\x80\x03" + kind.to_bytes(2) + len(payload).to_bytes(4) + payload


TYPE = b"streamtype"


def test_the_dictionary_for_compressed_headers_is_that_of_the_draft_of_spdy() -> None:
    digest = "51d27341373f923f3cd88e1eb7162aeaa3723d7585ff2399201dc06498407f02"
    assert (len(DICTIONARY), zlib.adler32(DICTIONARY)) == (1423, 0xE3C6A7C2)
    assert sha256(DICTIONARY).hexdigest() == digest


@pytest.mark.parametrize("case", OUTPUTS, ids=lambda case: case.writes)
def test_all_bytes_of_a_session_are_forwarded_and_its_output_is_recorded(case: Output) -> None:
    sent, kept, parser = pieces(case.writes), bytes.fromhex(case.kept), server()
    assert read(parser, sent) == (b"".join(sent).removesuffix(kept), case.outputs, [])
    assert parser.cutter.held == kept


@pytest.mark.parametrize("case", OUTPUTS, ids=lambda case: case.writes)
@given(data=st.data())
def test_the_parser_finds_the_same_output_however_the_bytes_are_cut(case: Output, data: st.DataObject) -> None:
    whole = b"".join(pieces(case.writes))
    assert read(server(), data.draw(splits(whole))) == read(server(), [whole])


@given(splits(OPENING + data_frame(5, SIZE) * 2 + b"\x80\x03"))
def test_the_parser_finds_the_same_streams_and_terminal_sizes_however_the_bytes_of_a_client_are_cut(
    came: Sequence[bytes],
) -> None:
    streams = SpdyStreams()
    parser = SpdyClient(streams, has_terminal=True)
    forwarded, _, sizes = read(parser, came)
    assert forwarded + parser.cutter.held == b"".join(came)
    assert sizes == [Size(10, 20)] * 2
    assert streams == SpdyStreams({1}, {3}, {5})


def test_control_frames_without_headers_from_a_client_are_forwarded_unchanged() -> None:
    frames = (
        "80030003 00000008 00000001 00000005 80030004 00000004 00000000 80030004 0000000c 00000001 00000004 00000064"
        "80030006 00000004 00000001 80030007 00000008 00000001 00000000 80030009 00000008 00000001 00001000"
    )
    sent = bytes.fromhex(frames)
    assert read(client(), [sent[at : at + 1] for at in range(len(sent))]) == (sent, {}, [])


def test_the_headers_of_a_frame_can_be_read_only_after_those_of_earlier_frames() -> None:
    with pytest.raises(BadFrames, match="decompressed"):
        client().feed(bytes.fromhex(STDERR))


@pytest.mark.parametrize("kind", [2, 8])
def test_the_headers_of_all_sorts_of_frames_are_one_zlib_stream(kind: int) -> None:
    streams, opener = SpdyStreams(), Opener()
    parser = SpdyClient(streams, has_terminal=False)
    parser.feed(opener.frame((TYPE, b"stdout"), kind=kind))
    parser.feed(opener.frame((TYPE, b"stdout"), stream=9))
    assert streams.stdout == {9}


def test_the_first_of_several_values_of_the_header_streamtype_is_the_type_of_the_stream() -> None:
    streams = SpdyStreams()
    SpdyClient(streams, has_terminal=True).feed(Opener().frame((b"StreamType", b"stdout\0stdin"), stream=0x81000001))
    assert streams.stdout == {0x01000001}


def test_the_parser_reads_no_terminal_size_from_the_input_of_a_session_without_a_terminal() -> None:
    sent = OPENING + data_frame(5, b"no JSON") + data_frame(7, b"input")
    assert read(client(has_terminal=False), [sent]) == (sent, {}, [])


@pytest.mark.parametrize(
    "frame",
    [
        "00000000 00000000",
        "80000001 00000000",
        "80030000 00000000",
        "80030001 00000009 000000010000000000",  # too short for a stream
        "80030002 00000003 000000",
        "80030006 00000003 000000",
        "80030006 00000005 0000000000",
        "80030003 00000009 00000063 00000001 00",  # surplus bytes, which a reader in Go takes for the next frame
        "80030007 00000009 00000001 00000000 00",
        "80030009 00000009 00000001 00000001 00",
        "80030004 00000003 000000",
        "80030004 00000005 00000000 00",
        "80030004 0000000c 00000002 00000001 00000001",
        "80030008 00000000",
        "80030001 0000000e 00000001 000000000000 ffffffff",  # no zlib stream
        "80030001 00ffffff",  # longer than a session may buffer
        data_frame(5, b'{"Width":1').hex(),
        data_frame(5, b"[" * 4000).hex(),
        data_frame(5, b'{"Width":70000,"Height":1}').hex(),
        data_frame(5, b'{"Width":true}').hex(),
        data_frame(5, b"\xff").hex(),
        data_frame(5, b" " * 5000).hex(),
    ],
)
def test_malformed_frames_of_a_client_are_refused(frame: str) -> None:
    parser = client()
    parser.feed(OPENING)
    with pytest.raises(BadFrames):
        parser.feed(bytes.fromhex(frame))


@pytest.mark.parametrize(
    ("headers", "rest"),
    [
        ([(TYPE, b"stdin"), (b"Streamtype", b"stdout")], b""),  # a receiver may use the value of either header
        ([(TYPE, b"stdin")], b"\0"),
        ([(b"\0\0\0\1", b"")], b"\0\0"),
        ([(b"x", b"a" * 8179)], b"b" * 1000),  # a few bytes that become more than 8 KiB
    ],
    ids=["twice", "more", "cut", "bomb"],
)
def test_frames_with_ambiguous_incomplete_or_long_headers_are_refused(
    headers: list[tuple[bytes, bytes]], rest: bytes
) -> None:
    with pytest.raises(BadFrames):
        client().feed(Opener().frame(*headers, rest=rest))


def test_the_number_of_streams_that_a_client_can_open_is_limited() -> None:
    parser, opener = client(), Opener()
    for stream in range(1, 65):
        parser.feed(opener.frame((TYPE, b"stdout"), stream=stream))
    with pytest.raises(BadFrames, match="64 streams"):
        parser.feed(opener.frame((TYPE, b"stderr"), stream=65))


def test_all_terminal_sizes_in_one_message_are_read_even_if_a_size_lacks_a_number() -> None:
    parser = client()
    parser.feed(OPENING)
    sent = data_frame(5, b'{"WIDTH":3,"height":null} {"Width":1,"Height":2}') + data_frame(5, b"")
    assert parser.feed(sent).sizes == [Size(3, 0), Size(1, 2)]


FRAME_STARTS = st.sampled_from([b"", OPENING, OPENING + data_frame(5, SIZE), b"\x80\x03\0\1", b"\0\0\0\1\0\0\0\5"])


@given(FRAME_STARTS, st.lists(st.binary(max_size=300), max_size=8))
def test_the_parser_forwards_random_bytes_unchanged_or_refuses_them(start: bytes, came: list[bytes]) -> None:
    survives(client, [start, *came])
    survives(server, [start, *came])


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("", data_frame(2, b"\r\nend")),
        ("00000001 00000002 6162", data_frame(2, b"\r\nend")),
        ("00000001 00000008 6162", b"\r\nend "),  # in the frame that has begun
        ("00000001 00000005 6162", b"\r\ne" + data_frame(2, b"nd")),
        ("00000001 00ffffff 6162", b""),  # that frame is too long to be filled
        ("80030001 00000008 6162", b""),
    ],
)
def test_a_notice_to_the_user_is_written_into_an_unfinished_frame_or_else_into_a_frame_of_its_own(
    before: str, expected: bytes
) -> None:
    parser = server()
    parser.feed(bytes.fromhex(before))
    assert parser.notice()(b"\r\nend") == expected
