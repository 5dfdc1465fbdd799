"""The connection of a client: keeps the bytes that wait to be processed, and sends errors and other answers of ours."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

from tsoperator.apiproxy.errors import ClientGone
from tsoperator.apiproxy.stream import SocketStream

MOST_AHEAD: Final = 32 << 10
"""The most bytes that we read from a client at once. While so many bytes wait to be processed, we don't read ahead."""
_REASONS: Final = {
    400: "Bad Request", 403: "Forbidden", 413: "Content Too Large", 431: "Request Header Fields Too Large",
    500: "Internal Server Error", 501: "Not Implemented", 502: "Bad Gateway", 503: "Service Unavailable",
    505: "HTTP Version Not Supported",
}  # fmt: skip


class Client:
    """The connection of a client. One task can receive while another one sends."""

    __slots__ = ("_sent", "_stream", "has_ended", "received")

    def __init__(self, stream: SocketStream, sent: Callable[[int], None]) -> None:
        self._stream = stream
        self._sent = sent
        self.received = bytearray()
        """The bytes that have come from the client and wait to be processed."""
        self.has_ended = False
        """Whether the client has said that it sends nothing more."""

    async def receive(self, limit: int = MOST_AHEAD) -> bool:
        """Read some bytes of the client into `received`; return false if it sends no more. Raises ClientGone."""
        try:
            data = await self._stream.read(limit)
        except OSError as error:
            raise ClientGone from error
        self.received += data
        self.has_ended = not data
        return bool(data)

    async def send(self, data: bytes) -> None:
        """Send *data*, as fast as the client takes it. Raises ClientGone."""
        try:
            await self._stream.write(data)
        except OSError as error:
            raise ClientGone from error
        self._sent(len(data))

    async def send_error(self, status: int, message: str, *, closes: bool, with_body: bool = True) -> None:
        """Send the answer that `error_answer` returns for the same arguments. Raises ClientGone."""
        await self.send(error_answer(status, message, closes=closes, with_body=with_body))

    def end(self) -> None:
        """Tell the client that no more bytes come."""
        self._stream.end()

    async def linger(self, seconds: float) -> None:
        """Tell the client that no more bytes come, and for some *seconds* drop the bytes that it still sends.

        If we closed the connection before we had read these bytes, the kernel would reset it, and the client could lose
        the end of our answer. Raises ClientGone.
        """
        self.end()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not self.has_ended:
                    self.received = bytearray()
                    await self.receive()


def error_answer(status: int, message: str, *, closes: bool, with_body: bool = True) -> bytes:
    """Return the bytes of an answer of our own, whose body is *message* as a line of plain text.

    With *closes*, the answer says that the connection ends. Without *with_body*, only the head is returned.
    """
    body = f"{message}\n".encode()
    lines = [
        f"HTTP/1.1 {status} {_REASONS[status]}",
        "Content-Type: text/plain; charset=utf-8",
        "X-Content-Type-Options: nosniff",
        f"Content-Length: {len(body)}",
        *(["Connection: close"] if closes else []),
        "\r\n",
    ]
    return "\r\n".join(lines).encode() + (body if with_body else b"")
