"""Makes GET requests over HTTP/1.1 (RFC 9112). Nothing more is needed to follow ConfigMaps.

An HTTP framework would take a fifth of this process's memory. A connection of this client serves one request after
another, as long as each response has been read to its end.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from urllib.parse import urlencode, urlsplit

from tsnameserver.errors import ApiError

_READ_BYTES = 64 << 10
_Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Response:
    """A response whose head has been read."""

    def __init__(self, reader: asyncio.StreamReader, status: int, headers: Mapping[str, str]) -> None:
        self.status = status
        self.reusable = False
        """True once the response has been read to its end, if the connection can serve another request."""
        self._reader = reader
        self._headers = headers

    async def read(self) -> bytes:
        """Return the whole body; raises ApiError, OSError and ValueError."""
        return b"".join([part async for part in self.parts()])

    async def parts(self) -> AsyncIterator[bytes]:
        """Yield the parts of the body as they arrive; raises ApiError, OSError and ValueError."""
        if self._headers.get("transfer-encoding", "").lower() == "chunked":
            while size := int((await _read_line(self._reader)).partition(b";")[0], 16):
                async for part in self._parts_of(size):
                    yield part
                if await _read_line(self._reader):
                    raise ApiError("a chunk of a response is longer than it says")
            while await _read_line(self._reader):
                continue  # a trailer
        elif "content-length" in self._headers:
            async for part in self._parts_of(int(self._headers["content-length"])):
                yield part
        else:
            while part := await self._reader.read(_READ_BYTES):
                yield part
            return
        self.reusable = self._headers.get("connection", "").lower() != "close"

    async def _parts_of(self, size: int) -> AsyncIterator[bytes]:
        while size > 0:
            part = await self._reader.read(min(size, _READ_BYTES))
            if not part:
                raise ApiError("the connection ended before a response did")
            size -= len(part)
            yield part


class HttpGet:
    """A client of one *server*. It connects when it needs a connection."""

    def __init__(self, server: str, tls: ssl.SSLContext | None, *, connect_seconds: float) -> None:
        """Take the URL of *server*, and the *tls* settings if it is an https URL."""
        parts = urlsplit(server)
        self._address = parts.hostname, parts.port or (443 if tls else 80)
        self._authority = parts.netloc.rpartition("@")[2]
        self._prefix = parts.path.rstrip("/")
        self._tls = tls
        self._connect_seconds = connect_seconds
        self._idle: _Streams | None = None

    @asynccontextmanager
    async def get(
        self, path: str, parameters: Mapping[str, str], headers: Mapping[str, str]
    ) -> AsyncIterator[Response]:
        """Send a GET request for *path* and yield the response; raises ApiError, OSError and ValueError."""
        lines = [f"GET {self._prefix}{path}?{urlencode(parameters)} HTTP/1.1", f"Host: {self._authority}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        reader, writer = self._idle or await self._connected()
        self._idle = None
        try:
            writer.write("\r\n".join([*lines, "", ""]).encode("latin-1"))
            await writer.drain()
            response = await _read_head(reader)
            yield response
            if response.reusable:
                self._idle = reader, writer
        finally:
            if self._idle is None:
                writer.transport.abort()

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._idle is not None:
            self._idle[1].transport.abort()

    async def _connected(self) -> _Streams:
        async with asyncio.timeout(self._connect_seconds):
            return await asyncio.open_connection(*self._address, ssl=self._tls, limit=_READ_BYTES)


async def _read_head(reader: asyncio.StreamReader) -> Response:
    version, _, rest = (await _read_line(reader)).partition(b" ")
    if not version.startswith(b"HTTP/1."):
        raise ApiError("the server doesn't speak HTTP")
    headers = {}
    while line := await _read_line(reader):
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.lower()] = value.strip()
    return Response(reader, int(rest[:3]), headers)


async def _read_line(reader: asyncio.StreamReader) -> bytes:
    """Return a line without its end; raises ApiError, OSError, and ValueError if the line is too long."""
    line = await reader.readline()
    if not line.endswith(b"\n"):
        raise ApiError("the connection ended before a response did")
    return line.rstrip(b"\r\n")
