"""Tests of the UDP server's thread: errors, batches and its end; what it answers is asked in conformance."""

import contextlib
import errno
import random
import socket
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import NamedTuple, cast

import pytest
from tsnameserver.answer import answer
from tsnameserver.sockets import Endpoint, bind
from tsnameserver.udp import UdpServer
from tsnameserver.zone import Serving, Zone

from tests.nameserver.random_queries import ZONES, random_query
from tests.nameserver.samples import parsed, sample_zone, texts, wire

QUERY = wire("db.tail1234.ts.net")
IP_RECVERR = 11


class Ends(NamedTuple):
    """A server that hasn't been started, its socket and zone, and a client of it."""

    server: UdpServer
    bound: socket.socket
    serving: Serving
    client: socket.socket

    def send(self, *queries: bytes) -> None:
        for query in queries:
            self.client.sendto(query, ("127.0.0.1", self.server.endpoint.port))

    def ask(self) -> bytes:
        """Send the query, and return the response."""
        self.send(QUERY)
        return self.client.recv(4096)


@contextmanager
def ends(host: str = "127.0.0.1", *, batched: bool = True, log_seconds: float = 10.0) -> Iterator[Ends]:
    sockets = bind([Endpoint(host, 0)], None)
    bound, serving = sockets.pairs[0].udp, Serving(sample_zone())
    server = UdpServer(bound, serving, batched=batched, log_seconds=log_seconds)
    with contextlib.closing(sockets), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        client.settimeout(30)
        try:
            yield Ends(server, bound, serving, client)
        finally:
            if server.alive:
                server.stop()
                server.join(1)


def numbered(count: int) -> list[bytes]:
    return [number.to_bytes(2, "big") + QUERY[2:] for number in range(count)]


def send_without_a_port(port: int, query: bytes) -> None:
    """Send *query* from port 0, as only a raw socket can."""
    try:
        raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_UDP)
    except PermissionError:
        pytest.skip("raw sockets want CAP_NET_RAW")
    with raw:
        raw.sendto(struct.pack("!4H", 0, port, 8 + len(query), 0) + query, ("127.0.0.1", 0))


def test_queries_that_fail_are_servfail_said_once_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    with ends() as both:
        good, both.serving.zone = both.serving.zone, cast("Zone", None)
        both.server.start()
        for _ in range(3):
            response = both.ask()
            assert (response[:2], response[3] & 0xF) == (QUERY[:2], 2)
        both.serving.zone = good
        assert texts(parsed(both.ask())) == ["100.64.0.1"]
        assert (both.server.failures, both.server.counts.responses()[2]) == (3, 3)
    assert [record.message.endswith("(failure 1)") for record in caplog.records if record.levelname == "ERROR"] == [
        True
    ]


def test_failures_that_go_on_are_said_again(caplog: pytest.LogCaptureFixture) -> None:
    with ends(log_seconds=0.2) as both:
        both.serving.zone = cast("Zone", None)
        both.server.start()
        deadline = time.monotonic() + 30
        while len(caplog.records) < 3 and time.monotonic() < deadline:
            both.ask()
    assert len(caplog.records) == 3


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
@pytest.mark.parametrize("batched", [False, True], ids=["single", "batched"])
def test_an_error_of_the_socket_is_counted_and_the_next_query_answered(host: str, batched: bool) -> None:
    *many, last = numbered(20)
    with ends(host, batched=batched) as both, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as gone:
        both.bound.setsockopt(socket.IPPROTO_IP, IP_RECVERR, 1)
        both.send(*many)  # so many that the rest comes in a batch
        gone.sendto(QUERY, ("127.0.0.1", both.server.endpoint.port))
        gone.close()  # so that the response to it comes back as an error of the next call
        both.send(b"", QUERY, last)
        both.server.start()
        while both.client.recv(512)[:2] != last[:2]:
            continue
        assert both.server.failures == 1


def test_queries_that_have_arrived_before_a_stop_are_answered() -> None:
    with ends() as both:
        both.send(*numbered(50))
        both.server.stop()
        both.server.start()
        both.server.join(1)
        assert not both.server.alive
        both.client.setblocking(False)
        assert [both.client.recv(512)[:2] for _ in range(50)] == [query[:2] for query in numbered(50)]


def test_responses_that_cannot_be_sent_are_counted_and_keep_no_other_packet_waiting() -> None:
    with ends() as both:
        with contextlib.suppress(OSError):  # it isn't connected, but from here on each send is EPIPE
            both.bound.shutdown(socket.SHUT_WR)
        both.send(*numbered(50))
        both.server.stop()
        both.server.start()
        both.server.join(1)
        assert (both.server.failures, both.server.unsent[errno.EPIPE], sum(both.server.unsent)) == (50, 50, 50)


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_queries_without_a_port_to_answer_to_keep_no_other_waiting(host: str) -> None:
    with ends(host) as both:
        both.send(QUERY)
        send_without_a_port(both.server.endpoint.port, QUERY)
        both.send(*numbered(5))
        both.server.stop()
        both.server.start()
        both.server.join(1)
        assert [both.client.recv(512)[:2] for _ in range(6)] == [query[:2] for query in (QUERY, *numbered(5))]
        assert both.server.unsent[errno.EINVAL] == both.server.failures == 1


def answers(queries: Sequence[bytes], *, batched: bool) -> list[bytes]:
    """Return what a server says to *queries* that wait for it when it starts."""
    with ends("0.0.0.0", batched=batched) as both:
        both.serving.zone = ZONES[0]
        both.send(*queries, QUERY)
        both.server.start()
        responses = [both.client.recv(4096)]
        while texts(parsed(responses[-1])) != ["100.64.0.1"] or responses[-1][:2] != QUERY[:2]:
            responses.append(both.client.recv(4096))
        both.server.stop()
        both.server.join(1)
        assert both.server.queued > len(queries) // 2 if batched else both.server.queued == 0
        asked = sum(both.server.counts.requests().values())
        assert asked - len(queries) in {1, 2}  # the last query, and perhaps the packet that wakes the thread
    return responses


def test_batches_answer_as_single_packets_do() -> None:
    chance = random.Random(5)
    queries = [random_query(chance) for _ in range(200)]
    responses = answers(queries, batched=True)
    assert responses == answers(queries, batched=False)
    assert responses[:-1] == [alone for query in queries if (alone := answer(query, ZONES[0])) is not None]


def test_packets_without_room_are_counted() -> None:
    with ends() as both:
        assert both.server.dropped() == 0
        both.bound.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        both.send(*numbered(100))
        both.bound.setblocking(False)
        room = 0
        with contextlib.suppress(BlockingIOError):
            while both.bound.recv(512):
                room += 1
        assert both.server.dropped() == 100 - room > 0


def test_a_thread_waits_without_failures_until_it_is_stopped() -> None:
    with ends() as both:
        both.server.start()
        both.server.join(0.3)
        assert (both.server.alive, both.server.failures) == (True, 0)
        both.server.stop()
        both.server.join(1)
        assert not both.server.alive


def test_a_stop_ends_the_thread_while_queries_go_on_coming() -> None:
    stopped = threading.Event()
    with ends() as both, ThreadPoolExecutor(1) as others:

        def flood() -> None:
            while not stopped.is_set():
                both.send(*numbered(50))

        flooding = others.submit(flood)
        both.server.start()
        while not both.server.queued:
            both.client.recv(512)
        both.server.stop()
        both.server.join(5)
        stopped.set()
        flooding.result()
        assert not both.server.alive
