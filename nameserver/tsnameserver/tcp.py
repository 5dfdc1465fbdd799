"""Answers queries by TCP (RFC 7766). The number of connections, their time and their memory are limited.

Queries that arrive together are answered by one write. The event loop watches one descriptor for all connections,
because a transport of asyncio, or a reader added to its loop, takes about as much time as a whole answer.

Clients take turns, whatever the number of their connections: the server serves one connection of each client, and after
that the next connection of each. At least once a millisecond, the event loop has a turn, so that probes are answered in
time: each probe needs several turns of the loop.
"""

import asyncio
import contextlib
import errno
import logging
import math
import socket
import struct
import sys
import time
from dataclasses import dataclass
from typing import Literal

from tsnameserver.answer import answer, failure
from tsnameserver.counters import Counts
from tsnameserver.message import SERVFAIL
from tsnameserver.querylog import QueryLog
from tsnameserver.readiness import Readiness
from tsnameserver.sockets import Endpoint
from tsnameserver.turns import Turns
from tsnameserver.zone import Serving

log = logging.getLogger(__name__)

_TRANSIENT = frozenset({
    errno.ECONNABORTED, errno.EPROTO, errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EPERM,
    errno.ENETDOWN, errno.ENETUNREACH, errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENOPROTOOPT, errno.EOPNOTSUPP,
})  # fmt: skip
"""Errors of accept after which to try again: of one connection, of the network, or a lack of resources (accept(2))."""
Awaited = Literal["query", "rest", "room", "end"]
"""The event for which a connection waits. An Enum would be slower to compare with.

"query" is the next query, and "rest" is the rest of an incomplete query. "room" is the moment at which more answers can
be sent: the client has read some, or the connection has its turn again. "end" is the moment at which the client closes
the connection, after the final answer.
"""
_READ_AHEAD = 16 << 10
"""The most bytes that are read from a client at once. No more are read until all queries in them are answered."""
_WRITE_AHEAD = 16 << 10
"""The number of bytes of answers that fill a write: the next query waits until these answers have been sent."""
_QUERIES_A_TURN = 64
"""The number of queries of one connection that are answered before another connection has its turn."""
_ACCEPTED_A_TURN = 16
"""The number of connections that are accepted before open connections have their turn."""
_RESET = struct.pack("ii", 1, 0)
"""The value of SO_LINGER with which a close resets the connection, so that the kernel doesn't keep unsent answers."""


@dataclass(frozen=True, slots=True)
class TcpLimits:
    """The limits on the connections of clients. Times are in seconds."""

    connections: int = 1000
    """The greatest number of connections. Beyond this number, the connection that has been silent longest is closed."""
    client_connections: int = 500
    """The greatest number of connections of one client address.

    Beyond this number, the connection of the client that has been silent longest is closed. Many clients can be
    behind one address, such as the cluster's DNS.
    """
    queries: int = 10_000
    """The greatest number of queries on one connection, which is closed after the answer to the last of them."""
    idle: float = 10.0
    read: float = 5.0
    write: float = 5.0
    close: float = 0.2
    accept_pause: float = 0.1
    turn: float = 0.0005
    """The seconds for which connections are served before the event loop has its turn. That turn takes a tenth of the
    time of a connection with one query, so many connections are served in between."""

    def seconds(self, awaited: Awaited) -> float:
        """Return the number of seconds after which a connection that waits for the *awaited* event is closed."""
        match awaited:
            case "query":
                return self.idle
            case "rest":
                return self.read
            case "room":
                return self.write
            case "end":
                return self.close


