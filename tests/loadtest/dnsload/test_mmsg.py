"""Tests of batched system calls, on loopback."""

import socket
import time
from collections.abc import Iterator

import pytest
from dnsload.mmsg import BATCH, Batches, stamp_arrivals

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    """Two UDP sockets that are connected to each other."""
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as left,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as right,
    ):
        left.bind(("127.0.0.1", 0))
        right.bind(("127.0.0.1", 0))
        left.connect(right.getsockname())
        right.connect(left.getsockname())
        stamp_arrivals(right)
        yield left, right


def received(batches: Batches, connected: socket.socket) -> list[tuple[int, bytes, int]]:
    got: list[tuple[int, bytes, int]] = []
    count = batches.receive(connected, lambda *each: got.append(each))
    assert count >= len(got)
    return got


def test_packets_arrive_with_consecutive_ids(pair: Pair) -> None:
    batches = Batches()
    packets = [bytes([number]) * (number + 1) for number in range(100)]
    batches.fill(packets, 0xFFFE)
    assert batches.send(pair[0], 0, 100) == 100
    got = received(batches, pair[1])
    assert [number for number, _, _ in got] == [(0xFFFE + number) % 65536 for number in range(100)]
    assert [answer for _, answer, _ in got] == packets


def test_a_part_of_a_batch_can_be_sent(pair: Pair) -> None:
    batches = Batches()
    batches.fill([b"a", b"b", b"c"], 0)
    batches.send(pair[0], 1, 2)
    assert [answer for _, answer, _ in received(batches, pair[1])] == [b"b", b"c"]


def test_arrivals_are_when_the_kernel_got_them_not_when_they_were_read(pair: Pair) -> None:
    batches = Batches()
    for _ in range(3):  # the kernel turns stamping on a moment after it is asked to
        batches.fill([b"x"] * BATCH, 0)
        before = time.monotonic_ns()
        batches.send(pair[0], 0, BATCH)
        after = time.monotonic_ns()
        got = received(batches, pair[1])
        assert len(got) == BATCH
    assert all(before - 100_000 <= arrived <= after + 100_000 for _, _, arrived in got)


def test_an_empty_socket_blocks(pair: Pair) -> None:
    with pytest.raises(BlockingIOError):
        received(Batches(), pair[1])


def test_a_datagram_shorter_than_an_id_is_left_out(pair: Pair) -> None:
    pair[0].send(b"")
    pair[0].send(b"x")
    pair[0].send(b"\x00\x05")
    assert [(number, answer) for number, answer, _ in received(Batches(), pair[1])] == [(5, b"")]


def test_an_unreachable_port_is_an_oserror(pair: Pair) -> None:
    batches = Batches()
    pair[1].close()
    batches.fill([b"x"], 0)
    batches.send(pair[0], 0, 1)
    with pytest.raises(ConnectionRefusedError):
        batches.send(pair[0], 0, 1)
