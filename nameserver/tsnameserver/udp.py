"""Answers queries by UDP. Each socket has a thread that blocks, as an event loop would take twice the time per packet.

If the compiled loop was built, the thread runs this loop, which calls Python for queries that aren't ordinary.
Otherwise the thread receives, answers and sends one packet after the other.
"""

import contextlib
import errno
import logging
import os
import socket
import struct
import sys
import threading
import time
from array import array

from tsnameserver.answer import answer, failure
from tsnameserver.compiled import COMPILED, Loop
from tsnameserver.counters import Counts
from tsnameserver.message import SERVFAIL
from tsnameserver.querylog import QueryLog
from tsnameserver.sockets import IP_PKTINFO, Endpoint, dropped_packets
from tsnameserver.zone import Serving

log = logging.getLogger(__name__)

_MAX_QUERY = 4096
"""The largest number of bytes that are read of a packet. No valid query is longer, so a longer packet is malformed."""
_WAKE_MICROSECONDS = 200_000
"""The time limit of a receive. Without queries, a stop can take as long."""
_DRAIN_PACKETS = 1000
"""About the greatest number of packets that are still answered after a stop."""
_ERRNOS = max(errno.errorcode) + 1
_FULL = (
    "a response is dropped, because the send buffer is full: a client on the local network may be gone, or ask with "
    "a forged address; if this lasts, raise net.core.wmem_max on the node"
)
_ANCILLARY_BYTES = socket.CMSG_SPACE(20)
_Ancillary = list[tuple[int, int, bytes]]


