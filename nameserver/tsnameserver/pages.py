"""Serves pages over HTTP, for probes and metrics.

Each connection carries one request and its response; after that, the server closes it. Kubelets and Prometheus need no
more, and an HTTP framework would take a tenth of this process's memory.
"""

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import NamedTuple

log = logging.getLogger(__name__)


class Page(NamedTuple):
    """The content of a response."""

    text: str
    status: HTTPStatus = HTTPStatus.OK
    content_type: str = "text/plain; charset=utf-8"


Pages = Mapping[str, Callable[[], Page]]
"""The functions that make the pages, by path."""

_HEAD_BYTES = 16 << 10


def probe_pages(healthy: Callable[[], bool], ready: Callable[[], bool]) -> Pages:
    """Return the pages for a kubelet's probes: /healthz and /readyz.

    Their status is 200 if *healthy* or *ready*, respectively, returns True, and 503 otherwise.
    """
    return {
        "/healthz": lambda: _verdict("working", good=healthy()),
        "/readyz": lambda: _verdict("ready", good=ready()),
    }


@dataclass(frozen=True, slots=True)
class PageLimits:
    """The limits on the connections of clients."""

    connections: int = 64
    """The greatest number of connections.

    Beyond this number, the client with the most connections loses its oldest connection, so that a probe gets
    through.
    """
    seconds: float = 5.0
    """The seconds in which a client has to send its request and read the response."""


@asynccontextmanager
async def serving_pages(listener: socket.socket, pages: Pages, limits: PageLimits | None = None) -> AsyncIterator[None]:
    """Serve *pages* on *listener* until the end of the block."""
    converse = partial(_converse, pages, _Clients(limits or PageLimits()))
    server = await asyncio.start_server(converse, sock=listener, limit=_HEAD_BYTES)
    try:
        yield
    finally:
        server.close()


class _Clients:
    """The open connections, by the address of their client."""

    def __init__(self, limits: PageLimits) -> None:
        self.limits = limits
        self._open: dict[str, dict[asyncio.StreamWriter, None]] = {}

    def note(self, writer: asyncio.StreamWriter) -> None:
        """Add a new connection.

        If there are now too many, close a connection of the client with the most connections.
        """
        self._open.setdefault(_client(writer), {})[writer] = None
        if sum(map(len, self._open.values())) > self.limits.connections:
            most = max(self._open.values(), key=len)
            oldest = next(iter(most))
            self.forget(oldest)
            oldest.transport.abort()

    def forget(self, writer: asyncio.StreamWriter) -> None:
        """Remove a connection that is closed."""
        client = _client(writer)
        left = self._open.get(client, {})
        left.pop(writer, None)
        if not left:
            self._open.pop(client, None)


def _client(writer: asyncio.StreamWriter) -> str:
    """Return the address of the client; empty if the client had gone before the server accepted its connection."""
    address: tuple[str, int] = writer.get_extra_info("peername") or ("", 0)
    return address[0]


async def _converse(
    pages: Pages, clients: _Clients, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Answer the one request of a connection, and close the connection."""
    clients.note(writer)
    try:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):  # the client has gone, or takes too long
            async with asyncio.timeout(clients.limits.seconds):
                writer.write(_response(pages, await _head(reader)))
                writer.close()
                await writer.wait_closed()
    finally:
        writer.transport.abort()
        clients.forget(writer)


async def _head(reader: asyncio.StreamReader) -> str:
    """Read the whole head of a request, and return its first line; empty if the head is too long."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        return ""
    return head.partition(b"\r\n")[0].decode("latin-1")


def _response(pages: Pages, request: str) -> bytes:
    method, _, rest = request.partition(" ")
    target, _, version = rest.partition(" ")
    page = pages.get(target.partition("?")[0])
    if not version.startswith("HTTP/1."):
        answer = Page("not a request\n", HTTPStatus.BAD_REQUEST)
    elif method not in {"GET", "HEAD"}:
        answer = Page("only GET and HEAD\n", HTTPStatus.METHOD_NOT_ALLOWED)
    elif page is None:
        answer = Page(f"there are {', '.join(pages)}\n", HTTPStatus.NOT_FOUND)
    else:
        answer = _made(target, page)
    body = answer.text.encode()
    head = (
        f"HTTP/1.1 {answer.status.value} {answer.status.phrase}\r\nContent-Type: {answer.content_type}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + (b"" if method == "HEAD" else body)


def _made(target: str, page: Callable[[], Page]) -> Page:
    try:
        return page()
    except Exception:
        log.exception("the page %s can't be made", target)
        return Page("this page can't be made: the log says why\n", HTTPStatus.INTERNAL_SERVER_ERROR)


def _verdict(what: str, *, good: bool) -> Page:
    return Page(f"{what}\n") if good else Page(f"not {what}\n", HTTPStatus.SERVICE_UNAVAILABLE)
