"""Tests of the UDP server's thread with each of its loops, compiled and in Python: errors and the end of the thread."""

import contextlib
import errno
import logging
import os
import random
import socket
import struct
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

import pytest
from dnsbench.lonely import HERE, client_that_is_gone, in_a_lonely_network
from tsnameserver.answer import answer
from tsnameserver.compiled import COMPILED
from tsnameserver.compiler import build_zone
from tsnameserver.counters import Counts
from tsnameserver.querylog import QueryLog
from tsnameserver.records import Records
from tsnameserver.sockets import Endpoint, bind
from tsnameserver.udp import UdpServer
from tsnameserver.zone import Serving

from tests.nameserver.random_queries import ZONES, random_query
from tests.nameserver.samples import SETTINGS, parsed, sample_zone, texts, wire

QUERY = wire("db.tail1234.ts.net")
MISSING = wire("missing.tail1234.ts.net")
IP_RECVERR = 11
LOOPS = [False, pytest.param(True, marks=pytest.mark.skipif(not COMPILED, reason="the compiled loop isn't built"))]


class Ends(NamedTuple):
    """A UDP server that isn't started yet, its socket, its zone, and a client."""

    server: UdpServer
    bound: socket.socket
    serving: Serving
    client: socket.socket

    def send(self, *queries: bytes) -> None:
        host, port = self.server.endpoint
        for query in queries:
            self.client.sendto(query, ("127.0.0.1" if host == "0.0.0.0" else host, port))

    def ask(self, query: bytes = QUERY) -> bytes:
        self.send(query)
        return self.client.recv(4096)

    def answers(self, *queries: bytes) -> list[bytes]:
        """Send *queries*, and then run the server only until it has handled the waiting packets.

        Return its responses.
        """
        self.send(*queries)
        self.server.stop()
        self.server.start()
        self.server.join(5)
        assert not self.server.alive
        responses = []
        self.client.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                responses.append(self.client.recv(4096))
        return responses

    def break_zone(self) -> None:
        """Give the server a zone in which a query for a missing name raises an exception."""
        self.serving.zone = replace(self.serving.zone, apexes={}, loaded=False)


@contextmanager
def ends(
    host: str, compiled: bool, *, log_seconds: float = 10.0, log_queries: int = 0, serving: Serving | None = None
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


@pytest.fixture
def host() -> str:
    return "127.0.0.1"


@pytest.fixture(params=LOOPS, ids=["python", "compiled"])
def compiled(request: pytest.FixtureRequest) -> bool:
    """True if the compiled loop is tested, False if the loop in Python is."""
    return bool(request.param)


@pytest.fixture
def both(host: str, compiled: bool) -> Iterator[Ends]:
    with ends(host, compiled) as both:
        yield both


on_every_kind_of_socket = pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])


def numbered(count: int) -> list[bytes]:
    return [number.to_bytes(2, "big") + QUERY[2:] for number in range(count)]


def test_udp_queries_whose_answer_raises_get_servfail_and_are_counted_but_logged_only_once(
    both: Ends, caplog: pytest.LogCaptureFixture
) -> None:
    good = both.serving.zone
    both.break_zone()
    both.server.start()
    assert [both.ask(MISSING)[:4] for _ in range(3)] == [MISSING[:2] + b"\x81\x02"] * 3
    both.serving.zone = good
    assert texts(parsed(both.ask())) == ["100.64.0.1"]
    assert (both.server.failures, both.server.counts.responses()[2]) == (3, 3)
    assert [message.endswith("(failure 1)") for message in caplog.messages] == [True]


def test_the_udp_server_logs_again_after_a_while_if_errors_continue(
    compiled: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with ends("127.0.0.1", compiled, log_seconds=0.2) as both:
        both.break_zone()
        both.server.start()
        while len(caplog.records) < 3:
            both.ask(MISSING)
    assert both.server.failures > 3


@on_every_kind_of_socket
def test_the_udp_server_counts_an_error_of_its_socket_and_answers_the_next_query(both: Ends) -> None:
    both.bound.setsockopt(socket.IPPROTO_IP, IP_RECVERR, 1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as gone:
        gone.bind(("127.0.0.1", 0))
        address = gone.getsockname()
    both.bound.sendto(b"", address)  # the refusal of this packet is reported as an error of the next call
    both.server.start()
    assert both.ask()[:2] == QUERY[:2]
    assert (both.server.failures, sum(both.server.unsent)) == (1, 0)


def test_the_udp_server_counts_each_response_that_cannot_be_sent_and_goes_on(
    both: Ends, caplog: pytest.LogCaptureFixture
) -> None:
    with contextlib.suppress(OSError):  # this call fails, but after it each send fails with EPIPE
        both.bound.shutdown(socket.SHUT_WR)
    assert both.answers(*numbered(100), wire("ts.net", "SOA")) == []
    assert (both.server.failures, both.server.unsent[errno.EPIPE], sum(both.server.unsent)) == (101, 101, 101)
    assert "a response can't be sent: Broken pipe (failure 1)" in caplog.text


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="a network of its own needs root")
POD = 208 << 10
"""The size in bytes of the largest send buffer that a process without privileges gets (net.core.wmem_max)."""


@needs_root
@pytest.mark.parametrize("size", [None, POD], ids=["as privileged", "as in a Pod"])
@pytest.mark.parametrize("host", [HERE, "0.0.0.0"])
def test_a_udp_client_that_has_left_the_local_network_delays_no_other_client(
    host: str, compiled: bool, size: int | None
) -> None:
    def ask_both() -> list[str]:
        with ends(host, compiled) as both, client_that_is_gone() as gone:
            if size is not None:
                both.bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, size)
            both.server.start()
            for query in numbered(1000):
                gone.sendto(query, (HERE, both.server.endpoint.port))
            both.client.settimeout(1)  # the system looks for the neighbour for 3 s: no answer waits for that
            return texts(parsed(both.ask()))

    assert in_a_lonely_network(ask_both) == ["100.64.0.1"]


