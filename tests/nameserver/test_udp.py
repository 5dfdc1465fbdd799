"""Tests of the UDP server's thread, in Python and compiled: errors and its end; conformance asks what it answers."""

import contextlib
import errno
import logging
import random
import socket
import struct
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

import pytest
from tsnameserver.answer import answer
from tsnameserver.compiled import COMPILED
from tsnameserver.compiler import build_zone
from tsnameserver.counters import Counts
from tsnameserver.querylog import QueryLog
from tsnameserver.records import Records
from tsnameserver.sockets import Endpoint, bind
from tsnameserver.udp import UdpServer
from tsnameserver.zone import Serving, Zone

from tests.nameserver.random_queries import ZONES, random_query
from tests.nameserver.samples import SETTINGS, parsed, sample_zone, texts, wire

QUERY = wire("db.tail1234.ts.net")
MISSING = wire("missing.tail1234.ts.net")
IP_RECVERR = 11


LOOPS = [False, pytest.param(True, marks=pytest.mark.skipif(not COMPILED, reason="the compiled loop isn't built"))]


@pytest.fixture(params=LOOPS, ids=["python", "compiled"])
def compiled(request: pytest.FixtureRequest) -> bool:
    """Tell which loop is tested."""
    return bool(request.param)


class Ends(NamedTuple):
    """A server that hasn't been started, its socket and zone, and a client of it."""

    server: UdpServer
    bound: socket.socket
    serving: Serving
    client: socket.socket

    def send(self, *queries: bytes) -> None:
        for query in queries:
            host = "::1" if self.client.family == socket.AF_INET6 else "127.0.0.1"
            self.client.sendto(query, (host, self.server.endpoint.port))

    def ask(self) -> bytes:
        """Send the query, and return the response."""
        self.send(QUERY)
        return self.client.recv(4096)


@contextmanager
def ends(
    host: str = "127.0.0.1",
    *,
    compiled: bool = COMPILED,
    log_seconds: float = 10.0,
    log_queries: int = 0,
    serving: Serving | None = None,
) -> Iterator[Ends]:
    sockets = bind([Endpoint(host, 0)], None)
    bound, serving = sockets.pairs[0].udp, serving or Serving(sample_zone())
    server = UdpServer(bound, serving, QueryLog(log_queries), compiled=compiled, log_seconds=log_seconds)
    with contextlib.closing(sockets), socket.socket(bound.family, socket.SOCK_DGRAM) as client:
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


def broken(zone: Zone) -> Zone:
    """Return a zone in which each query for a name that isn't there is an exception."""
    return replace(zone, apexes={}, loaded=False)


def test_queries_that_fail_are_servfail_said_once_and_counted(compiled: bool, caplog: pytest.LogCaptureFixture) -> None:
    with ends(compiled=compiled) as both:
        good, both.serving.zone = both.serving.zone, broken(both.serving.zone)
        both.server.start()
        for _ in range(3):
            both.send(MISSING)
            response = both.client.recv(512)
            assert (response[:2], response[3] & 0xF) == (MISSING[:2], 2)
        both.serving.zone = good
        assert texts(parsed(both.ask())) == ["100.64.0.1"]
        assert (both.server.failures, both.server.counts.responses()[2]) == (3, 3)
    assert [record.message.endswith("(failure 1)") for record in caplog.records if record.levelname == "ERROR"] == [
        True
    ]


def test_failures_that_go_on_are_said_again(compiled: bool, caplog: pytest.LogCaptureFixture) -> None:
    with ends(compiled=compiled, log_seconds=0.2) as both:
        both.serving.zone = broken(both.serving.zone)
        both.server.start()
        deadline = time.monotonic() + 30
        while len(caplog.records) < 3 and time.monotonic() < deadline:
            both.send(MISSING)
            both.client.recv(512)
    assert len(caplog.records) == 3


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_an_error_of_the_socket_is_counted_and_the_next_query_answered(host: str, compiled: bool) -> None:
    with ends(host, compiled=compiled) as both, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as gone:
        both.bound.setsockopt(socket.IPPROTO_IP, IP_RECVERR, 1)
        gone.bind(("127.0.0.1", 0))
        address = gone.getsockname()
        gone.close()
        both.bound.sendto(b"", address)  # which comes back as an error of the next call
        both.server.start()
        assert both.ask()[:2] == QUERY[:2]
        assert (both.server.failures, sum(both.server.unsent)) == (1, 0)


def told(counts: Counts) -> tuple[object, ...]:
    """Return what is told of queries, whichever path they took."""
    return counts.requests(), counts.responses(), counts.malformed, counts.truncated


