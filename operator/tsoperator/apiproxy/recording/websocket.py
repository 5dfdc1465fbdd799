"""Sessions by WebSocket (RFC 6455) with the channels of Kubernetes: the output and the sizes of the terminal in them.

The first byte of a message is its channel. In the subprotocols that are called `base64`, messages are text: the digit
of the channel, and the rest in base64.
"""

import binascii
from functools import partial
from typing import Final

from tsoperator.apiproxy.errors import BadFrames
from tsoperator.apiproxy.recording.frames import MOST_FILLED, MOST_SIZE, Cutter, Frame, Notice, Parsed, Size, read_sizes

STDOUT: Final = 1
STDERR: Final = 2
RESIZE: Final = 4

_CONTINUATION: Final = 0
_TEXT: Final = 1
_BINARY: Final = 2
_CONTROL: Final = frozenset({8, 9, 10})
_FINAL: Final = 0x80
_EXTENSIONS: Final = 0x70
_MASKED: Final = 0x80
_MOST_PAYLOAD: Final = 32 << 20
_NO_CHANNEL: Final = -1


class _Message:
    """The message of which one direction has sent only a part so far."""

    def __init__(self, is_text: bool) -> None:
        self.is_text = is_text
        self.channel = _NO_CHANNEL
        self._coded = b""

    def decoded(self, piece: bytes) -> bytes:
        """Return the decoded bytes in a *piece* of the message. Raises BadFrames.

        In base64, a group of four characters can end in the next piece. Its bytes are returned with that piece.
        """
        if piece and self.channel == _NO_CHANNEL:
            self.channel = piece[0] - ord("0") if self.is_text else piece[0]
            piece = piece[1:]
        if not self.is_text or self.channel not in {STDOUT, STDERR, RESIZE}:
            return piece
        coded = self._coded + piece
        whole = len(coded) - len(coded) % 4
        self._coded = coded[whole:]
        try:
            return binascii.a2b_base64(coded[:whole], strict_mode=True)
        except binascii.Error as error:
            raise BadFrames("base64", "a text message isn't in base64") from error

    def end(self) -> None:
        """End the message. Raises BadFrames."""
        if self._coded:
            raise BadFrames("base64", "a text message isn't in base64")


class WebSocketFrames:
    """Parses the bytes of a client to find the sizes of its terminal, or those of the API server to find the output."""

    def __init__(self, *, is_client: bool, has_terminal: bool) -> None:
        self._has_terminal = has_terminal
        self._channels = ({RESIZE} if has_terminal else set()) if is_client else {STDOUT, STDERR}
        self.cutter = Cutter(self._begin, self._payload)
        self._message: _Message | None = None
        self._is_control = False
        self._is_final = True
        self._mask = b""
        self._resize = bytearray()
        self._outputs: list[tuple[int, bytes]] = []
        self._sizes: list[Size] = []

    def feed(self, data: bytes) -> Parsed:
        """Return the bytes to forward, and the output and the sizes in them. Raises BadFrames."""
        forwarded = self.cutter.feed(data)
        outputs, self._outputs = self._outputs, []
        sizes, self._sizes = self._sizes, []
        return Parsed(forwarded, outputs, sizes)

    def notice(self) -> Notice:
        """Return the function that makes the bytes of a notice to the user from a text.

        The function is valid only until we forward more bytes.
        """
        left, message = self.cutter.left, self._message
        if message and (message.is_text or message.channel not in self._channels):
            return _nothing
        if left > MOST_FILLED or (left and (self._is_control or self._mask or not message)):
            return _nothing
        goes_on = message is not None and not (left and self._is_final)
        return partial(_shown, left, goes_on, STDOUT if self._has_terminal else STDERR)

    def _begin(self, buffer: bytes, at: int) -> Frame | None:
        if len(buffer) < at + 2:
            return None
        first, second = buffer[at], buffer[at + 1]
        if first & _EXTENSIONS:
            raise BadFrames("extension", "a frame uses an extension")
        wide = {126: 2, 127: 8}.get(second & 0x7F, 0)
        mask = 4 if second & _MASKED else 0
        header = 2 + wide + mask
        if len(buffer) < at + header:
            return None
        length = int.from_bytes(buffer[at + 2 : at + 2 + wide]) if wide else second & 0x7F
        if length > _MOST_PAYLOAD:
            raise BadFrames("long", "a frame has more than 32 MiB")
        self._mask = buffer[at + header - mask : at + header]
        self._is_control = first & 0x0F in _CONTROL
        if not self._is_control:
            self._is_final = bool(first & _FINAL)
            self._begin_data(first & 0x0F, length)
        return Frame(header, length)

    def _begin_data(self, opcode: int, length: int) -> None:
        """Begin a data frame, and a message if it is the first frame of one. Raises BadFrames."""
        if opcode not in {_CONTINUATION, _TEXT, _BINARY}:
            raise BadFrames("opcode", "a frame has an unknown opcode")
        if (opcode == _CONTINUATION) != (self._message is not None):
            raise BadFrames("fragment", "a frame doesn't continue a message, or begins one within another one")
        if opcode == _CONTINUATION:
            return
        if not length:
            raise BadFrames("channel", "a message doesn't begin with a channel")
        self._message = _Message(opcode == _TEXT)

    def _payload(self, piece: bytes, left: int) -> None:
        message = self._message
        if self._is_control or message is None:
            return
        if self._mask:
            piece, self._mask = _unmasked(piece, self._mask)
        data = message.decoded(piece)
        if data and message.channel in self._channels:
            self._take(message.channel, data)
        if not left and self._is_final:
            message.end()
            self._message = None
            if self._resize:
                self._sizes += read_sizes(self._resize)
                self._resize.clear()

    def _take(self, channel: int, data: bytes) -> None:
        if channel != RESIZE:
            self._outputs.append((channel, data))
        elif len(self._resize) + len(data) > MOST_SIZE:
            raise BadFrames("size", "a message about the size of the terminal is too long")
        else:
            self._resize += data


def _nothing(_: bytes) -> bytes:
    return b""


def _shown(left: int, goes_on: bool, channel: int, text: bytes) -> bytes:
    """Return frames that show *text*.

    *left* bytes of the current frame are still to come. *goes_on* says whether more frames of its message follow.
    """
    filled, rest = text[:left].ljust(left), text[left:]
    if goes_on:
        return filled + _server_frame(_FINAL | _CONTINUATION, rest)
    return filled + (_server_frame(_FINAL | _BINARY, bytes([channel]) + rest) if rest else b"")


def _unmasked(piece: bytes, mask: bytes) -> tuple[bytes, bytes]:
    """Return *piece* without its *mask*, and the mask for the next piece of the same payload."""
    length, turned = len(piece), len(piece) % 4
    key = (mask * (length // 4 + 1))[:length]
    plain = (int.from_bytes(piece) ^ int.from_bytes(key)).to_bytes(length)
    return plain, mask[turned:] + mask[:turned]


def _server_frame(first: int, payload: bytes) -> bytes:
    """Return a frame whose first byte is *first*, with a *payload* of less than 64 KiB."""
    length = len(payload)
    return bytes([first, length] if length < 126 else [first, 126, *length.to_bytes(2)]) + payload
