"""Sessions by SPDY/3.1: the output and the sizes of the terminal in the frames of a client and of the API server.

A frame begins with eight bytes. In a control frame they are a bit 1, 15 bits of version, 16 bits of type, 8 bits of
flags and 24 bits of length. In a data frame the first 32 bits are a bit 0 and the stream. Headers of streams are
compressed, and all header blocks of one direction are one zlib stream.
"""

import zlib
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from tsoperator.apiproxy.errors import BadFrames
from tsoperator.apiproxy.recording.frames import MOST_FILLED, MOST_SIZE, Cutter, Frame, Notice, Parsed, Size, read_sizes

_WORDS: Final = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow "
    "authorization cache-control connection content-base content-encoding content-language content-length "
    "content-location content-md5 content-range content-type date etag expect expires from host if-match "
    "if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma "
    "proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade "
    "user-agent vary via warning www-authenticate method get status 200_OK version HTTP/1.1 url public set-cookie "
    "keep-alive origin"
)
_TAIL: Final = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden"
    "404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,"
    "publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
DICTIONARY: Final = b"".join(
    len(word).to_bytes(4) + word.replace("_", " ").encode() for word in _WORDS.split()
) + _TAIL.encode()  # fmt: skip
"""The dictionary with which headers are compressed (draft of SPDY/3, section 2.6.10.1)."""

_HEADER: Final = 8
_SYN_STREAM: Final = 1
_SYN_REPLY: Final = 2
_RESET: Final = 3
_SETTINGS: Final = 4
_PING: Final = 6
_GOAWAY: Final = 7
_HEADERS: Final = 8
_WINDOW_UPDATE: Final = 9
_BEFORE_HEADERS: Final = {_SYN_STREAM: 10, _SYN_REPLY: 4, _HEADERS: 4}
"""The number of bytes before the header block of a control frame, by type."""
_LENGTHS: Final = {_RESET: 8, _PING: 4, _GOAWAY: 8, _WINDOW_UPDATE: 8}
"""The right lengths of control frames, by type. We refuse other lengths: programs in Go ignore some lengths and take
surplus bytes for the next frame, which can open a stream."""
_MOST_BLOCK: Final = 8 << 10
"""The most bytes of a header block, compressed or not."""
_MOST_STREAMS: Final = 64
"""The most streams that we let a client open in a session."""


@dataclass(slots=True)
class SpdyStreams:
    """The numbers of the streams that a client has opened, by type."""

    stdout: set[int] = field(default_factory=set)
    stderr: set[int] = field(default_factory=set)
    resize: set[int] = field(default_factory=set)


class SpdyClient:
    """A parser of the bytes of a client: it finds the streams that the client opens, and the sizes of its terminal."""

    def __init__(self, streams: SpdyStreams, has_terminal: bool) -> None:
        self._streams = streams
        self._has_terminal = has_terminal
        self.cutter = Cutter(self._begin, self._payload)
        self._headers = zlib.decompressobj(zdict=DICTIONARY)
        self._is_resize = False
        self._message = bytearray()
        self._sizes: list[Size] = []

    def feed(self, data: bytes) -> Parsed:
        """Return the bytes to forward, and the sizes in them. Raises BadFrames."""
        forwarded = self.cutter.feed(data)
        sizes, self._sizes = self._sizes, []
        return Parsed(forwarded, sizes=sizes)

    def _begin(self, buffer: bytes, at: int) -> Frame | None:
        """Return the frame at the position *at*; None if bytes of its header are missing. Raises BadFrames.

        A header block counts as part of the frame's header. So we read the block before we forward it.
        """
        found = _header(buffer, at)
        if found is None:
            return None
        kind, stream, length = found
        self._is_resize = not kind and self._has_terminal and stream in self._streams.resize
        if length != _LENGTHS.get(kind, length):
            raise BadFrames("length", f"a control frame of type {kind} has a wrong length")
        if kind == _SETTINGS:
            return _settings(buffer, at, length)
        if kind not in _BEFORE_HEADERS:
            return Frame(_HEADER, length)
        if not _BEFORE_HEADERS[kind] <= length <= _MOST_BLOCK:
            raise BadFrames("headers", "a frame with headers is too short or too long")
        if len(buffer) < at + _HEADER + length:
            return None
        self._read_headers(kind, buffer[at + _HEADER : at + _HEADER + length])
        return Frame(_HEADER + length, 0)

    def _payload(self, piece: bytes, left: int) -> None:
        if not self._is_resize:
            return
        if len(self._message) + len(piece) > MOST_SIZE:
            raise BadFrames("size", "a message about the size of the terminal is too long")
        self._message += piece
        if not left:
            self._sizes += read_sizes(self._message)
            self._message.clear()

    def _read_headers(self, kind: int, payload: bytes) -> None:
        """Read a header block. Raises BadFrames.

        A block that we don't need is read, too, because later blocks can't be decompressed without it.
        """
        start = _BEFORE_HEADERS[kind]
        if kind == _SYN_REPLY and len(payload) == start:
            return  # the frame has no headers: they are optional
        types = _stream_types(self._decompressed(payload[start:]))
        if kind != _SYN_STREAM:
            return
        stream = int.from_bytes(payload[:4]) & 0x7FFFFFFF
        streams = {b"stdout": self._streams.stdout, b"stderr": self._streams.stderr, b"resize": self._streams.resize}
        if types in streams:
            streams[types].add(stream)
        if sum(map(len, streams.values())) > _MOST_STREAMS:
            raise BadFrames("streams", f"the session has more than {_MOST_STREAMS} streams")

    def _decompressed(self, block: bytes) -> bytes:
        """Return a header block as it was before its compression. Raises BadFrames."""
        try:
            plain = self._headers.decompress(block, _MOST_BLOCK)
        except zlib.error as error:
            raise BadFrames("headers", "the headers of a stream can't be decompressed") from error
        if self._headers.unconsumed_tail or self._headers.eof:
            raise BadFrames("headers", "the headers of a stream are too long")
        return plain