def answers(both: Ends, *queries: bytes) -> list[bytes]:
    """Return what a server that hasn't started says to *queries* that wait for it as it is stopped."""
    both.send(*queries)
    both.server.stop()
    both.server.start()
    both.server.join(5)
    assert not both.server.alive
    responses = []
    both.client.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            responses.append(both.client.recv(4096))
    return responses


def test_responses_that_cannot_be_sent_are_counted_and_keep_no_other_packet_waiting(
    compiled: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with ends(compiled=compiled) as both:
        with contextlib.suppress(OSError):  # it isn't connected, but from here on each send is EPIPE
            both.bound.shutdown(socket.SHUT_WR)
        assert answers(both, *numbered(100), wire("ts.net", "SOA")) == []
        assert (both.server.failures, both.server.unsent[errno.EPIPE], sum(both.server.unsent)) == (101, 101, 101)
    assert "a response can't be sent: Broken pipe (failure 1)" in caplog.text


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_queries_without_a_port_to_answer_to_keep_no_other_waiting(host: str, compiled: bool) -> None:
    with ends(host, compiled=compiled) as both:
        both.send(QUERY)
        send_without_a_port(both.server.endpoint.port, QUERY)
        assert [response[:2] for response in answers(both, *numbered(5))] == [
            query[:2] for query in (QUERY, *numbered(5))
        ]
        assert both.server.unsent[errno.EINVAL] == both.server.failures == 1


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_a_loop_answers_and_counts_what_answer_does(host: str, compiled: bool) -> None:
    chance = random.Random(5)
    queries = [random_query(chance) for _ in range(300)]
    counts = Counts()
    alone = [answer(query, ZONES[0], counts) for query in (*queries, b"")]  # the last wakes the thread
    with ends(host, compiled=compiled) as both:
        both.serving.zone = ZONES[0]
        responses = answers(both, *queries)
        assert sorted(responses) == sorted(response for response in alone if response is not None)
        assert told(both.server.counts) == told(counts)


def test_servers_of_several_addresses_answer_from_the_newest_zone(compiled: bool) -> None:
    with ends(compiled=compiled) as first, ends("::1", compiled=compiled, serving=first.serving) as second:
        for each in (first, second):
            each.server.start()
        first.serving.zone = build_zone(Records(ip4={"db.tail1234.ts.net": ["192.0.2.9"]}), SETTINGS)
        assert [texts(parsed(each.ask())) for each in (first, second)] == [["192.0.2.9"]] * 2


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "::1"])
def test_each_query_is_logged_by_wish(host: str, compiled: bool, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with ends(host, compiled=compiled, log_queries=1) as both:
        assert len(answers(both, *numbered(3), MISSING)) == 4
    client = f"client={'::1' if host == '::1' else '127.0.0.1'} transport=udp qname="
    hit = f"{client}db.tail1234.ts.net. qtype=A rcode=NOERROR"
    logged = [record.message for record in caplog.records if record.name == "tsnameserver.querylog"]
    assert logged[:4] == [hit, hit, hit, f"{client}missing.tail1234.ts.net. qtype=A rcode=NXDOMAIN"]


def test_about_so_many_queries_are_logged_and_of_pairs_both(compiled: bool, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with ends(compiled=compiled, log_queries=10) as both:
        assert len(answers(both, *(QUERY, MISSING) * 250)) == 500
    hits = sum("qname=db." in record.message for record in caplog.records)
    misses = sum("qname=missing." in record.message for record in caplog.records)
    assert (hits > 5, misses > 5, 25 < hits + misses < 80) == (True, True, True)


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


def test_a_thread_waits_without_failures_until_it_is_stopped(compiled: bool) -> None:
    with ends(compiled=compiled) as both:
        both.server.start()
        both.server.join(0.3)
        assert (both.server.alive, both.server.failures) == (True, 0)
        both.server.stop()
        both.server.join(1)
        assert not both.server.alive


def test_a_stop_ends_the_thread_while_queries_go_on_coming(compiled: bool) -> None:
    stopped = threading.Event()
    with ends(compiled=compiled) as both, ThreadPoolExecutor(1) as others:

        def flood() -> None:
            while not stopped.is_set():
                both.send(*numbered(50))

        flooding = others.submit(flood)
        both.server.start()
        for _ in range(200):
            both.client.recv(512)
        both.server.stop()
        both.server.join(5)
        stopped.set()
        flooding.result()
        assert not both.server.alive
