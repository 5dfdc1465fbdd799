"""Measures the latency of a victim: a client that sends queries to a server while another client attacks the server.

A victim sends each query after the answer to its previous query.
"""

import contextlib
import os
import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path

from dnsload.client import Query, Seen
from dnsload.tally import Tally

from dnsbench.errors import BenchError
from dnsbench.servers import is_right

_HOST, _VICTIM = "127.0.0.1", "127.0.0.9"
_PATIENCE = 1.0
"""Seconds after which a missing answer counts as lost. A kubelet waits as long for a probe."""
_PAUSE = 0.01
"""Seconds between an answer and the victim's next query."""
_REQUEST = b"GET /healthz HTTP/1.1\r\nHost: server\r\n\r\n"


class Victim(StrEnum):
    """The sorts of victims, by the way in which they send their queries. Each query has a new socket."""

    PROBE = "/healthz"
    TCP = "TCP"
    UDP = "UDP"


@contextmanager
def pinned(core: int) -> Iterator[None]:
    """Pin this thread to the CPU core *core* during the block."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def watch(victim: Victim, query: Query, port: int, log: Path, seconds: float) -> Seen:
    """Send queries as *victim* for *seconds*, and return the results. Raises BenchError.

    The port for probes is read from *log*, the server's log file.
    """
    asks: dict[Victim, Callable[[], bool]] = {
        Victim.PROBE: lambda: _probe(_port_of_probes(log)),
        Victim.TCP: lambda: is_right(query, _by_tcp(query, port)),
        Victim.UDP: lambda: is_right(query, _by_udp(query, port)),
    }
    tally = Tally()
    begun = answered = time.monotonic()
    longest = 0.0
    while (asked := time.monotonic()) < begun + seconds:
        tally.sent += 1
        with contextlib.suppress(OSError):
            right = asks[victim]()
            tally.right += right
            tally.wrong += not right
            longest, answered = max(longest, time.monotonic() - answered), time.monotonic()
        tally.latencies.append(round(1e9 * (time.monotonic() - asked)))  # if the answer is lost, the time waited for it
        time.sleep(_PAUSE)
    tally.lost = tally.sent - tally.answered
    tally.flush()
    gap = round(1e9 * max(longest, time.monotonic() - answered))
    return Seen(True, seconds, seconds, idle_seconds=seconds, gap_ns=gap, tally=tally)


def _port_of_probes(log: Path) -> int:
    said = re.search(r"probes on \S*:(\d+)", log.read_text(errors="replace"))
    if said is None:
        raise BenchError("the server has no port for probes")
    return int(said[1])


def _connected(port: int) -> socket.socket:
    return socket.create_connection((_HOST, port), _PATIENCE, source_address=(_VICTIM, 0))


def _probe(port: int) -> bool:
    with _connected(port) as client:
        client.sendall(_REQUEST)
        return client.recv(4096).startswith(b"HTTP/1.1 200 ")


def _by_tcp(query: Query, port: int) -> bytes:
    with _connected(port) as client:
        client.sendall(len(query.packet).to_bytes(2, "big") + query.packet)
        return client.recv(4096)[2:]


def _by_udp(query: Query, port: int) -> bytes:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(_PATIENCE)
        client.connect((_HOST, port))
        client.send(query.packet)
        return client.recv(4096)