class TcpServer:
    """Answers the connections to one listening socket."""

    def __init__(
        self,
        listener: socket.socket,
        serving: Serving,
        limits: TcpLimits | None = None,
        queries: QueryLog | None = None,
    ) -> None:
        limits = limits or TcpLimits()
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # connections inherit the listener's options
        if sys.platform == "linux":
            # The kernel forgets answers that a client doesn't take, even if their connection is closed already.
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(1000 * limits.write))
        self._listener = listener
        self._connections: dict[_Connection, None] = {}
        """The open connections; the one that has been silent longest comes first."""
        self._shares: dict[str, int] = {}
        """The number of open connections of each client."""
        self._turns: Turns[str, _Connection | None] = Turns()
        """The connections that are ready, by client. None is the listener, which takes turns like a client named ""."""
        self._listening = False
        self._next_expiry = math.inf
        self._queries = queries or QueryLog()
        self._pause: asyncio.TimerHandle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._all_closed = asyncio.Event()
        self.serving = serving
        self.limits = limits
        self.endpoint = Endpoint(*listener.getsockname()[:2])
        self.counts = Counts()
        self.accepted = 0
        self.evicted = 0
        """The number of connections that were closed to make room for others."""
        self.failures = 0
        """The number of queries that failed with an unforeseen error."""

    @property
    def connections(self) -> int:
        """Return the number of open connections."""
        return len(self._connections)

    async def serve(self) -> None:
        """Accept and answer until cancelled; raises OSError if no connection can be accepted any more."""
        self.loop = asyncio.get_running_loop()
        self._failed = self.loop.create_future()
        self.readiness: Readiness[_Connection | None] = Readiness()
        with contextlib.closing(self.readiness):
            self._accept_again()
            self.loop.add_reader(self.readiness, self._go_on)
            try:
                await self._failed
            finally:
                await self._close_all()
                self.loop.remove_reader(self.readiness)

    def _go_on(self) -> None:
        """Accept, read, answer and close until nothing is left to do, or until the event loop needs its turn."""
        until = time.monotonic() + self.limits.turn
        while ready := self.readiness.ready():
            for each in ready:
                self._turns.add(each.client if each else "", each)
            while self._turns:
                connection = self._turns.take()
                if connection is None:
                    self._accept()
                else:
                    connection.go_on()
                if time.monotonic() >= until:
                    return

    def _accept_again(self) -> None:
        self.readiness.watch(self._listener.fileno(), None)
        self._listening = True

    def _stop_accepting(self) -> None:
        if self._listening:
            self.readiness.forget(self._listener.fileno())
            self._turns.remove("", None)
        self._listening = False

    def _accept(self) -> None:
        """Accept some of the connections that clients have opened."""
        try:
            for _ in range(_ACCEPTED_A_TURN):
                accepted, address = self._listener.accept()
                self._welcome(accepted, address[0])
        except BlockingIOError:
            return  # there are no more
        except OSError as error:
            self._stop_accepting()
            if error.errno not in _TRANSIENT:
                self._failed.set_exception(error)
                return
            log.warning("tcp: accepting: %s", error)
            self._pause = self.loop.call_later(self.limits.accept_pause, self._accept_again)

    def _welcome(self, accepted: socket.socket, client: str) -> None:
        connection = _Connection(self, accepted, client)
        connection.start()
        self._connections[connection] = None
        self._shares[client] = self._shares.get(client, 0) + 1
        self.accepted += 1
        self._make_room(client)

    def _make_room(self, client: str) -> None:
        """If *client* has too many connections, close the one of them that has been silent longest.

        If instead all clients together have too many connections, close the one of all connections that has
        been silent longest.
        """
        if self._shares[client] > self.limits.client_connections:
            most_silent = next(each for each in self._connections if each.client == client)
        elif len(self._connections) > self.limits.connections:
            most_silent = next(iter(self._connections))
        else:
            return
        self.evicted += 1
        most_silent.close()

    def note_answers(self, connection: "_Connection") -> None:
        """Record that *connection* has just got answers, so that it isn't the one that has been silent longest."""
        self._connections[connection] = self._connections.pop(connection)

    def forget(self, connection: "_Connection") -> None:
        """Remove *connection*, which is closed."""
        del self._connections[connection]
        self._turns.remove(connection.client, connection)
        self._shares[connection.client] -= 1
        if not self._shares[connection.client]:
            del self._shares[connection.client]
        if not self._connections:
            self._all_closed.set()

    def expire_at(self, deadline: float) -> None:
        """Schedule a search for expired connections at *deadline*, unless an earlier one is scheduled."""
        if deadline >= self._next_expiry:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._next_expiry = deadline
        self._timer = self.loop.call_at(deadline, self._expire)

    def _expire(self) -> None:
        """Close the connections that have waited until their deadline."""
        for connection in [each for each in self._connections if each.deadline <= self._next_expiry]:
            connection.close()
        self._next_expiry = math.inf
        if self._connections:
            self.expire_at(min(each.deadline for each in self._connections))

    async def _close_all(self) -> None:
        """Answer the received queries; close each connection when its answers are sent, or after the time limit."""
        if self._pause is not None:
            self._pause.cancel()
        self._stop_accepting()
        for connection in list(self._connections):
            connection.finish()
        if self._connections:
            self._all_closed.clear()
            with contextlib.suppress(TimeoutError):  # the code below closes the other connections, with answers unsent
                async with asyncio.timeout(self.limits.close):
                    await self._all_closed.wait()
        for connection in list(self._connections):
            connection.close()
        if self._timer is not None:
            self._timer.cancel()
        self._next_expiry = math.inf

    def respond(self, query: bytes, client: str) -> bytes | None:
        """Return the response to the *query* of *client*; None if there must be none."""
        response = self._response(query)
        if self._queries.sample():
            self._queries.note(client, "tcp", response)
        return response

    def _response(self, query: bytes) -> bytes | None:
        try:
            return answer(query, self.serving.zone, self.counts, stream=True)
        except Exception:
            self.failures += 1
            log.exception("tcp: on %s", query[:512].hex())
            response = failure(query)
            self.counts.add_general(response, SERVFAIL)
            return response


