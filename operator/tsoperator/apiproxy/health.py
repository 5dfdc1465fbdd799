"""Probes and metrics over HTTP: /healthz, /readyz and /metrics. Each connection is for one request."""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable
from typing import Final

_MOST_BYTES: Final = 16 << 10
_TEXT: Final = "text/plain; charset=utf-8"
_METRICS: Final = "text/plain; version=0.0.4; charset=utf-8"

Problem = Callable[[], Awaitable[str]]
"""A function that describes a problem in words; it returns an empty string if there is none."""


class HealthPages:
    """Serves probes and metrics. A request has to come within *patience* seconds.

    ``/healthz`` always answers 200, which shows that the event loop runs. ``/readyz`` answers 503 with the text that
    *problem* returns, or 200 if that text is empty. ``/metrics`` answers with the text that *metrics* returns.
    """

    def __init__(self, problem: Problem, metrics: Callable[[], str], patience: float = 5.0) -> None:
        self._problem = problem
        self._metrics = metrics
        self._patience = patience

    async def serve(self, listener: socket.socket) -> None:
        """Serve on *listener*, a listening socket, until cancelled."""
        async with await asyncio.start_server(self._answer, sock=listener, limit=_MOST_BYTES) as server:
            await server.serve_forever()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        broken = (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError)
        with contextlib.suppress(*broken), contextlib.closing(writer):
            async with asyncio.timeout(self._patience):
                head = await reader.readuntil(b"\r\n\r\n")
                status, body, kind = await self._page(head.split(b" ", 2)[1:2])
                lines = [
                    f"HTTP/1.1 {status}", f"Content-Type: {kind}", f"Content-Length: {len(body.encode())}",
                    "Connection: close", "", body,
                ]  # fmt: skip
                writer.write("\r\n".join(lines).encode())
                await writer.drain()

    async def _page(self, target: list[bytes]) -> tuple[str, str, str]:
        """Return the status, the text and the media type of the page at *target*."""
        match target:
            case [b"/healthz"]:
                return "200 OK", "ok\n", _TEXT
            case [b"/readyz"]:
                problem = await self._problem()
                return ("503 Service Unavailable", f"{problem}\n", _TEXT) if problem else ("200 OK", "ok\n", _TEXT)
            case [b"/metrics"]:
                return "200 OK", self._metrics(), _METRICS
        return "404 Not Found", "not found\n", _TEXT
