"""Answers by TCP (RFC 7766): connections in bounds of number and time, each with as many queries as it likes."""

import asyncio
import contextlib
import errno
import logging
import socket
from dataclasses import dataclass
from functools import partial

from tsnameserver.answer import answer, failure
from tsnameserver.counters import Counts
from tsnameserver.message import SERVFAIL
from tsnameserver.sockets import Endpoint
from tsnameserver.zone import Serving

log = logging.getLogger(__name__)

_TRANSIENT = frozenset({
    errno.ECONNABORTED, errno.EPROTO, errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EPERM,
    errno.ENETDOWN, errno.ENETUNREACH, errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENOPROTOOPT, errno.EOPNOTSUPP,
})  # fmt: skip
"""Errors of accept that pass: of one connection, of the network, or for want of something (accept(2))."""
_READ_AHEAD = 16 << 10
"""Bytes; about as many again are read of a client while its answers are made."""


@dataclass(frozen=True, slots=True)
class TcpLimits:
    """Bounds on what clients may hold; seconds."""

    connections: int = 1000
    """Past this the connection that has been silent longest is closed."""
    client_connections: int = 500
    """Of one address; past this its own connection that has been silent longest is closed. Many clients may be behind
    one address, such as the cluster's DNS."""
    queries: int = 10_000
    """Of one connection, which is closed after the last answer."""
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
        self._connections: dict[asyncio.StreamWriter, str] = {}
        """Those that are open, with the client's address; the one that has been silent longest comes first."""
        self.endpoint = Endpoint(*listener.getsockname()[:2])
        self.counts = Counts()
        self.accepted = 0
        self.evicted = 0
        """Connections closed to make room for others."""
        self.failures = 0
        """Queries that couldn't be answered."""

    @property
    def connections(self) -> int:
        """Tell how many connections are open."""
        return len(self._connections)

    async def serve(self) -> None:
        """Accept and answer until cancelled."""
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as group:
            while True:
                try:
                    accepted, client = await loop.sock_accept(self._listener)
                except OSError as error:
                    if error.errno not in _TRANSIENT:
                        raise
                    log.warning("tcp: accepting: %s", error)
                    await asyncio.sleep(self._limits.accept_pause)
                    continue
                task = group.create_task(self._converse(accepted, client[0]))
                task.add_done_callback(partial(_close_socket, accepted))

    async def _converse(self, accepted: socket.socket, client: str) -> None:
        """Answer one client until it goes, is silent for too long, asks what has no answer or has asked enough."""
        try:
            reader, writer = await asyncio.open_connection(sock=accepted, limit=_READ_AHEAD)
        except OSError:
            return  # it has gone already
        self._connections[writer] = client
        self.accepted += 1
        self._make_room(client)
        try:
            for _ in range(self._limits.queries):
                if not await self._exchange(reader, writer) or writer not in self._connections:
                    break
                self._connections[writer] = self._connections.pop(writer)
            else:
                await self._say_goodbye(reader, writer)
        except (OSError, asyncio.IncompleteReadError):  # reset, ended half-way, or out of time
            log.debug("tcp: a connection ended early")
        finally:
            self._connections.pop(writer, None)
            await self._close(writer)

    def _make_room(self, client: str) -> None:
        """Close the most silent connection of *client* if it has more than its share, else of all if there are more."""
        if len(self._connections) <= min(self._limits.connections, self._limits.client_connections):
            return
        its_own = [writer for writer, owner in self._connections.items() if owner == client]
        if len(its_own) > self._limits.client_connections:
            most_silent = its_own[0]
        elif len(self._connections) > self._limits.connections:
            most_silent = next(iter(self._connections))
        else:
            return
        del self._connections[most_silent]
        self.evicted += 1
        most_silent.transport.abort()

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
            return answer(query, self._serving.zone, self.counts, stream=True)
        except Exception:
            self.failures += 1
            log.exception("tcp: on %s", query[:512].hex())
            response = failure(query)
            self.counts.add_general(response, SERVFAIL)
            return response

    async def _say_goodbye(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Let the client read its last answers: a close with queries unread would reset the connection."""
        writer.write_eof()
        async with asyncio.timeout(self._limits.close):
            while await reader.read(_READ_AHEAD):
                continue

    async def _close(self, writer: asyncio.StreamWriter) -> None:
        """Close after what is written has gone out, or without it where that takes too long."""
        writer.close()
        try:
            async with asyncio.timeout(self._limits.close):
                await writer.wait_closed()
        except TimeoutError:
            with contextlib.suppress(AttributeError):  # asyncio's, where the last byte has just gone out after all
                writer.transport.abort()
        except OSError:
            return  # reset by the client


def _close_socket(accepted: socket.socket, _: asyncio.Task[None]) -> None:
    """Close what a conversation has left open, be it that it was cancelled before it began."""
    accepted.close()
