"""The framing of the bodies of requests and answers: finds where a body ends (RFC 9112 sections 6 and 7).

We write the body of a request anew for the API server, without the extensions of chunks and without trailers. The body
of an answer goes to the client as it is, so we only count its bytes.
"""

import re
from dataclasses import dataclass
from enum import Enum, auto
from re import Pattern
from typing import Final

from tsoperator.apiproxy.errors import BadBody

Piece = bytes | bytearray | memoryview

MOST_LINE: Final = 256
"""The most bytes of a line that isn't data in a chunked body, such as the size of a chunk. We refuse longer lines."""
MOST_TRAILERS: Final = 4096
"""The most bytes that we accept in all trailers of a body together."""


class Framing(Enum):
    """The way in which the end of a body is found."""

    NONE = auto()
    LENGTH = auto()
    CHUNKED = auto()
    UNTIL_CLOSE = auto()


@dataclass(frozen=True, slots=True)
class BodyKind:
    """The framing of a body; *length* is its number of bytes if the framing is LENGTH."""

    framing: Framing
    length: int = 0


NO_BODY: Final = BodyKind(Framing.NONE)
CHUNKED: Final = BodyKind(Framing.CHUNKED)
UNTIL_CLOSE: Final = BodyKind(Framing.UNTIL_CLOSE)


class RequestBody:
    """Parses the body of a request, and frames it anew for the API server; with *is_plain*, removes the framing."""

    def __init__(self, kind: BodyKind, *, is_plain: bool = False) -> None:
        self._counter = _counter(kind, 400, is_plain=is_plain)

    @property
    def is_complete(self) -> bool:
        """Whether no byte of the body is missing."""
        return self._counter.is_complete

    def feed(self, data: Piece) -> tuple[bytes, int]:
        """Return the bytes that *data* adds to the body, and the number of bytes of *data* that belong to the body.

        The rest of *data* is the beginning of the next request. Raises BadBody.
        """
        forwarded: list[Piece] = []
        with memoryview(data) as view:
            used = self._counter.feed(view, forwarded)
            return b"".join(forwarded), used


class AnswerBody:
    """The body of an answer: we only count its bytes, to find its end."""

    def __init__(self, kind: BodyKind) -> None:
        self._counter = _counter(kind, 502)

    @property
    def is_complete(self) -> bool:
        """Whether no byte of the body is missing. A body until the end of the connection is never complete."""
        return self._counter.is_complete

    def feed(self, data: Piece) -> int:
        """Return how many bytes of *data* belong to the body. Raises BadBody."""
        with memoryview(data) as view:
            return self._counter.feed(view, None)


class _Counter:
    """Counts the bytes of a body. A *length* of -1 means that the body lasts until the end of the connection."""

    def __init__(self, length: int) -> None:
        self._left = length

    @property
    def is_complete(self) -> bool:
        return self._left == 0

    def feed(self, view: memoryview, forwarded: list[Piece] | None) -> int:
        """Return how many bytes of *view* belong to the body. Append these bytes to *forwarded* if that is a list."""
        used = len(view) if self._left < 0 else min(self._left, len(view))
        if self._left > 0:
            self._left -= used
        if forwarded is not None and used:
            forwarded.append(view[:used])
        return used


_TOKEN: Final = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_TEXT: Final = rb"[\t\x20-\x7e\x80-\xff]*"
_SIZE: Final = rb"([0-9A-Fa-f]{1,16})[\t ]*(?:;" + _TEXT + rb")?"


@dataclass(frozen=True, slots=True)
class _Line:
    """The patterns for one sort of line in a chunked body: *whole* for a complete line, *part* for its beginning.

    Such a line has the size of a chunk, or a trailer.
    """

    whole: Pattern[bytes]
    part: Pattern[bytes]


_FIRST: Final = _Line(re.compile(_SIZE + rb"\r\n"), re.compile(rb"(?:" + _SIZE + rb"\r?)?"))
_NEXT: Final = _Line(re.compile(rb"\r\n" + _SIZE + rb"\r\n"), re.compile(rb"\r?|\r\n(?:" + _SIZE + rb"\r?)?"))
"""The patterns of the lines between two chunks: the end of a chunk, and the size of the next one."""
_TRAILER: Final = _Line(
    re.compile(rb"(" + _TOKEN + rb":" + _TEXT + rb")?\r\n"),
    re.compile(rb"\r?|" + _TOKEN + rb"(?::" + _TEXT + rb"\r?)?"),
)


class _Chunks:
    """Parses a chunked body. If the body is malformed, raises BadBody with the HTTP *status*.

    With *is_plain*, the bytes to forward are only the data of the chunks.
    """

    def __init__(self, status: int, *, is_plain: bool) -> None:
        self._is_plain = is_plain
        self.is_complete = False
        self._status = status
        self._line = _FIRST
        self._left = 0  # bytes of data in this chunk
        self._held = b""  # the beginning of a line
        self._trailers = 0  # bytes of all trailers so far

    def feed(self, view: memoryview, forwarded: list[Piece] | None) -> int:
        """Return how many bytes of *view* belong to the body; append the bytes to forward if *forwarded* is a list."""
        position, end = 0, len(view)
        while position < end and not self.is_complete:
            if self._left:
                step = min(self._left, end - position)
                self._left -= step
                if forwarded is not None:
                    forwarded.append(view[position : position + step])
                    if not self._left and not self._is_plain:
                        forwarded.append(b"\r\n")
                position += step
            else:
                position += self._read_line(view[position:], forwarded)
        return position

    def _read_line(self, view: memoryview, forwarded: list[Piece] | None) -> int:
        """Read a line, or a part of one, at the beginning of *view*; return how many bytes of *view* belong to it.

        If *forwarded* is a list, append the framing to forward. Raises BadBody.
        """
        held = len(self._held)
        window: Piece = self._held + bytes(view[: MOST_LINE + 1]) if held else view
        found = self._line.whole.match(window)
        length = found.end() if found else len(window)
        if length > MOST_LINE or (not found and not self._line.part.fullmatch(window)):
            raise BadBody(self._status, "chunk", "a chunk of the body or a trailer is malformed")
        if found is None:
            self._held = bytes(window)
            return len(view)
        self._held = b""
        if self._line is not _TRAILER:
            self._begin_chunk(int(found[1], 16), forwarded)
        elif found[1] is None:
            self.is_complete = True
            if forwarded is not None and not self._is_plain:
                forwarded.append(b"\r\n")
        else:
            self._trailers += length
            if self._trailers > MOST_TRAILERS:
                raise BadBody(self._status, "trailers", f"the trailers have more than {MOST_TRAILERS} bytes")
        return length - held

    def _begin_chunk(self, size: int, forwarded: list[Piece] | None) -> None:
        self._left = size
        self._line = _NEXT if size else _TRAILER
        if forwarded is not None and not self._is_plain:
            forwarded.append(b"%x\r\n" % size)


def _counter(kind: BodyKind, status: int, *, is_plain: bool = False) -> _Counter | _Chunks:
    if kind.framing is Framing.CHUNKED:
        return _Chunks(status, is_plain=is_plain)
    return _Counter(-1 if kind.framing is Framing.UNTIL_CLOSE else kind.length)
