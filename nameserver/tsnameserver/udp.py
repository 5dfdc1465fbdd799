"""Answers by UDP: one blocking thread a socket, since waking an event loop for each packet costs twice as much."""

import contextlib
import errno
import logging
import socket
import struct
import threading
import time
from array import array
from collections.abc import Callable, Iterable
from itertools import islice

from tsnameserver.answer import answer, failure
from tsnameserver.batches import MAX_QUERY, Batches, batches_of
from tsnameserver.counters import Counts
from tsnameserver.message import SERVFAIL
from tsnameserver.sockets import IP_PKTINFO, Endpoint, dropped_packets
from tsnameserver.zone import Serving

log = logging.getLogger(__name__)

_TURNS = 16
"""Packets that are received one by one, and naps that are taken, before it is looked which is better now."""
_BUSY_SECONDS = _TURNS * 250e-6
"""In less time for so many packets it pays to let them gather."""
_NAP_SECONDS = 400e-6
"""How long packets gather. At 10,000 queries a second it halves the processor time of each, most of which goes into
waking up, and adds 0.3 ms to the median answer."""
_QUEUED = 8
"""From so many packets at a time on there is no nap: more have come meanwhile."""
_WAKE_MICROSECONDS = 200_000
"""How long a receive lasts, and so how long a stop takes while nobody asks."""
_DRAIN_PACKETS = 1000
"""What has been received before a stop is still answered, up to this many."""
_ERRNOS = max(errno.errorcode) + 1
_ANCILLARY_BYTES = socket.CMSG_SPACE(20)
_Ancillary = list[tuple[int, int, bytes]]


class UdpServer:
    """Answers what arrives at one bound socket, which may be closed once it is joined."""

    def __init__(
        self, bound: socket.socket, serving: Serving, *, batched: bool = True, log_seconds: float = 10.0
    ) -> None:
        """Take a *bound* socket; failures are logged once in *log_seconds*."""
        self._socket = bound
        self._serving = serving
        self._stopping = threading.Event()
        self._log_seconds = log_seconds
        self._last_logged = float("-inf")
        self.failures = 0
        """Packets that couldn't be received, answered or sent."""
        self.unsent = array("Q", bytes(8 * _ERRNOS))
        """Responses that couldn't be sent, by errno."""
        self.queued = 0
        """Packets that were received in batches."""
        self.endpoint = Endpoint(*bound.getsockname()[:2])
        self._wildcard = self.endpoint.host in {"0.0.0.0", "::"}
        if self._wildcard:
            _ask_for_destinations(bound)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("@ll", 0, _WAKE_MICROSECONDS))
        self._batches = batches_of(bound, sources=self._wildcard) if batched else None
        self.counts = Counts()
        self._thread = threading.Thread(target=self._run, name=f"udp {self.endpoint}", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Tell whether the thread runs."""
        return self._thread.is_alive()

    def dropped(self) -> int | None:
        """Return how many packets the receive buffer had no room for, where the system tells."""
        return dropped_packets(self._socket)

    def stop(self) -> None:
        """Tell the thread to answer what has been received, and end."""
        self._stopping.set()
        loopback = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.endpoint.host, self.endpoint.host)
        with contextlib.suppress(OSError):  # it has ended; and if it can't be woken it wakes by itself
            self._socket.sendto(b"", (loopback, self.endpoint.port))

    def join(self, seconds: float) -> None:
        """Wait up to *seconds* for the thread to end."""
        self._thread.join(seconds)

    def _run(self) -> None:
        serve = self._serve_every_address if self._wildcard else self._serve_one_address
        while not self._stopping.is_set():
            try:
                if self._batches is None:
                    serve(iter(self._stopping.is_set, True))
                else:
                    self._serve_adaptively(serve, self._batches)
            except BlockingIOError:
                continue  # nothing for a while
            except OSError as error:
                self._failed(f"{type(error).__name__}: {error}")
                self._stopping.wait(0.001)  # an error that stays must not take a whole processor
        self._socket.setblocking(False)
        with contextlib.suppress(OSError):  # BlockingIOError once all is answered
            serve(range(_DRAIN_PACKETS))

    def _serve_adaptively(self, serve: Callable[[Iterable[object]], None], batches: Batches) -> None:
        """Answer packets singly as long as few come, and in batches while they queue up or gather."""
        while not self._stopping.is_set():
            began = time.monotonic()
            serve(islice(iter(self._stopping.is_set, True), _TURNS))
            if time.monotonic() - began < _BUSY_SECONDS:
                while self._gather(batches) >= _TURNS and not self._stopping.is_set():
                    continue

    def _gather(self, batches: Batches) -> int:
        """Answer in batches what comes in the time of some naps; returns how many."""
        gathered = 0
        for _ in range(_TURNS):
            count = batches.exchange(self._response, self._not_sent)
            gathered += count
            if count < _QUEUED:
                time.sleep(_NAP_SECONDS)
        self.queued += gathered
        return gathered

    def _serve_one_address(self, turns: Iterable[object]) -> None:
        """Answer a packet each turn; raises OSError, after which another call goes on."""
        receive, send = self._socket.recvfrom, self._socket.sendto
        for _ in turns:
            query, client = receive(MAX_QUERY)
            response = self._response(query)
            if response is not None:
                try:
                    send(response, client)
                except OSError as error:
                    self._not_sent(error)

    def _serve_every_address(self, turns: Iterable[object]) -> None:
        """Do the same on a wildcard socket: each answer comes from the address that was asked."""
        receive, send = self._socket.recvmsg, self._socket.sendmsg
        for _ in turns:
            query, ancillary, _, client = receive(MAX_QUERY, _ANCILLARY_BYTES)
            response = self._response(query)
            if response is not None:
                try:
                    send((response,), _sources(ancillary), 0, client)
                except OSError as error:
                    self._not_sent(error)

    def _response(self, query: bytes) -> bytes | None:
        try:
            return answer(query, self._serving.zone, self.counts)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with one query, the next is answered
            self._failed(f"{type(error).__name__}: {error}, on {query[:512].hex()}")
            response = failure(query)
            self.counts.add_general(response, SERVFAIL)
            return response

    def _not_sent(self, error: OSError) -> None:
        """Count a response that the system didn't take: the next packet is due, whatever is wrong with this one.

        Anyone can cause it, by a source port of 0 (EINVAL); so can a full table of connections or a rule (EPERM).
        """
        self.unsent[error.errno or 0] += 1
        self._failed(f"{type(error).__name__}: {error}")

    def _failed(self, what: str) -> None:
        self.failures += 1
        now = time.monotonic()
        if now - self._last_logged >= self._log_seconds:
            self._last_logged = now
            log.error("udp %s: %s (failure %d)", self.endpoint, what, self.failures)


def _ask_for_destinations(bound: socket.socket) -> None:
    if bound.family == socket.AF_INET6:
        bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
    else:
        bound.setsockopt(socket.IPPROTO_IP, IP_PKTINFO, 1)


def _sources(ancillary: _Ancillary) -> _Ancillary:
    """Turn where a packet came to into where its answer comes from; the route, not the interface, chooses the way."""
    sources = []
    for level, kind, data in ancillary:
        if level == socket.IPPROTO_IP and kind == IP_PKTINFO:  # interface, local address, destination
            sources.append((level, kind, bytes(4) + data[4:8] + bytes(4)))
        elif level == socket.IPPROTO_IPV6 and kind == socket.IPV6_PKTINFO:  # destination, interface
            sources.append((level, kind, data[:16] + bytes(4)))
    return sources
