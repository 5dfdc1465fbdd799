"""TLS connections to the API server, and the files that they need: the CA's certificate and our token.

The TLS library works on buffers here (`ssl.SSLObject`), and `SocketStream` moves the bytes. This costs 23 KB a
connection, where TLS of asyncio costs 289 KB. uvloop's TLS loses bytes if the peer closes while nobody reads.
"""

import asyncio
import contextlib
import os
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Final, Generic, TypeVar

from tsoperator.apiproxy.errors import ApiServerUnreachable
from tsoperator.apiproxy.stream import SocketStream

_RECORD: Final = 16 << 10
"""The most bytes that we give to the TLS library at once: its buffers grow with them and never shrink again."""
_KEEPALIVE: Final = {socket.TCP_KEEPIDLE: 30, socket.TCP_KEEPINTVL: 10, socket.TCP_KEEPCNT: 3}
"""The socket options by which the kernel probes a silent connection to the API server: after how many seconds first, at
which interval, and how often until it gives up."""

_T = TypeVar("_T")


class TlsStream:
    """The stream of bytes from the API server and to it, by TLS. One task can read while another one writes."""

    __slots__ = ("_ended", "_incoming", "_outgoing", "_stream", "_tls")

    def __init__(self, stream: SocketStream, context: ssl.SSLContext, server: str) -> None:
        self._stream = stream
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=server)
        self._ended = False

    async def shake_hands(self) -> None:
        """Agree on keys, and check the server's certificate. Raises OSError, of which ssl.SSLError is one."""
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                await self._flush()
                await self._receive()
            else:
                await self._flush()
                return

    async def read(self) -> bytes:
        """Return some bytes; empty at the end of the stream. Raises OSError. A cancelled read loses no bytes.

        An end without close_notify is no error: the length of an answer shows whether the answer is complete.
        """
        data = b""
        while not data and not self._ended:
            data = self._decrypted(await self._stream.read())
        return data

    async def write(self, data: bytes) -> None:
        """Send *data*, as fast as the server takes it. Raises OSError."""
        for start in range(0, len(data), _RECORD):
            self._tls.write(memoryview(data)[start : start + _RECORD])
            await self._flush()

    async def end(self) -> None:
        """Tell the server that no more bytes come. The server can still send."""
        self._say_goodbye()
        with contextlib.suppress(OSError):  # the server has closed the connection already
            await self._flush()
        self._stream.end()

    def close(self) -> None:
        """Close the connection."""
        self._say_goodbye()
        self._stream.close(self._outgoing.read())

    def is_idle(self) -> bool:
        """Tell whether the connection is open, and the server has sent no bytes since its last answer."""
        try:
            came = self._stream.read_now()
            surplus = came is not None and bool(self._decrypted(came))
        except OSError:
            return False
        return not surplus and not self._ended

    def _say_goodbye(self) -> None:
        with contextlib.suppress(ssl.SSLError):  # it asks for the server's own close_notify, which we don't need
            self._tls.unwrap()

    async def _receive(self) -> None:
        data = await self._stream.read()
        if data:
            self._incoming.write(data)
        else:
            self._incoming.write_eof()

    async def _flush(self) -> None:
        await self._stream.write(self._outgoing.read())

    def _decrypted(self, received: bytes) -> bytes:
        """Decrypt *received*, and return the data of all TLS records that are complete now.

        So no data stays in the TLS library. Empty *received* means that the server sends no more.
        """
        pieces: list[bytes] = []
        for start in range(0, len(received), _RECORD):
            self._incoming.write(memoryview(received)[start : start + _RECORD])
            self._read_records(pieces)
        if not received:
            self._incoming.write_eof()
            self._read_records(pieces)
        return b"".join(pieces)

    def _read_records(self, pieces: list[bytes]) -> None:
        with contextlib.suppress(ssl.SSLWantReadError):
            while not self._ended:
                try:
                    data = self._tls.read(_RECORD)
                except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                    data = b""
                self._ended = not data
                pieces.append(data)


