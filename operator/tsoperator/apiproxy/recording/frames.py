"""The common parts of the parsers of sessions: cutting a stream into frames, and reading sizes of terminals."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tsoperator.apiproxy.errors import BadFrames

PIECE: Final = 16 << 10
"""The most bytes that a parser gets at once. In the JSON of a recording, they become at most six times as many."""
MOST_SIZE: Final = 4096
"""The most bytes of a message about the size of a terminal."""
MOST_FILLED: Final = 64 << 10
"""The most bytes that we add to an incomplete frame to show the user a text. If more are missing, we show no text."""


@dataclass(frozen=True, slots=True)
class Size:
    """The size of a terminal, in characters."""

    width: int
    height: int


@dataclass(frozen=True, slots=True)
class Parsed:
    """The result of parsing some bytes of a session.

    *outputs* are pieces of output, each with the number of its stream. *sizes* are new sizes of the terminal. After the
    outputs and the sizes are recorded, we can forward the *forwarded* bytes.
    """

    forwarded: bytes
    outputs: Sequence[tuple[int, bytes]] = ()
    sizes: Sequence[Size] = ()


Notice = Callable[[bytes], bytes]
"""A function that returns the bytes which show a text to the user; empty if that is impossible. The bytes must be sent
after all forwarded bytes."""


@dataclass(frozen=True, slots=True)
class Frame:
    """The lengths of a frame's *header* and of its *payload*, in bytes."""

    header: int
    payload: int


class Cutter:
    """Cuts a stream of bytes into frames, whose payloads can come in pieces.

    We call *begin* with a buffer and the position of a frame in this buffer: *begin* returns the frame, or None if
    bytes of the frame's header are missing. We call *payload* with each piece of a payload, and with the number of
    bytes of the payload that follow. For an empty payload, we call *payload* with an empty piece. Both functions can
    raise BadFrames.
    """

    def __init__(self, begin: Callable[[bytes, int], Frame | None], payload: Callable[[bytes, int], None]) -> None:
        self._begin = begin
        self._payload = payload
        self._held = b""
        self.left = 0
        """The number of bytes of the current frame that are still to come."""

    @property
    def held(self) -> bytes:
        """Return the bytes that wait for the rest of a header."""
        return self._held

    def release(self) -> bytes:
        """Return the bytes that wait for the rest of a header, and forget them. After this, parse no more bytes."""
        held, self._held = self._held, b""
        return held

    def feed(self, data: bytes) -> bytes:
        """Parse *data*, and return the bytes to forward: all but an incomplete header at the end. Raises BadFrames."""
        buffer = self._held + data if self._held else data
        at, end = 0, len(buffer)
        while at < end:
            if not self.left:
                frame = self._begin(buffer, at)
                if frame is None:
                    break
                at += frame.header
                self.left = frame.payload
                if not self.left:
                    self._payload(b"", 0)
                    continue
            step = min(self.left, end - at)
            self.left -= step
            if step:
                self._payload(buffer[at : at + step], self.left)
            at += step
        self._held = buffer[at:]
        return buffer[:at] if self._held else buffer


def read_sizes(raw: bytes | bytearray) -> Sequence[Size]:
    """Return the sizes in *raw*, a message of JSON objects about the size of a terminal. Raises BadFrames."""
    sizes = []
    try:
        text, at, decoder = raw.decode().strip(), 0, json.JSONDecoder()
        while at < len(text):
            value, at = decoder.raw_decode(text, at)
            while text[at : at + 1].isspace():
                at += 1
            sizes.append(_size(value))
    except (ValueError, RecursionError) as error:
        raise BadFrames("size", "a message about the size of the terminal is malformed") from error
    return sizes


def _size(value: object) -> Size:
    """Return the size in the JSON object *value*, whose names can be in any case, as in Go. Raises ValueError."""
    if not isinstance(value, dict):
        raise ValueError("a size isn't an object")
    fields = {name.casefold(): number for name, number in value.items()}
    width, height = (_number(fields.get(name)) for name in ("width", "height"))
    return Size(width, height)


def _number(value: object) -> int:
    if value is None:
        return 0
    if type(value) is not int or not 0 <= value <= 65535:
        raise ValueError("a width or height isn't a number of 16 bits")
    return value