class UdpServer:
    """Answers the packets that arrive at one bound socket. The caller can close the socket after `join`."""

    def __init__(
        self,
        bound: socket.socket,
        serving: Serving,
        queries: QueryLog | None = None,
        *,
        compiled: bool = COMPILED,
        log_seconds: float = 10.0,
    ) -> None:
        """Use a *bound* socket. *queries* logs some queries; failures are logged at most once in *log_seconds*."""
        self._socket = bound
        self._serving = serving
        self._queries = queries or QueryLog()
        self._stopping = threading.Event()
        self._log_seconds = log_seconds
        self._last_logged = float("-inf")
        self.failures = 0
        """The number of packets that couldn't be received, answered or sent."""
        self.unsent = array("Q", bytes(8 * _ERRNOS))
        """The numbers of responses that couldn't be sent, by errno."""
        self.endpoint = Endpoint(*bound.getsockname()[:2])
        self._wildcard = self.endpoint.host in {"0.0.0.0", "::"}
        if self._wildcard:
            _ask_for_destinations(bound)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("@ll", 0, _WAKE_MICROSECONDS))
        self.counts = Counts()
        self._loop: Loop | None = None
        if compiled:
            called = self._respond, self._not_sent, self.counts.fast
            self._loop = Loop(bound.fileno(), serving.index(), *called, self._queries.every)
            serving.feed(self._loop)
        self._thread = threading.Thread(target=self._run, name=f"udp {self.endpoint}", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Tell whether the thread runs."""
        return self._thread.is_alive()

    @property
    def compiled(self) -> bool:
        """Tell whether the compiled loop answers."""
        return self._loop is not None

    def dropped(self) -> int | None:
        """Return how many packets were dropped because the receive buffer was full; None if the system doesn't tell."""
        return dropped_packets(self._socket)

    def stop(self) -> None:
        """Tell the thread to answer the packets that have been received, and to end."""
        self._stopping.set()
        if self._loop is not None:
            self._loop.stop()
        loopback = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.endpoint.host, self.endpoint.host)
        with contextlib.suppress(OSError):  # the thread has ended, or can't be woken but will wake by itself
            self._socket.sendto(b"", socket.MSG_DONTWAIT, (loopback, self.endpoint.port))

    def join(self, seconds: float) -> None:
        """Wait up to *seconds* for the thread to end."""
        self._thread.join(seconds)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._serve()
            except BlockingIOError:
                continue  # no packet came for a while
            except OSError as error:
                self._failed(f"{type(error).__name__}: {error}")
                self._stopping.wait(0.001)  # a permanent error must not keep a processor busy
        self._socket.setblocking(False)
        with contextlib.suppress(OSError):  # BlockingIOError when all packets are answered
            self._drain()

    def _serve(self) -> None:
        """Answer packets until a stop; raises OSError. After an OSError, the method can be called again."""
        if self._loop is not None:
            self._loop.serve(False)
        else:
            while not self._stopping.is_set():
                self._exchange()

    def _drain(self) -> None:
        """Answer the packets that have been received; raises OSError when there are no more."""
        if self._loop is not None:
            self._loop.serve(True)
        else:
            for _ in range(_DRAIN_PACKETS):
                self._exchange()

    def _exchange(self) -> None:
        """Answer one packet from the address to which the client sent it; raises OSError if no packet is received."""
        if self._wildcard:
            query, ancillary, _, client = self._socket.recvmsg(_MAX_QUERY, _ANCILLARY_BYTES)
        else:
            query, client = self._socket.recvfrom(_MAX_QUERY)
        response = self._response(query)
        if self._queries.sample():
            self._queries.note(client[0], "udp", response)
        if response is None:
            return
        try:
            if self._wildcard:
                self._socket.sendmsg((response,), _sources(ancillary), socket.MSG_DONTWAIT, client)
            else:
                self._socket.sendto(response, socket.MSG_DONTWAIT, client)
        except OSError as error:
            self._not_sent(error.errno or 0)

    def _respond(self, query: bytes, client: bytes | None) -> bytes | None:
        """Answer a *query* that the compiled loop leaves to Python; log it if its *client* (a sockaddr) is given."""
        response = self._response(query)
        if client is not None:
            self._queries.note(_host(client), "udp", response)
        return response

    def _response(self, query: bytes) -> bytes | None:
        try:
            return answer(query, self._serving.zone, self.counts)
        except Exception as error:  # noqa: BLE001 - after any error, the next query is answered
            self._failed(f"{type(error).__name__}: {error}, on {query[:512].hex()}")
            response = failure(query)
            self.counts.add_general(response, SERVFAIL)
            return response

    def _not_sent(self, number: int) -> None:
        """Count a response that the system refused to send, with the errno *number*. There is no second try.

        Any client can cause such an error by a source port of 0 (EINVAL). A full connection table or a firewall rule
        causes EPERM. The send buffer is full (EAGAIN) while the kernel keeps responses for neighbours that are gone.
        """
        self.unsent[number] += 1
        self._failed(_FULL if number == errno.EAGAIN else f"a response can't be sent: {os.strerror(number)}")

    def _failed(self, what: str) -> None:
        self.failures += 1
        now = time.monotonic()
        if now - self._last_logged >= self._log_seconds:
            self._last_logged = now
            log.error("udp %s: %s (failure %d)", self.endpoint, what, self.failures)


def _host(address: bytes) -> str:
    """Return the text of the address in a struct sockaddr_in or sockaddr_in6."""
    if int.from_bytes(address[:2], sys.byteorder) == socket.AF_INET6:
        return socket.inet_ntop(socket.AF_INET6, address[8:24])
    return socket.inet_ntop(socket.AF_INET, address[4:8])


def _ask_for_destinations(bound: socket.socket) -> None:
    if bound.family == socket.AF_INET6:
        bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
    else:
        bound.setsockopt(socket.IPPROTO_IP, IP_PKTINFO, 1)


def _sources(ancillary: _Ancillary) -> _Ancillary:
    """Return control data with which the kernel sends the answer from the address to which the query was sent.

    The route decides the interface.
    """
    sources = []
    for level, kind, data in ancillary:
        if level == socket.IPPROTO_IP and kind == IP_PKTINFO:  # interface, local address, destination
            sources.append((level, kind, bytes(4) + data[4:8] + bytes(4)))
        elif level == socket.IPPROTO_IPV6 and kind == socket.IPV6_PKTINFO:  # destination, interface
            sources.append((level, kind, data[:16] + bytes(4)))
    return sources