class ApiServer:
    """The API server at *host* and *port*, and the files with the CA's certificate and with our token.

    Without *token*, requests get no token of ours. At each use of a file, we test whether it has changed, and if so, we
    read it again. So we need no timer, and no request gets a token that has been replaced. A test costs two
    microseconds. A connection must be ready for requests within *patience* seconds.
    """

    def __init__(self, host: str, port: int, ca: Path, token: Path | None, patience: float = 10.0) -> None:
        self._host = host
        self._port = port
        self._patience = patience
        self._context = _File(ca, _context)
        self._token = _File(token, _token) if token else None

    async def connect(self) -> TlsStream:
        """Return a new connection. Raises ApiServerUnreachable."""
        try:
            context = self._context.value()
            async with asyncio.timeout(self._patience):
                return await self._connect(context)
        except TimeoutError:
            raise ApiServerUnreachable(f"no connection within {self._patience:g} s") from None
        except (OSError, ValueError) as error:
            raise ApiServerUnreachable(_words(error)) from error

    def token(self) -> str:
        """Return our token; empty if we have none to send. Raises ApiServerUnreachable."""
        if self._token is None:
            return ""
        try:
            return self._token.value()
        except (OSError, ValueError) as error:
            raise ApiServerUnreachable(_words(error)) from error

    def problem(self) -> str:
        """Describe the fault of the files; empty if the files have none."""
        try:
            self._context.value()
            self.token()
        except (ApiServerUnreachable, OSError, ValueError) as error:
            return _words(error)
        return ""

    async def _connect(self, context: ssl.SSLContext) -> TlsStream:
        loop = asyncio.get_running_loop()
        failure: OSError = OSError("it has no address")
        for family, kind, protocol, _, address in await loop.getaddrinfo(
            self._host, self._port, type=socket.SOCK_STREAM
        ):
            connecting = socket.socket(family, kind, protocol)
            try:
                _set_options(connecting)
                await loop.sock_connect(connecting, address)
                stream = TlsStream(SocketStream(connecting), context, self._host)
                await stream.shake_hands()
            except OSError as error:
                connecting.close()
                failure = error
            except BaseException:
                connecting.close()
                raise
            else:
                return stream
        raise failure


class _File(Generic[_T]):
    """The content of a file, which is read again whenever somebody has replaced or written the file."""

    def __init__(self, path: Path, parse: Callable[[str], _T]) -> None:
        self._path = path
        self._parse = parse
        self._read: tuple[tuple[int, int, int], _T] | None = None

    def value(self) -> _T:
        """Return the present content of the file. Raises OSError or ValueError."""
        status = self._path.stat()
        version = (status.st_ino, status.st_size, status.st_mtime_ns)
        if self._read is None or self._read[0] != version:
            self._read = version, self._parse(self._path.read_text())
        return self._read[1]


def _context(certificates: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=certificates)
    context.set_alpn_protocols(["http/1.1"])
    return context


def _token(text: str) -> str:
    token = text.strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise ValueError("the file with the token holds no token")
    return token


def _set_options(connecting: socket.socket) -> None:
    connecting.setblocking(False)
    connecting.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connecting.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEPALIVE.items():
        connecting.setsockopt(socket.IPPROTO_TCP, option, value)


def _words(error: Exception) -> str:
    """Describe *error* without any part of a file's text, because the text can be a token."""
    match error:
        case ssl.SSLCertVerificationError():
            return f"its certificate is not accepted: {error.verify_message}"
        case ssl.SSLError():
            return f"TLS failed: {error.reason or type(error).__name__}"
        case OSError() if error.errno:
            return f"{os.strerror(error.errno)}{f': {error.filename}' if error.filename else ''}"
        case UnicodeDecodeError():
            return "a file is not text"
    return str(error)
