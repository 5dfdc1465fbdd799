"""Functions that feed a session's bytes to a parser in pieces, and compare what the parser forwards and finds."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Protocol

from hypothesis import strategies as st
from tsoperator.apiproxy.errors import BadFrames
from tsoperator.apiproxy.recording.frames import Cutter, Parsed, Size

MOST_HELD = 32 << 10
"""The greatest number of bytes that a parser is allowed to store before it forwards them."""


class Parser(Protocol):
    cutter: Cutter

    def feed(self, data: bytes) -> Parsed: ...


Outputs = dict[int, bytes]


def read(parser: Parser, pieces: Sequence[bytes]) -> tuple[bytes, Outputs, list[Size]]:
    """Return the bytes of *pieces* that *parser* forwards, the output of each stream, and the terminal sizes."""
    forwarded, outputs, sizes = b"", dict[int, bytes](), list[Size]()
    for piece in pieces:
        parsed = parser.feed(piece)
        forwarded += parsed.forwarded
        sizes += parsed.sizes
        for stream, data in parsed.outputs:
            outputs[stream] = outputs.get(stream, b"") + data
    return forwarded, outputs, sizes


def cut(data: bytes, places: Sequence[int]) -> list[bytes]:
    """Return *data* in pieces that end at *places*."""
    ends = sorted({0, len(data), *(min(place, len(data)) for place in places)})
    return [data[start:end] for start, end in pairwise(ends)]


def splits(data: bytes) -> "st.SearchStrategy[list[bytes]]":
    return st.lists(st.integers(0, len(data)), max_size=8).map(lambda places: cut(data, places))


def survives(make: Callable[[], Parser], pieces: Sequence[bytes]) -> None:
    """Feed *pieces* to a new parser from *make*. Fail unless it forwards them unchanged until it refuses one.

    Fail also if the parser holds more than `MOST_HELD` bytes at the end.
    """
    parser, forwarded, came = make(), b"", b""
    for piece in pieces:
        came += piece
        try:
            forwarded += parser.feed(piece).forwarded
        except BadFrames:
            break
        assert forwarded + parser.cutter.held == came
    assert came.startswith(forwarded)
    assert len(parser.cutter.held) <= MOST_HELD