@needs_root
def test_udp_responses_for_which_the_send_buffer_has_no_room_are_dropped_and_counted(
    compiled: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def drop() -> tuple[int, int]:
        with ends(HERE, compiled) as both, client_that_is_gone() as gone:
            both.bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)  # the smallest possible buffer
            for query in (*numbered(100), wire("ts.net", "SOA")):
                gone.sendto(query, (HERE, both.server.endpoint.port))
            both.server.start()
            both.server.join(0.5)
            both.server.stop()
            both.server.join(1)
            assert not both.server.alive
            return both.server.unsent[errno.EAGAIN], both.server.failures

    unsent, failures = in_a_lonely_network(drop)
    assert 90 < unsent == failures <= 101
    assert "a response is dropped, because the send buffer is full: a client on the local network may be" in caplog.text


def test_a_stopping_udp_server_answers_a_limited_number_of_waiting_packets(both: Ends) -> None:
    both.answers(*numbered(3000))
    received = 3000 - (both.server.dropped() or 0)
    assert min(received, 1000) <= sum(both.server.counts.requests().values()) < 1100


@on_every_kind_of_socket
def test_a_query_from_port_0_gets_no_answer_and_delays_no_other_query(both: Ends) -> None:
    port = both.server.endpoint.port
    try:
        raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_UDP)
    except PermissionError:
        pytest.skip("raw sockets, which alone send from port 0, want CAP_NET_RAW")
    both.send(QUERY)
    with raw:
        raw.sendto(struct.pack("!4H", 0, port, 8 + len(QUERY), 0) + QUERY, ("127.0.0.1", 0))
    responses = both.answers(*numbered(5))
    assert [response[:2] for response in responses] == [query[:2] for query in (QUERY, *numbered(5))]
    assert both.server.unsent[errno.EINVAL] == both.server.failures == 1


@on_every_kind_of_socket
def test_both_udp_loops_answer_and_count_queries_like_the_function_answer(both: Ends) -> None:
    chance, counts = random.Random(5), Counts()
    queries = [random_query(chance) for _ in range(300)]
    alone = [answer(query, ZONES[0], counts) for query in (*queries, b"")]  # the empty packet wakes the thread
    both.serving.zone = ZONES[0]
    assert sorted(both.answers(*queries)) == sorted(response for response in alone if response is not None)
    told, expected = (
        (each.requests(), each.responses(), each.malformed, each.truncated) for each in (both.server.counts, counts)
    )
    assert told == expected


def test_udp_servers_at_several_addresses_answer_from_the_newest_zone(both: Ends, compiled: bool) -> None:
    with ends("::1", compiled, serving=both.serving) as other:
        for each in (both, other):
            each.server.start()
        both.serving.zone = build_zone(Records(ip4={"db.tail1234.ts.net": ["192.0.2.9"]}), SETTINGS)
        assert [texts(parsed(each.ask())) for each in (both, other)] == [["192.0.2.9"]] * 2


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "::1"])
def test_the_udp_server_logs_each_query_if_the_settings_ask_for_it(
    host: str, compiled: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with ends(host, compiled, log_queries=1) as both:
        assert len(both.answers(*numbered(3), MISSING)) == 4
    client = f"client={'::1' if host == '::1' else '127.0.0.1'} transport=udp qname="
    hit, miss = "db.tail1234.ts.net. qtype=A rcode=NOERROR", "missing.tail1234.ts.net. qtype=A rcode=NXDOMAIN"
    logged = [record.message for record in caplog.records if record.name == "tsnameserver.querylog"]
    assert logged[:4] == [f"{client}{each}" for each in (hit, hit, hit, miss)]


def test_a_query_log_of_one_in_ten_queries_has_some_of_each_of_two_alternating_queries(
    compiled: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with ends("127.0.0.1", compiled, log_queries=10) as both:
        assert len(both.answers(*(QUERY, MISSING) * 250)) == 500
    hits, misses = (sum(f"qname={name}." in each for each in caplog.messages) for name in ("db", "missing"))
    assert (hits > 5, misses > 5, 25 < hits + misses < 80) == (True, True, True)


def test_the_thread_of_an_idle_udp_server_runs_without_failures_until_it_is_stopped(both: Ends) -> None:
    both.server.start()
    both.server.join(0.3)
    assert (both.server.alive, both.server.failures) == (True, 0)
    both.server.stop()
    both.server.join(1)
    assert not both.server.alive


def test_the_thread_of_a_stopped_udp_server_ends_even_if_queries_keep_arriving(both: Ends) -> None:
    stopped = threading.Event()

    def flood() -> None:
        while not stopped.is_set():
            both.send(*numbered(50))

    with ThreadPoolExecutor(1) as others:
        flooding = others.submit(flood)
        both.server.start()
        for _ in range(200):
            both.client.recv(512)
        both.server.stop()
        both.server.join(5)
        stopped.set()
        flooding.result()
    assert not both.server.alive
