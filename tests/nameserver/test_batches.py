"""Tests of batches of packets."""

import errno
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pytest
from tsnameserver.batches import MAX_BATCH, Batches, batches_of
from tsnameserver.sockets import IP_PKTINFO

_IP_RECVERR = 11


class Where(NamedTuple):
    bound: str
    asked: str

    @property
    def family(self) -> socket.AddressFamily:
        return socket.AF_INET6 if ":" in self.bound else socket.AF_INET


LOOPBACK = Where("127.0.0.1", "127.0.0.1")
EVERYWHERE = [LOOPBACK, Where("0.0.0.0", "127.0.0.1"), Where("0.0.0.0", "127.0.0.9"), Where("::", "::1")]


class Ends(NamedTuple):
    """A bound socket's batches, a client, and where the client sends to."""

    batches: Batches
    bound: socket.socket
    client: socket.socket
    server: tuple[str, int]

    def send(self, *queries: bytes) -> None:
        for query in queries:
            self.client.sendto(query, self.server)

    def received(self) -> list[bytes]:
        """Return what has come to the client from where it had sent to: by loopback, all that was sent."""
        responses = []
        try:
            while True:
                response, source = self.client.recvfrom(8192)
                assert source[:2] == self.server
                responses.append(response)
        except BlockingIOError:
            return responses


@contextmanager
def ends(where: Where = LOOPBACK) -> Iterator[Ends]:
    wildcard = where.bound in {"0.0.0.0", "::"}
    with (
        socket.socket(where.family, socket.SOCK_DGRAM) as bound,
        socket.socket(where.family, socket.SOCK_DGRAM) as client,
    ):
        bound.bind((where.bound, 0))
        if where.family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
        else:
            bound.setsockopt(socket.IPPROTO_IP, IP_PKTINFO, 1)
        client.bind((where.asked, 0))
        client.setblocking(False)
        batches = batches_of(bound, sources=wildcard)
        assert batches is not None
        yield Ends(batches, bound, client, (where.asked, bound.getsockname()[1]))


def no_failure(error: OSError) -> None:
    raise error


def reversed_bytes(query: bytes) -> bytes:
    return query[::-1]


@pytest.mark.parametrize("where", EVERYWHERE, ids=str)
def test_each_packet_is_answered_from_the_address_that_was_asked(where: Where) -> None:
    with ends(where) as both:
        for turn in range(3):  # what one batch leaves in the buffers must not show in the next
            queries = [f"{turn} {number}".encode() * (1 + number) for number in range(10 - turn)]
            both.send(*queries)
            assert both.batches.exchange(reversed_bytes, no_failure) == len(queries)
            assert both.received() == [query[::-1] for query in queries]


@pytest.mark.parametrize("where", [each for each in EVERYWHERE if each != LOOPBACK], ids=str)
def test_the_route_chooses_an_answers_way_and_not_the_interface_that_the_query_came_by(where: Where) -> None:
    with ends(where) as both:
        both.send(b"a", b"b", b"c")
        assert both.batches.exchange(reversed_bytes, no_failure) == 3
        assert both.batches._buffers.interfaces[:3].tolist() == [0, 0, 0]


def test_without_packets_there_is_nothing_to_wait_for() -> None:
    with ends() as both:
        assert both.batches.exchange(reversed_bytes, no_failure) == 0


def test_packets_past_a_batch_are_left_for_the_next() -> None:
    with ends() as both:
        both.send(*(bytes((number,)) for number in range(MAX_BATCH + 3)))
        assert both.batches.exchange(reversed_bytes, no_failure) == MAX_BATCH
        assert both.batches.exchange(reversed_bytes, no_failure) == 3
        assert both.received() == [bytes((number,)) for number in range(MAX_BATCH + 3)]


@pytest.mark.parametrize("silent", ["", "a", "c", "ab", "bd", "abcd"])
def test_packets_without_a_response_are_left_out(silent: str) -> None:
    with ends() as both:
        both.send(*(letter.encode() for letter in "abcd"))
        assert both.batches.exchange(lambda query: None if query.decode() in silent else query, no_failure) == 4
        assert both.received() == [letter.encode() for letter in "abcd" if letter not in silent]


def provoke_an_error(both: Ends) -> None:
    """Send to a closed port, which comes back as an error of the bound socket's next call."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as closed:
        closed.bind(("127.0.0.1", 0))
        address = closed.getsockname()
    both.bound.sendto(b"", address)


def test_a_response_that_cannot_be_sent_does_not_stop_the_next() -> None:
    failures: list[OSError] = []

    def respond(query: bytes) -> bytes:
        if query == b"d":
            provoke_an_error(both)
        return query

    with ends() as both:
        both.bound.setsockopt(socket.IPPROTO_IP, _IP_RECVERR, 1)
        both.send(b"a", b"b", b"c", b"d")
        assert both.batches.exchange(respond, failures.append) == 4
        assert both.received() == [b"b", b"c", b"d"]
    assert [failure.errno for failure in failures] == [errno.ECONNREFUSED]


def test_a_client_that_has_gone_does_not_keep_the_next_from_its_response() -> None:
    with ends() as both, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as gone:
        both.bound.setsockopt(socket.IPPROTO_IP, _IP_RECVERR, 1)
        gone.sendto(b"gone", both.server)
        gone.close()
        both.send(b"a", b"b")
        assert both.batches.exchange(lambda query: query, no_failure) == 3
        assert both.received() == [b"a", b"b"]


def test_an_error_in_receiving_is_raised_and_the_next_batch_is_answered() -> None:
    with ends() as both:
        both.bound.setsockopt(socket.IPPROTO_IP, _IP_RECVERR, 1)
        provoke_an_error(both)
        both.send(b"a")
        with pytest.raises(ConnectionRefusedError):
            both.batches.exchange(lambda query: query, no_failure)
        assert both.batches.exchange(lambda query: query, no_failure) == 1
        assert both.received() == [b"a"]


def test_a_packet_that_is_too_long_is_cut_off() -> None:
    seen: list[bytes] = []
    with ends() as both:
        both.send(b"a" * 9000, b"b" * 4096, b"", b"c")
        assert both.batches.exchange(seen.append, no_failure) == 4
    assert seen == [b"a" * 4096, b"b" * 4096, b"", b"c"]


def test_a_closed_socket_is_an_error() -> None:
    with ends() as both:
        pass
    with pytest.raises(OSError, match="Bad file descriptor"):
        both.batches.exchange(reversed_bytes, no_failure)


def test_a_system_that_refuses_the_calls_has_no_batches() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as closed:
        pass
    assert batches_of(closed, sources=False) is None
