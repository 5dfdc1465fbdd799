"""Answers by TCP (RFC 7766): connections in bounds of number and time, each with as many queries as it likes."""

import asyncio
import contextlib
import errno
import logging
import socket
from dataclasses import dataclass
from functools import partial

from tsnameserver.answer import answer, failure
from tsnameserver.zone import Serving

log = logging.getLogger(__name__)

_TRANSIENT = frozenset({
    errno.ECONNABORTED, errno.EPROTO, errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EPERM,
    errno.ENETDOWN, errno.ENETUNREACH, errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENOPROTOOPT, errno.EOPNOTSUPP,
})  # fmt: skip
"""Errors of accept that pass: of one connection, of the network, or for want of something (accept(2))."""


@dataclass(frozen=True, slots=True)
class TcpLimits:
    """Bounds on what clients may hold; seconds."""

    connections: int = 1000
    """Past this the connection that has been silent longest is closed."""
    idle: float = 10.0
    read: float = 5.0
    write: float = 5.0
    close: float = 0.2
    accept_pause: float = 0.1


class TcpServer:
    """Answers the connections to one listening socket."""

    def __init__(self, listener: socket.socket, serving: Serving, limits: TcpLimits | None = None) -> None:
        self._listener = listener
        self._serving = serving
        self._limits = limits or TcpLimits()
        self._connections: dict[asyncio.StreamWriter, None] = {}
        """Those that are open; the one that has been silent longest comes first."""
        self.failures = 0
        """Queries that couldn't be answered."""

    async def serve(self) -> None:
        """Accept and answer until cancelled."""
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as group:
            while True:
                try:
                    accepted, _ = await loop.sock_accept(self._listener)
                except OSError as error:
                    if error.errno not in _TRANSIENT:
                        raise
                    log.warning("tcp: accepting: %s", error)
                    await asyncio.sleep(self._limits.accept_pause)
                    continue
                task = group.create_task(self._converse(accepted))
                task.add_done_callback(partial(_close_socket, accepted))

    async def _converse(self, accepted: socket.socket) -> None:
        """Answer one client until it goes, is silent for too long or asks what has no answer."""
        try:
            reader, writer = await asyncio.open_connection(sock=accepted)
        except OSError:
            return  # it has gone already
        self._connections[writer] = None
        if len(self._connections) > self._limits.connections:
            next(iter(self._connections)).transport.abort()
        try:
            while await self._exchange(reader, writer):
                self._connections[writer] = self._connections.pop(writer)
        except (OSError, asyncio.IncompleteReadError):  # reset, ended half-way, or out of time
            log.debug("tcp: a connection ended early")
        finally:
            self._connections.pop(writer)
            await self._close(writer)

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one query; returns False where the conversation is over."""
        async with asyncio.timeout(self._limits.idle):
            prefix = await reader.read(1)
        if not prefix:
            return False
        async with asyncio.timeout(self._limits.read):
            length = int.from_bytes(prefix + await reader.readexactly(1), "big")
            query = await reader.readexactly(length)
        response = self._response(query)
        if response is None:
            return False
        writer.write(len(response).to_bytes(2, "big") + response)
        async with asyncio.timeout(self._limits.write):
            await writer.drain()
        return True

    def _response(self, query: bytes) -> bytes | None:
        try:
            return answer(query, self._serving.zone, stream=True)
        except Exception:
            self.failures += 1
            log.exception("tcp: on %s", query[:512].hex())
            return failure(query)

    async def _close(self, writer: asyncio.StreamWriter) -> None:
        """Close after what is written has gone out, or without it where that takes too long."""
        writer.close()
        with contextlib.suppress(OSError):  # reset by the client, or out of time
            async with asyncio.timeout(self._limits.close):
                await writer.wait_closed()
        writer.transport.abort()


def _close_socket(accepted: socket.socket, _: asyncio.Task[None]) -> None:
    """Close what a conversation has left open, be it that it was cancelled before it began."""
    accepted.close()