class _Connection:
    """One client's connection: a socket, the bytes received from it, and the bytes that have yet to be sent."""

    __slots__ = ("_awaited", "_finishing", "_left", "_more", "_received", "_server", "_socket", "_unsent",
                 "client", "deadline")  # fmt: skip

    def __init__(self, server: TcpServer, accepted: socket.socket, client: str) -> None:
        self._server = server
        self._socket = accepted
        self._received = b""
        """The bytes of queries that have no answer yet. The last query can be incomplete."""
        self._unsent = b""
        self._left = server.limits.queries
        """The number of queries that are still allowed."""
        self._awaited: Awaited = "query"
        self._finishing = False
        self._more = False
        """True if the latest answers reached the limit of a turn or a write, so some received queries can remain."""
        self.client = client
        self.deadline = math.inf
        """The time, on the event loop's clock, at which the connection is closed if it still waits."""

    def start(self) -> None:
        """Begin to wait for queries."""
        self._server.readiness.watch(self._socket.fileno(), self)
        self._wait_for("query", afresh=True)

    def close(self) -> None:
        """Close the connection now. Answers that aren't sent yet are lost."""
        if self._socket.fileno() < 0:
            return
        if self._awaited == "room":
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._server.readiness.close_socket(self._socket)
        self._server.forget(self)

    def finish(self) -> None:
        """Answer the queries that have come, and close the connection when the answers are sent."""
        self._finishing = True
        if self._awaited != "room":
            self.go_on()
        if self._awaited != "room":
            self.close()

    def go_on(self) -> None:
        """Read, answer and write as much as is possible without waiting."""
        try:
            if self._awaited == "room":
                self._write(self._unsent)
            elif not self._read():
                return
            answered = not self._unsent and self._answer()
            self._wait_for(self._next(), afresh=answered)
        except OSError:  # reset
            log.debug("tcp: a connection ended early")
            self.close()
        except Exception:
            log.exception("tcp: a connection failed")
            self.close()

    def _read(self) -> bool:
        """Read the bytes that have come, and tell whether there are any to answer."""
        try:
            data = self._socket.recv(_READ_AHEAD, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        if not data:
            self.close()
            return False
        if self._awaited == "end":
            return False
        self._received += data
        return True

    def _answer(self) -> bool:
        """Answer the complete queries, up to the limits of one turn and one write; tell whether there were any."""
        respond, received, left = self._server.respond, self._received, self._left
        last = max(left - _QUERIES_A_TURN, 0)
        responses: list[bytes] = []
        at = size = 0
        while left > last and size < _WRITE_AHEAD:
            start = at + 2
            end = start + int.from_bytes(received[at:start], "big")
            if end > len(received):
                break
            response = respond(received[start:end], self.client)
            at = end
            if response is None:
                left = last = 0
                break
            responses += (len(response).to_bytes(2, "big"), response)
            size += len(response)
            left -= 1
        self._left = left
        self._received = received[at:]
        self._more = left > 0 and (left == last or size >= _WRITE_AHEAD)
        if responses:
            self._server.note_answers(self)
            self._write(b"".join(responses))
        return at > 0

    def _write(self, data: bytes) -> None:
        try:
            sent = self._socket.send(data, socket.MSG_DONTWAIT)
        except BlockingIOError:
            sent = 0
        self._unsent = data[sent:]

    def _next(self) -> Awaited:
        if self._unsent or self._more:
            return "room"
        if self._finishing or not self._left:
            return "end"
        return "rest" if self._received else "query"

    def _wait_for(self, awaited: Awaited, *, afresh: bool) -> None:
        """Wait for the *awaited* event. The time limit starts anew if *afresh*, or if another event was awaited."""
        if awaited == self._awaited and not afresh:
            return
        if (awaited == "room") != (self._awaited == "room"):
            self._server.readiness.want(self._socket.fileno(), room=awaited == "room")
        if awaited == "end":
            self._socket.shutdown(socket.SHUT_WR)
        self._awaited = awaited
        self.deadline = self._server.loop.time() + self._server.limits.seconds(awaited)
        self._server.expire_at(self.deadline)