class SpdyServer:
    """A parser of the bytes of the API server: it finds the output of a session."""

    def __init__(self, streams: SpdyStreams) -> None:
        self._streams = streams
        self.cutter = Cutter(self._begin, self._payload)
        self._stream = 0
        """The number of the stream of the current data frame; 0 if it carries no output."""
        self._outputs: list[tuple[int, bytes]] = []

    def feed(self, data: bytes) -> Parsed:
        """Return the bytes to forward, and the output in them. Raises BadFrames."""
        forwarded = self.cutter.feed(data)
        outputs, self._outputs = self._outputs, []
        return Parsed(forwarded, outputs)

    def notice(self) -> Notice:
        """Return the function that makes the bytes of a notice to the user from a text.

        The function is valid only until we forward more bytes.
        """
        return partial(_shown, self._streams, self.cutter.left, bool(self._stream))

    def _begin(self, buffer: bytes, at: int) -> Frame | None:
        found = _header(buffer, at)
        if found is None:
            return None
        kind, stream, length = found
        is_output = not kind and (stream in self._streams.stdout or stream in self._streams.stderr)
        self._stream = stream if is_output else 0
        return Frame(_HEADER, length)

    def _payload(self, piece: bytes, left: int) -> None:
        if self._stream and piece:
            self._outputs.append((self._stream, piece))


def _shown(streams: SpdyStreams, left: int, is_output: bool, text: bytes) -> bytes:
    """Return frames that show *text*; empty if that is impossible.

    *left* bytes of the current frame are still to come; *is_output* says whether that frame carries output.
    """
    ids = streams.stderr or streams.stdout
    if not ids or left > MOST_FILLED or (left and not is_output):
        return b""
    rest = text[left:]
    frame = max(ids).to_bytes(4) + len(rest).to_bytes(4) + rest if rest else b""
    return text[:left].ljust(left) + frame


def _header(buffer: bytes, at: int) -> tuple[int, int, int] | None:
    """Return the type of a control frame, the stream of a data frame, and the length of the payload.

    The type is 0 for a data frame, and the stream is 0 for a control frame. Return None if the eight bytes at the
    position *at* are incomplete. Raises BadFrames.
    """
    if len(buffer) < at + _HEADER:
        return None
    first, length = int.from_bytes(buffer[at : at + 4]), int.from_bytes(buffer[at + 5 : at + _HEADER])
    if not first >> 31:
        if not first:
            raise BadFrames("frame", "a data frame belongs to no stream")
        return 0, first, length
    version, kind = first >> 16 & 0x7FFF, first & 0xFFFF
    if not version or not kind:
        raise BadFrames("frame", "a control frame has no version or no type")
    return kind, 0, length


def _settings(buffer: bytes, at: int, length: int) -> Frame | None:
    """Return the frame with settings at the position *at*; None if its first bytes are missing. Raises BadFrames.

    The first bytes tell the number of settings, of which each has eight bytes.
    """
    if length < 4:
        raise BadFrames("length", "a frame with settings has a wrong length")
    start = at + _HEADER
    if len(buffer) < start + 4:
        return None
    if length != 4 + 8 * int.from_bytes(buffer[start : start + 4]):
        raise BadFrames("length", "a frame with settings has a wrong length")
    return Frame(_HEADER, length)


def _stream_types(block: bytes) -> bytes:
    """Return the value of the header `streamtype` in a header block; empty if it has none. Raises BadFrames.

    A header can have several values, and receivers look at the first one.
    """
    words: list[bytes] = []
    at = 4
    count = int.from_bytes(block[:at])
    while len(words) < 2 * count and at + 4 <= len(block):
        end = at + 4 + int.from_bytes(block[at : at + 4])
        words.append(block[at + 4 : end])
        at = end
    names = [name.lower() for name in words[::2]]
    if len(words) != 2 * count or at != len(block) or len(block) < 4 or len({*names}) < len(names):
        raise BadFrames("headers", "the headers of a stream are malformed")
    return next((value.partition(b"\0")[0] for name, value in zip(names, words[1::2], strict=True)
                 if name == b"streamtype"), b"")  # fmt: skip
