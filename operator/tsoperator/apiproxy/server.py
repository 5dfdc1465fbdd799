"""The listeners of the API server proxy. The whole tailnet can reach them, so their connections have limits."""

import asyncio
import errno
import logging
import socket
import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tsoperator.apiproxy.client import error_answer
from tsoperator.apiproxy.session import Session, Shared
from tsoperator.apiproxy.stream import SocketStream

log = logging.getLogger(__name__)

_TRANSIENT: Final = frozenset({
    errno.ECONNABORTED, errno.EPROTO, errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EPERM,
    errno.ENETDOWN, errno.ENETUNREACH, errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENOPROTOOPT, errno.EOPNOTSUPP,
})  # fmt: skip
"""Errors of accept after which we try again: they concern one connection or the network, or show a lack of resources
(accept(2))."""
_TAILSCALED: Final = "127.0.0.1"
"""The address from which tailscaled connects."""
_TOO_MANY: Final = error_answer(503, "this proxy has too many open connections", closes=True)


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The limits on the connections that the proxy accepts."""

    all: int = 4000
    """The greatest number of connections. An idle connection takes 50 KB of memory."""
    caller: int = 1000
    """The greatest number of connections of one address. A program can need hundreds, to watch as many kinds.

    An address also gets no more connections once it has as many as are still free for all addresses. So a few devices
    can't take all connections."""
    turned_away: int = 100
    """The greatest number of refused connections that stay open until their clients have got the answer.

    These are connections of addresses that have too many. They count among all connections, so without this limit one
    device could keep out all others."""
    accept_pause: float = 0.1
    """The seconds for which the proxy accepts no connections after a lack of resources."""


class ProxyServer:
    """Accepts and serves the connections to some listening sockets."""

    def __init__(self, shared: Shared, limits: ConnectionLimits | None = None) -> None:
        self._shared = shared
        self._limits = limits or ConnectionLimits()
        self._shares: Counter[str] = Counter()
        """The number of open connections of each caller's address."""
        self._turned_away = 0

    async def serve(self, listener: socket.socket, plain: Sequence[socket.socket] = ()) -> None:
        """Serve until cancelled. Connections to the sockets in *plain* have no TLS.

        Raises OSError if no connection can be accepted any more.
        """
        async with asyncio.TaskGroup() as group:
            group.create_task(self._accept(listener, group, is_plain=False))
            for each in plain:
                group.create_task(self._accept(each, group, is_plain=True))

    async def _accept(self, listener: socket.socket, group: asyncio.TaskGroup, *, is_plain: bool) -> None:
        loop = asyncio.get_running_loop()
        listener.setblocking(False)
        while True:
            try:
                accepted, address = await loop.sock_accept(listener)
            except OSError as error:
                if error.errno not in _TRANSIENT:
                    raise
                log.warning("accepting: %s", error)
                await asyncio.sleep(self._limits.accept_pause)
                continue
            if address[0] != _TAILSCALED:
                self._shared.counts.refusals["peer"] += 1
                self._shared.notes.note(address[0], "refused: only tailscaled may connect")
                accepted.close()
            elif self._shared.counts.open_connections >= self._limits.all:
                self._shared.counts.refused_connections["all"] += 1
                self._shared.notes.note("a client", f"refused: {self._limits.all} connections are open")
                SocketStream(accepted).close(_TOO_MANY)
            else:
                self._shared.counts.connections += 1
                self._shared.counts.open_connections += 1
                group.create_task(self._serve(accepted, is_plain=is_plain))

    async def _serve(self, accepted: socket.socket, *, is_plain: bool) -> None:
        """Serve a connection. No error in it ends the process."""
        stream = SocketStream(accepted)
        try:
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await self._serve_session(Session(stream, self._shared, is_plain=is_plain))
        except Exception as error:  # noqa: BLE001 (whatever it is, it concerns this connection alone)
            log.error("a connection failed with %s", _without_messages(error))
        finally:
            self._shared.counts.open_connections -= 1
            stream.close()

    async def _serve_session(self, session: Session) -> None:
        if not (source := await session.source()):
            return
        address = source.rpartition(":")[0]
        left = self._limits.all - self._shared.counts.open_connections + 1
        if self._shares[address] >= min(self._limits.caller, left):
            self._shared.counts.refused_connections["caller"] += 1
            self._shared.notes.note(address, f"refused: it has {self._shares[address]} open connections")
            await self._turn_away(session)
            return
        self._shares[address] += 1
        try:
            await session.serve()
        finally:
            self._shares[address] -= 1
            if not self._shares[address]:
                del self._shares[address]

    async def _turn_away(self, session: Session) -> None:
        self._turned_away += 1
        try:
            await session.turn_away(
                "you have too many open connections", lingers=self._turned_away <= self._limits.turned_away
            )
        finally:
            self._turned_away -= 1


def _without_messages(error: BaseException) -> str:
    """Return the type and the traceback of *error* without its message, which can contain a header with a secret."""
    text = f"{type(error).__name__}:\n{''.join(traceback.format_tb(error.__traceback__))}"
    inner = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    return "\n".join([text, *map(_without_messages, inner)])
